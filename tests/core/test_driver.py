"""What a driver of the user's own is told, and what it sees of its timer."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import Timer
from sojourn.errors import NotInitialised

if TYPE_CHECKING:
    from sojourn.core.clock import Driver

NOTHING_WAITS = 2**63 - 1
WAIT_S = 30.0


class HandDriven:
    """A clock set by hand, whose driver notes what it is told and leaves the rest to the test."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.told: list[object] = []

    def now_ns(self) -> int:
        return self.now_ms * 1_000_000

    def drive(self, timer: Timer) -> Driver:
        return self

    def wake(self) -> None:
        self.told.append("wake")

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        self.told.append(("wait", seen, timeout_ms))

    def close(self, finish: bool, wait: bool) -> None:
        self.told.append(("close", finish, wait))

    def hears(self) -> list[object]:
        """What it was told since it was last asked."""
        told, self.told = self.told, []
        return told


@pytest.fixture
def clock() -> HandDriven:
    return HandDriven()


@pytest.fixture
def timer(clock: HandDriven) -> Timer:
    return Timer(clock)


def nothing() -> None: ...


def test_only_a_task_that_changes_its_plans_wakes_a_driver(timer: Timer, clock: HandDriven) -> None:
    timer.call_later(50, nothing)
    assert clock.hears() == ["wake"]
    timer.call_later(60, nothing)  # later than the first
    timer.call_later(50, nothing)  # in the same bucket
    assert clock.hears() == []
    timer.call_later(30, nothing)  # earlier
    assert clock.hears() == ["wake"]
    timer.call_later(0, nothing)  # at once
    assert clock.hears() == ["wake"]


def test_a_turn_makes_ready_what_is_due_and_counts_each_bucket_that_expired(
    timer: Timer, clock: HandDriven
) -> None:
    ran: list[int] = []
    timer.run_ready()  # with nothing there it does nothing
    for delay_ms in (3, 3, 5, 7):
        timer.call_later(delay_ms, ran.append, delay_ms)
    assert (timer.next_ms(), timer.turn(), timer.has_ready()) == (3, 0, False)
    clock.now_ms = 5
    assert (timer.turn(), timer.expired_buckets) == (2, 2)
    assert (timer.has_ready(), timer.next_ms(), len(timer), ran) == (True, 7, 1, [])
    timer.run_ready()
    assert (timer.has_ready(), ran) == (False, [3, 3, 5])
    clock.now_ms = 7
    assert (timer.turn(), timer.expired_buckets) == (1, 3)
    timer.run_ready()
    assert (timer.next_ms(), timer.turn(), ran) == (NOTHING_WAITS, 0, [3, 3, 5, 7])


def test_advance_clock_has_the_driver_wait_only_while_nothing_has_expired_since_last_asked(
    timer: Timer, clock: HandDriven
) -> None:
    timer.call_later(1, nothing)
    timer.call_later(2, nothing)
    clock.hears()
    assert not timer.advance_clock(0)
    assert clock.hears() == []  # nobody wants to wait
    assert not timer.advance_clock(9)
    assert clock.hears() == [("wait", 0, 9)]
    clock.now_ms = 1
    timer.turn()
    assert timer.advance_clock(9)
    assert clock.hears() == []  # there is something to tell at once
    assert not timer.advance_clock(1)
    assert clock.hears() == [("wait", 1, 1)]


@pytest.mark.parametrize("drop", [True, False])
def test_closing_tells_the_driver_whether_to_finish_and_to_wait(
    timer: Timer, clock: HandDriven, drop: bool
) -> None:
    timer.call_later(5, nothing)
    clock.hears()
    assert timer.close(drop=drop) == drop
    assert clock.hears() == [("close", not drop, True)]
    assert len(timer) == 1 - drop


def test_a_deadline_is_the_first_tick_by_which_the_delay_has_wholly_passed(
    clock: HandDriven,
) -> None:
    timer = Timer(clock, tick_ms=10)
    clock.now_ms = 41
    task = timer.call_later(9, nothing)
    assert task.expiration_ms == 50
    later = timer.call_later(10, nothing)
    assert later.expiration_ms == 60
    at_once = timer.call_later(0, nothing)
    assert at_once.expiration_ms == 41
    assert timer.has_ready()


def test_a_timer_has_levels_of_twenty_milliseconds_unless_told_otherwise(timer: Timer) -> None:
    [level] = timer.snapshot().levels
    assert (level.tick_ms, level.interval_ms) == (1, 20)


class Asked(Executor):
    """An executor that notes what it is asked to run, and does not run it."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.count += 1
        return Future()


def test_an_executor_is_asked_once_for_each_task_that_is_ready(clock: HandDriven) -> None:
    executor = Asked()
    timer = Timer(clock, executor=executor)
    timer.run_ready()
    assert executor.count == 0
    for delay_ms in (1, 1, 2):
        timer.call_later(delay_ms, nothing)
    for now_ms, asked in ((1, 2), (2, 3)):
        clock.now_ms = now_ms
        timer.turn()
        assert timer.has_ready()
        timer.run_ready()
        assert not timer.has_ready()
        timer.run_ready()
        assert executor.count == asked


def test_a_turn_whose_task_was_cancelled_serves_the_next_task(clock: HandDriven) -> None:
    executor = Asked()
    timer = Timer(clock, executor=executor)
    cancelled = timer.call_later(0, nothing)
    timer.run_ready()
    assert cancelled.cancel()
    timer.run_ready()
    timer.call_later(0, nothing)
    timer.run_ready()
    assert executor.count == 1


def test_closing_runs_what_an_executor_gave_back_and_waits_for_it(clock: HandDriven) -> None:
    with ThreadPoolExecutor(1) as threads:
        asked: list[Future[Any]] = []

        class GivesBack(Asked):
            def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
                asked.append(Future() if not asked else threads.submit(fn, *args))
                return asked[-1]

        timer = Timer(clock, executor=GivesBack())
        started, leave = threading.Event(), threading.Event()

        def run() -> None:
            started.set()
            assert leave.wait(WAIT_S)

        timer.call_later(1, run)
        clock.now_ms = 1
        timer.turn()
        timer.run_ready()
        assert asked[0].cancel()  # as an executor does that is shut down
        closing = threading.Thread(target=timer.close)
        closing.start()
        assert started.wait(WAIT_S)
        closing.join(0.1)  # time for a close that does not wait to show itself
        assert closing.is_alive()
        leave.set()
        closing.join(WAIT_S)
        assert not closing.is_alive()


def test_an_empty_timer_is_a_timer_all_the_same(timer: Timer) -> None:
    assert len(timer) == 0
    assert timer


def test_a_timer_whose_clock_could_not_drive_it_was_never_initialised() -> None:
    class Broken(HandDriven):
        def drive(self, timer: Timer) -> Driver:
            raise ZeroDivisionError

    timer = Timer.__new__(Timer)
    with pytest.raises(ZeroDivisionError):
        timer.__init__(Broken())  # type: ignore[misc]
    with pytest.raises(NotInitialised):
        timer.call_later(5, nothing)


def test_closing_logs_how_many_tasks_are_dropped_if_any_are(
    timer: Timer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sojourn")
    for delay_ms in (5, 50):
        timer.call_later(delay_ms, nothing)
    timer.close()
    timer.close()
    assert [record.getMessage() for record in caplog.records] == [
        "timer 'timer' closed with 2 tasks waiting, which are dropped"
    ]
