"""Forking: what a timer does in the child, where its threads do not run."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory, Timer, TimerTask, TimingWheel
from sojourn.errors import Closed, Forked

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

HOUR_MS = 3_600_000
SOON_S = 30


def nothing() -> None: ...


def in_child(work: Callable[[], object]) -> object:
    """Fork, work in the child, and return what that gave, or the error that it raised."""
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # "may lead to deadlocks": our point
        child = os.fork()
    if child == 0:
        signal.alarm(SOON_S)  # a child that hangs is killed
        try:
            answer: object = work()
        except BaseException as error:
            answer = repr(error)
        os.write(send, pickle.dumps(answer))
        sys.stdout.flush()
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        answered = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, "the child hung"
    return pickle.loads(answered)


def refusal(add: Callable[[], object]) -> str:
    with pytest.raises(Forked) as refused:
        add()
    return str(refused.value)


@pytest.mark.parametrize("started", [True, False])
def test_in_the_child_a_timer_on_the_system_clock_says_that_it_was_forked(started: bool) -> None:
    with Timer(name="parent's") as timer:
        task = timer.call_later(HOUR_MS, nothing) if started else TimerTask(5)
        answer = in_child(
            lambda: (
                refusal(lambda: timer.add(TimerTask(5))),
                refusal(lambda: timer.call_later(0, nothing)),
                refusal(lambda: timer.close(drop=False)),
                task.cancel(),
                task.cancel(),
                len(timer),
                timer.advance_clock(1),
                len(timer.snapshot().levels) > 0,
                timer.close(),
                timer.close(),
            )
        )
        refused = (
            'timer "parent\'s" was made before this process was forked, and its threads do not '
            "run here; make a new one"
        )
        assert answer == (refused, refused, refused, started, False, 0, False, True, 0, 0)
        assert len(timer) == started  # in the parent nothing has changed
        ran = threading.Event()
        timer.call_later(1, ran.set)
        assert ran.wait(SOON_S)


def test_in_the_child_closing_drops_what_waited_and_does_not_wait() -> None:
    running, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        running.set()
        go_on.wait(SOON_S)

    with ThreadPoolExecutor(1) as executor:
        for timer in (Timer(), Timer(executor=executor)):
            running.clear()
            with timer:
                timer.call_later(0, slow)
                assert running.wait(SOON_S)
                timer.call_later(0, nothing)
                timer.call_later(HOUR_MS, nothing)
                timer.call_later(HOUR_MS, nothing)
                assert in_child(timer.close) == 2
                go_on.set()
            go_on.clear()


def test_a_closed_timer_is_closed_in_the_child_too() -> None:
    timer = Timer()
    timer.call_later(HOUR_MS, nothing)
    timer.close()
    assert "Closed" in str(in_child(lambda: timer.call_later(1, nothing)))
    with pytest.raises(Closed):
        timer.call_later(1, nothing)


def test_a_new_timer_works_in_the_child() -> None:
    def work() -> bool:
        ran = threading.Event()
        with Timer() as fresh:
            fresh.call_later(1, ran.set)
            return ran.wait(SOON_S)

    with Timer() as timer:
        timer.call_later(HOUR_MS, nothing)
        assert in_child(work) is True


def test_a_purgatory_of_the_parent_refuses_operations_in_the_child() -> None:
    with Purgatory() as purgatory:
        waiting = DelayedOperation(HOUR_MS)
        purgatory.try_complete_else_watch(waiting, ["a"])

        def work() -> object:
            said = refusal(lambda: purgatory.submit(DelayedOperation(5), ["a"]))
            return "forked" in said, waiting.force_complete(), purgatory.close()

        assert in_child(work) == (True, True, 0)
        assert not waiting.is_completed


def test_a_timer_on_a_manual_clock_goes_on_in_the_child() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    ran: list[int] = []
    timer.call_later(5, ran.append, 5)

    def work() -> list[int]:
        timer.call_later(7, ran.append, 7)
        clock.advance(10)
        timer.close()
        return ran

    assert in_child(work) == [5, 7]
    assert ran == []
    clock.advance(10)
    assert ran == [5]


def test_forking_while_other_threads_are_at_the_wheel_leaves_a_whole_wheel_in_the_child() -> None:
    wheel = TimingWheel(wheel_size=2)
    stop = threading.Event()

    def add_and_cancel() -> None:
        while not stop.is_set():
            tasks = [TimerTask(0) for _ in range(20)]
            for delay_ms, task in enumerate(tasks):
                wheel.add(task, 1 + delay_ms)
            for task in tasks:
                task.cancel()

    def work() -> int:
        wheel.add(TimerTask(0), 10**6)
        shown = wheel.snapshot()
        tasks = [task for level in shown.levels for b in level.buckets for task in b.tasks]
        return len(wheel) - len(tasks) + len(wheel.advance(10**6)) - len(tasks)

    threads = [threading.Thread(target=add_and_cancel) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert [in_child(work) for _ in range(20)] == [0] * 20
    finally:
        stop.set()
        for thread in threads:
            thread.join(SOON_S)
