"""The reaper: the threads behind a timer on the system clock."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import SystemClock, Timer, prompt_switching
from sojourn.reaper import Reaper

if TYPE_CHECKING:
    from collections.abc import Callable

    from sojourn.clock import Driver

HOUR_MS = 3_600_000
SOON_S = 30.0


def nothing() -> None: ...


def threads_of(timer: Timer) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(timer.name)]


def test_threads_start_with_the_first_task_and_end_with_the_timer() -> None:
    with Timer(name="threads under test") as timer:
        assert threads_of(timer) == []
        timer.call_later(HOUR_MS, nothing)
        assert len(threads_of(timer)) == 2
        timer.call_later(HOUR_MS, nothing)
        assert len(threads_of(timer)) == 2
    assert threads_of(timer) == []


def test_the_threads_do_not_keep_a_program_from_ending() -> None:
    with Timer(name="daemons under test") as timer:
        timer.call_later(HOUR_MS, nothing)
        assert all(thread.daemon for thread in threads_of(timer))


def test_threads_that_all_add_the_first_task_start_the_reaper_once() -> None:
    for _ in range(20):
        with Timer(name="first under test") as timer:
            go = threading.Barrier(4)

            def add(go: threading.Barrier = go, timer: Timer = timer) -> None:
                go.wait(SOON_S)
                timer.call_later(HOUR_MS, nothing)

            adding = [threading.Thread(target=add) for _ in range(4)]
            for thread in adding:
                thread.start()
            for thread in adding:
                thread.join(SOON_S)
            assert len(threads_of(timer)) == 2
            assert len(timer) == 4


class CountingClock:
    """The system clock, counting how often the time is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def now_ns(self) -> int:
        self.asked += 1
        return time.monotonic_ns()

    def drive(self, timer: Timer) -> Driver:
        return Reaper(timer)


def test_with_nothing_due_nothing_happens() -> None:
    clock = CountingClock()
    with Timer(clock) as timer:
        timer.call_later(HOUR_MS, nothing)
        timer.advance_clock(20)
        settled = clock.asked
        assert not timer.advance_clock(200)
        assert clock.asked == settled


def test_a_clock_of_the_users_own_may_drive_a_timer() -> None:
    ran = threading.Event()
    clock = CountingClock()
    with Timer(clock) as timer:
        timer.call_later(5, ran.set)
        assert ran.wait(SOON_S)
    assert clock.asked > 0


def test_a_subclass_of_the_system_clock_is_asked_for_the_time() -> None:
    class Ahead(SystemClock):
        def now_ns(self) -> int:
            return super().now_ns() + HOUR_MS * 1_000_000

    with Timer(Ahead()) as timer:
        task = timer.call_later(HOUR_MS, nothing)
        assert task.expiration_ms is not None
        assert task.expiration_ms > time.monotonic_ns() // 1_000_000 + 1.5 * HOUR_MS


class Refusing(Executor):
    """An executor that takes nothing for a while, as one does whose queue is full."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self._behind = ThreadPoolExecutor(1)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.refusals:
            self.refusals -= 1
            raise RuntimeError("full on purpose")
        return self._behind.submit(fn, *args, **kwargs)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.usefixtures("caplog")
def test_an_executor_that_refuses_does_not_stop_the_clock() -> None:
    executor = Refusing(refusals=3)
    with Timer(executor=executor, name="refused under test") as timer:
        for _ in range(3):
            timer.call_later(1, nothing)
            timer.advance_clock(1_000)
        ran = threading.Event()
        timer.call_later(1, ran.set)
        went_on = ran.wait(5)
        alive = len(threads_of(timer))
    executor._behind.shutdown()
    assert went_on
    assert alive == 2


def test_many_tasks_from_many_threads_all_run_once() -> None:
    ran: list[int] = []
    each, threads = 500, 4
    with Timer() as timer:

        def add(first: int) -> None:
            for n in range(first, first + each):
                timer.call_later(n % 7, ran.append, n)

        adding = [threading.Thread(target=add, args=(n * each,)) for n in range(threads)]
        for thread in adding:
            thread.start()
        for thread in adding:
            thread.join(SOON_S)
        timer.close(drop=False)
    assert sorted(ran) == list(range(each * threads))


def test_prompt_switching_lasts_as_long_as_its_block() -> None:
    before_s = sys.getswitchinterval()
    with prompt_switching(0.25):
        assert sys.getswitchinterval() == pytest.approx(0.00025)
    assert sys.getswitchinterval() == pytest.approx(before_s)
    with pytest.raises(ZeroDivisionError), prompt_switching():
        raise ZeroDivisionError
    assert sys.getswitchinterval() == pytest.approx(before_s)
