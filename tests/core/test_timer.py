"""The timer on the system clock: never early, in order, and nothing stops it but closing."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING

import pytest

from sojourn import Timer, TimerTask

if TYPE_CHECKING:
    from collections.abc import Callable

from tests.core.system_timer import HOUR_MS, SOON_S, Gate, finish, nothing, until_due

# When.


@pytest.mark.parametrize("tick_ms", [1, 20])
def test_no_task_runs_before_its_delay_has_wholly_passed(tick_ms: int) -> None:
    early: list[tuple[int, int]] = []
    rng = Random(5)
    left = 300
    all_ran = threading.Event()

    def check(delay_ms: int, added_ns: int) -> None:
        nonlocal left
        passed_ns = time.monotonic_ns() - added_ns
        if passed_ns < delay_ms * 1_000_000:
            early.append((delay_ms, passed_ns))
        left -= 1
        if left == 0:
            all_ran.set()

    with Timer(tick_ms=tick_ms) as timer:
        for _ in range(300):
            delay_ms = rng.randint(0, 20)
            timer.call_later(delay_ms, check, delay_ms, time.monotonic_ns())
        assert all_ran.wait(SOON_S)
    assert early == []


@pytest.mark.parametrize("delay_ms", [0, -1, -HOUR_MS, -(2**61) + 1])
def test_a_delay_of_zero_or_less_runs_at_once(timer: Timer, delay_ms: int) -> None:
    ran = threading.Event()
    timer.call_later(HOUR_MS, nothing)
    timer.call_later(delay_ms, ran.set)
    assert ran.wait(SOON_S)
    assert len(timer) == 1


def test_an_earlier_deadline_than_all_others_wakes_the_waiting_thread(timer: Timer) -> None:
    timer.call_later(HOUR_MS, nothing)
    assert not timer.advance_clock(20)  # by now it sleeps for the hour
    ran = threading.Event()
    timer.call_later(5, ran.set)
    assert ran.wait(SOON_S)


def test_centuries_are_waited_for(timer: Timer) -> None:
    for delay_ms in (5 * 3_155_760_000_000, 2**60, 2**61 - 1):
        timer.call_later(delay_ms, nothing)
    ran = threading.Event()
    timer.call_later(1, ran.set)
    assert ran.wait(SOON_S)
    assert (len(timer), timer.errors) == (3, 0)


def test_wall_clock_jumps_change_nothing(timer: Timer, monkeypatch: pytest.MonkeyPatch) -> None:
    wall_s = time.time()
    kept, ran = threading.Event(), threading.Event()
    timer.call_later(HOUR_MS, kept.set)
    for jump_s in (10 * 365 * 86_400.0, -10 * 365 * 86_400.0):
        monkeypatch.setattr(time, "time", lambda jump_s=jump_s: wall_s + jump_s)
        monkeypatch.setattr(time, "time_ns", lambda jump_s=jump_s: int((wall_s + jump_s) * 1e9))
        ran.clear()
        timer.call_later(5, ran.set)
        assert ran.wait(SOON_S)
    assert not kept.is_set()


# In what order, and where.


def test_tasks_run_in_deadline_order(timer: Timer, gate: Gate) -> None:
    ran: list[int] = []
    due_ms: list[int] = []
    rng = Random(9)
    for name in range(200):
        task = timer.call_later(rng.randint(50, 120), ran.append, name)
        assert task.expiration_ms is not None  # nothing runs while the gate is shut
        due_ms.append(task.expiration_ms)
    until_due(timer)
    gate.open()
    finish(timer)
    assert len(ran) == 200
    assert [due_ms[name] for name in ran] == sorted(due_ms)


def test_tasks_run_one_at_a_time_off_the_callers_thread(timer: Timer) -> None:
    inside = 0
    most = 0
    threads: set[threading.Thread] = set()

    def note() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threads.add(threading.current_thread())
        inside -= 1

    for delay_ms in range(30):
        timer.call_later(delay_ms, note)
    until_due(timer)
    finish(timer)
    assert most == 1
    assert threading.current_thread() not in threads


def test_a_slow_task_delays_neither_the_clock_nor_adds(timer: Timer, gate: Gate) -> None:
    ran = threading.Event()
    timer.call_later(1, ran.set)
    assert timer.advance_clock(int(SOON_S * 1000))
    until_due(timer)
    timer.call_later(2, nothing)
    assert timer.advance_clock(int(SOON_S * 1000))
    assert not gate.left
    assert not ran.is_set()  # it is due, and runs after the slow one
    gate.open()
    assert ran.wait(SOON_S)
    assert gate.left


def test_the_users_executor_runs_the_tasks() -> None:
    names: list[str] = []
    done = threading.Event()

    def note(last: bool) -> None:
        names.append(threading.current_thread().name)
        if last:
            done.set()

    executor = ThreadPoolExecutor(1, thread_name_prefix="mine")
    with executor, Timer(executor=executor) as timer:
        timer.call_later(0, note, False)
        timer.call_later(3, note, True)
        assert done.wait(SOON_S)
    assert len(names) == 2
    assert all(name.startswith("mine") for name in names)


def test_with_two_workers_a_slow_task_holds_up_no_other() -> None:
    with ThreadPoolExecutor(2) as executor, Timer(executor=executor) as timer:
        gate = Gate(timer)
        ran = threading.Event()
        timer.call_later(1, ran.set)
        assert ran.wait(SOON_S)
        gate.open()


def test_a_task_cancelled_while_its_executor_is_busy_never_runs_and_the_next_one_does() -> None:
    ran: list[str] = []
    done = threading.Event()
    with ThreadPoolExecutor(1) as executor, Timer(executor=executor) as timer:
        gate = Gate(timer)
        task = timer.call_later(1, ran.append, "cancelled")
        until_due(timer)
        assert task.cancel()
        timer.call_later(1, ran.append, "next")
        timer.call_later(2, done.set)
        until_due(timer)
        gate.open()
        assert done.wait(SOON_S)
    assert ran == ["next"]


# Errors.


def failing(error: type[BaseException]) -> Callable[[], None]:
    def fails_on_purpose() -> None:
        raise error("on purpose")

    return fails_on_purpose


@pytest.mark.parametrize("error", [ValueError, BaseException, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_task_that_raises_is_logged_with_its_name_and_counted_and_nothing_else_stops(
    error: type[BaseException], workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    executor = ThreadPoolExecutor(workers) if workers else None
    with Timer(executor=executor, name="under test") as timer:
        for _ in range(3):
            timer.call_later(1, failing(error))
        until_due(timer)
        finish(timer)
        assert timer.errors == 3
    if executor is not None:
        executor.shutdown()
    records = [record for record in caplog.records if record.name == "sojourn"]
    logged = [record for record in records if record.levelname == "ERROR"]
    assert len(logged) == 3
    for record in logged:
        assert "under test" in record.getMessage()
        assert "fails_on_purpose" in record.getMessage()
        assert record.exc_info is not None
        assert record.exc_info[0] is error


def test_a_task_of_ones_own_class_is_logged_by_its_own_name(
    timer: Timer, caplog: pytest.LogCaptureFixture
) -> None:
    class RefundOrder(TimerTask):
        def run(self) -> None:
            raise ValueError("on purpose")

        def __repr__(self) -> str:
            return "<RefundOrder 1234>"

    timer.add(RefundOrder(1))
    until_due(timer)
    finish(timer)
    assert "<RefundOrder 1234>" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_task_that_fails_and_cannot_even_be_shown_stops_nothing(timer: Timer) -> None:
    class Unshowable:
        def __call__(self) -> None:
            raise ValueError("on purpose")

        def __repr__(self) -> str:
            raise ValueError("on purpose too")

    for _ in range(3):
        timer.call_later(1, Unshowable())
        timer.advance_clock(1_000)
    ran = threading.Event()
    timer.call_later(1, ran.set)
    assert ran.wait(SOON_S)
    assert timer.errors == 3


# Following the clock.


def test_advance_clock_says_once_whether_anything_expired(timer: Timer) -> None:
    assert not timer.advance_clock(0)
    assert not timer.advance_clock(5)
    timer.call_later(1, nothing)
    assert timer.advance_clock(int(SOON_S * 1000))
    until_due(timer)
    timer.advance_clock(0)
    assert not timer.advance_clock(0)


def test_advance_clock_tells_what_expired_before_it_was_asked(timer: Timer) -> None:
    timer.call_later(1, nothing)
    finish(timer)
    assert timer.advance_clock(0)
