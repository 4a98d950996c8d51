"""Closing a timer: what runs, what is dropped, and what an interrupt leaves behind."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sojourn import ManualClock, SystemClock, Timer, TimerTask
from sojourn.errors import Closed

if TYPE_CHECKING:
    from sojourn.core.clock import Driver
from tests.core.system_timer import HOUR_MS, SOON_S, Gate, nothing, until_due

# Closing.


def test_closing_drops_what_waits_and_says_how_many() -> None:
    timer = Timer()
    for _ in range(7):
        timer.call_later(HOUR_MS, nothing)
    assert timer.close() == 7
    assert timer.close() == 0
    assert len(timer) == 0


def test_an_unused_timer_closes() -> None:
    assert Timer().close() == 0
    assert Timer().close(drop=False) == 0


def test_a_closed_timer_takes_no_more() -> None:
    with Timer(name="gone") as timer:
        pass
    for add in (lambda: timer.add(TimerTask(0)), lambda: timer.call_later(5, nothing)):
        with pytest.raises(Closed, match=r"'gone' is closed; make a new one"):
            add()
    assert len(timer) == 0


def test_leaving_the_block_closes_the_timer_also_on_an_error() -> None:
    timer = Timer()
    task = None

    def fail_inside() -> None:
        nonlocal task
        with timer as same:
            assert same is timer
            task = timer.call_later(HOUR_MS, nothing)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert task is not None
    assert not task.cancel()
    with pytest.raises(Closed):
        timer.add(TimerTask(0))


@pytest.mark.parametrize("workers", [0, 1])
def test_closing_waits_for_what_is_running(workers: int) -> None:
    executor = ThreadPoolExecutor(workers) if workers else None
    timer = Timer(executor=executor)
    gate = Gate(timer)
    had_left: list[bool] = []

    def close() -> None:
        timer.close()
        had_left.append(gate.left)

    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.2)  # time for a close that does not wait to show itself
    gate.open()
    closing.join(SOON_S)
    if executor is not None:
        executor.shutdown()
    assert had_left == [True]


def test_closing_runs_what_was_due_already() -> None:
    timer = Timer()
    gate = Gate(timer)
    ran: list[int] = []
    timer.call_later(1, ran.append, 1)
    timer.call_later(2, ran.append, 2)
    until_due(timer)
    dropped: list[int] = []
    closing = threading.Thread(target=lambda: dropped.append(timer.close()))
    closing.start()
    gate.open()
    closing.join(SOON_S)
    assert (ran, dropped) == ([1, 2], [0])


def test_closing_without_dropping_runs_everything_in_its_time() -> None:
    timer = Timer()
    early: list[int] = []
    ran: list[int] = []

    def check(delay_ms: int, added_ns: int) -> None:
        ran.append(delay_ms)
        if time.monotonic_ns() - added_ns < delay_ms * 1_000_000:
            early.append(delay_ms)

    for delay_ms in (60, 5, 25, 1):
        timer.call_later(delay_ms, check, delay_ms, time.monotonic_ns())
    assert timer.close(drop=False) == 0
    assert (sorted(ran), early) == ([1, 5, 25, 60], [])
    with pytest.raises(Closed):
        timer.call_later(1, nothing)


def test_closing_without_dropping_ends_once_the_last_task_is_cancelled() -> None:
    timer = Timer()
    task = timer.call_later(HOUR_MS, nothing)
    assert not timer.advance_clock(20)  # by now the clock's thread sleeps for the hour
    closed = threading.Event()

    def close() -> None:
        timer.close(drop=False)
        closed.set()

    threading.Thread(target=close, daemon=True).start()
    assert not closed.wait(0.05)
    assert task.cancel()
    assert closed.wait(SOON_S)


def test_threads_may_add_and_cancel_while_others_close() -> None:
    """Every add either raises Closed, or its task is run, cancelled or counted as dropped."""
    for _ in range(20):
        timer = Timer()
        ran: list[int] = []
        cancelled: list[int] = []
        added: list[int] = []
        go = threading.Barrier(4)

        def add(
            go: threading.Barrier = go,
            timer: Timer = timer,
            ran: list[int] = ran,
            cancelled: list[int] = cancelled,
            added: list[int] = added,
        ) -> None:
            go.wait(SOON_S)
            for n in range(1_000_000):
                try:
                    task = timer.call_later(n % 3 * HOUR_MS, ran.append, n)
                except Closed:
                    return
                added.append(n)
                if n % 5 == 0 and task.cancel():
                    cancelled.append(n)

        adding = [threading.Thread(target=add) for _ in range(3)]
        for thread in adding:
            thread.start()
        go.wait(SOON_S)
        dropped = timer.close()
        for thread in adding:
            thread.join(SOON_S)
        assert len(added) == len(ran) + len(cancelled) + dropped


# An interrupted close.


class Interrupting:
    """A driver whose closing is interrupted, the first time, as Ctrl-C does."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._interrupts = 1
        self.wake = driver.wake
        self.wait_expired = driver.wait_expired

    def close(self, finish: bool, wait: bool) -> None:
        if self._interrupts:
            self._interrupts -= 1
            self._driver.close(finish, False)
            raise KeyboardInterrupt
        self._driver.close(finish, wait)


class InterruptingClock(SystemClock):
    def drive(self, timer: Timer) -> Driver:
        return Interrupting(super().drive(timer))


@pytest.mark.parametrize("drop", [True, False])
def test_a_timer_whose_close_was_interrupted_stays_closed_and_can_be_closed_again(
    drop: bool,
) -> None:
    timer = Timer(InterruptingClock())
    gate = Gate(timer)
    ran: list[int] = []
    timer.call_later(1, ran.append, 1)
    until_due(timer)
    timer.call_later(HOUR_MS if drop else 20, ran.append, 20)
    with pytest.raises(KeyboardInterrupt):
        timer.close(drop=drop)
    with pytest.raises(Closed):
        timer.call_later(1, nothing)
    closing = threading.Thread(target=lambda: timer.close(drop=drop))
    closing.start()
    closing.join(0.1)  # time for a close that does not wait to show itself
    waited = closing.is_alive()
    gate.open()
    closing.join(SOON_S)
    assert waited
    assert ran == ([1] if drop else [1, 20])
    assert timer.close() == 0


def test_a_second_close_that_drops_ends_the_first_that_does_not() -> None:
    timer = Timer()
    timer.call_later(HOUR_MS, nothing)
    dropped: list[int] = []
    closing = threading.Thread(target=lambda: dropped.append(timer.close(drop=False)))
    closing.start()
    closing.join(0.05)
    assert timer.close() == 1
    closing.join(SOON_S)
    assert dropped == [0]


@pytest.mark.usefixtures("caplog")
def test_an_interrupt_among_tasks_that_the_executor_refused_costs_no_other_task(
    manual_clock: ManualClock,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    ran: list[int] = []
    timer = Timer(manual_clock, executor=executor)
    for name in (1, 2):
        timer.call_later(5, ran.append, name)
        timer.call_later(5, interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            manual_clock.advance(5)
    assert ran == [1, 2]


def test_closing_runs_what_an_interrupt_left_ready(
    manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    ran: list[int] = []
    timer = Timer(manual_clock)
    for name in (1, 2):
        timer.call_later(5, interrupted)
        timer.call_later(5, ran.append, name)
    with pytest.raises(KeyboardInterrupt):
        manual_clock.advance(5)
    with pytest.raises(KeyboardInterrupt):
        timer.close()
    with pytest.raises(Closed):
        timer.call_later(5, nothing)
    assert timer.close() == 0
    assert ran == [1, 2]
    assert timer.errors == 2 == len(caplog.records)
