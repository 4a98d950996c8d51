"""The timer on the system clock: never early, in order, and nothing stops it but closing."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING

import pytest

from sojourn import ManualClock, SystemClock, Timer, TimerTask
from sojourn.errors import AlreadyWaiting, Closed, TaskReleased

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sojourn.core.clock import Driver

HOUR_MS = 3_600_000
SOON_S = 30.0  # far longer than anything here takes, so that only a fault runs into it


def nothing() -> None: ...


@pytest.fixture
def timer() -> Iterator[Timer]:
    with Timer() as timer:
        yield timer


class Gate:
    """A task that runs until it is let go of: what a slow task looks like."""

    def __init__(self, timer: Timer) -> None:
        self._open = threading.Event()
        self.left = False
        running = threading.Event()

        def hold() -> None:
            running.set()
            assert self._open.wait(SOON_S)
            self.left = True

        timer.call_later(0, hold)
        assert running.wait(SOON_S)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(timer: Timer) -> Iterator[Gate]:
    gate = Gate(timer)
    yield gate
    gate.open()


def finish(timer: Timer) -> None:
    """Wait until everything that is due has run."""
    ran = threading.Event()
    timer.call_later(1, ran.set)
    assert ran.wait(SOON_S)


def until_due(timer: Timer) -> None:
    """Wait until nothing waits in the wheel any more."""
    while len(timer):
        assert timer.advance_clock(int(SOON_S * 1000))


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
    assert ran.wait(5)
    assert timer.errors == 3


# From inside a task.


def test_a_task_may_add_tasks(timer: Timer) -> None:
    ran: list[int] = []
    done = threading.Event()

    def step(n: int) -> None:
        ran.append(n)
        if n == 5:
            done.set()
        else:
            timer.call_later(n % 2, step, n + 1)

    timer.call_later(1, step, 1)
    assert done.wait(SOON_S)
    assert ran == [1, 2, 3, 4, 5]


def test_a_task_may_cancel_its_neighbours(timer: Timer, gate: Gate) -> None:
    ran: list[str] = []
    said: list[bool] = []
    neighbours: list[TimerTask] = []
    timer.call_later(1, lambda: said.extend(task.cancel() for task in neighbours))
    neighbours.append(timer.call_later(30, ran.append, "due as well"))
    until_due(timer)
    neighbours.append(timer.call_later(HOUR_MS, ran.append, "waiting"))
    gate.open()
    finish(timer)
    assert (ran, said, len(timer)) == ([], [True, True], 0)


def test_a_task_that_cancels_itself_is_too_late(timer: Timer) -> None:
    said: list[bool] = []
    tasks: list[TimerTask] = []
    tasks.append(TimerTask(1, lambda: said.append(tasks[0].cancel())))
    timer.add(tasks[0])
    until_due(timer)
    finish(timer)
    assert said == [False]


@pytest.mark.parametrize("drop", [True, False])
def test_a_task_may_close_its_timer_and_does_not_wait_for_itself_or_for_others(
    drop: bool,
) -> None:
    timer = Timer()
    closed = threading.Event()
    waiting = timer.call_later(HOUR_MS, nothing)

    def close() -> None:
        timer.close(drop=drop)
        closed.set()

    timer.call_later(1, close)
    in_time = closed.wait(5)
    with pytest.raises(Closed):
        timer.call_later(1, nothing)
    waiting.cancel()
    assert in_time


# Cancelling and adding again.


def test_size_drops_at_once_on_cancel(timer: Timer) -> None:
    first, second = timer.call_later(HOUR_MS, nothing), timer.call_later(HOUR_MS, nothing)
    assert len(timer) == 2
    assert first.cancel()
    assert len(timer) == 1
    assert not first.cancel()
    assert second.cancel()
    assert len(timer) == 0


def test_cancelling_what_is_due_and_has_not_run_prevents_it(timer: Timer, gate: Gate) -> None:
    ran: list[str] = []
    task = timer.call_later(1, ran.append, "cancelled")
    until_due(timer)
    assert task.cancel()
    assert not task.cancel()
    gate.open()
    finish(timer)
    assert ran == []


def test_adding_a_waiting_task_starts_its_delay_anew() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    ran: list[int] = []
    task = TimerTask(10, lambda: ran.append(clock.now_ms))
    timer.add(task)
    clock.advance(6)
    timer.add(task)
    assert len(timer) == 1
    clock.advance(100)
    assert ran == [16]


def test_adding_a_task_that_is_due_and_has_not_run_starts_its_delay_anew(
    timer: Timer, gate: Gate
) -> None:
    class Hour(TimerTask):
        ran = 0

        def run(self) -> None:
            Hour.ran += 1

    task = Hour(1)
    timer.add(task)
    until_due(timer)
    timer.add(task)
    assert len(timer) == 1
    until_due(timer)
    gate.open()
    finish(timer)
    assert Hour.ran == 1


def test_a_task_with_its_own_run_may_be_added_again_and_again(timer: Timer) -> None:
    done = threading.Event()

    class Heartbeat(TimerTask):
        beats = 0

        def run(self) -> None:
            self.beats += 1
            if self.beats == 5:
                done.set()
            else:
                timer.add(self)

    heartbeat = Heartbeat(1)
    timer.add(heartbeat)
    assert done.wait(SOON_S)
    heartbeat.beats = 0
    done.clear()
    timer.add(heartbeat)
    assert heartbeat.cancel()
    timer.add(heartbeat)
    assert done.wait(SOON_S)


def test_a_plain_task_is_for_one_use() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    ran: list[int] = []
    used = timer.call_later(5, ran.append, 5)
    clock.advance(5)
    cancelled = timer.call_later(5, ran.append, 10)
    cancelled.cancel()
    for task in (used, cancelled):
        with pytest.raises(TaskReleased, match="make a new one, or subclass"):
            timer.add(task)
    clock.advance(100)
    assert (ran, len(timer)) == ([5], 0)


def test_a_plain_task_that_is_run_by_hand_a_second_time_says_so() -> None:
    ran: list[int] = []
    task = TimerTask(5, lambda: ran.append(1))
    task.run()
    with pytest.raises(TaskReleased):
        task.run()
    assert ran == [1]


def test_a_task_of_another_timer_is_refused_and_runs_there() -> None:
    clock = ManualClock()
    first, second = Timer(clock), Timer(clock)
    ran: list[int] = []
    task = first.call_later(5, lambda: ran.append(clock.now_ms))
    clock.advance(1)
    with pytest.raises(AlreadyWaiting, match="cancel it there first"):
        second.add(task)
    assert (len(first), len(second)) == (1, 0)
    clock.advance(100)
    assert ran == [5]


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
    assert closed.wait(5)


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


# No dead weight.


class Owner:
    """Something whose method is a callback: it must not outlive the need for it."""

    def called(self) -> None: ...


def owned_task(timer: Timer, delay_ms: int) -> tuple[TimerTask, weakref.ref[Owner]]:
    owner = Owner()
    return timer.call_later(delay_ms, owner.called), weakref.ref(owner)


def test_a_cancelled_task_lets_go_of_its_callback_though_we_hold_the_task(timer: Timer) -> None:
    task, owner = owned_task(timer, HOUR_MS)
    assert owner() is not None
    task.cancel()
    assert owner() is None


def test_a_task_that_ran_lets_go_of_its_callback_though_we_hold_the_task() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    _task, owner = owned_task(timer, 5)
    clock.advance(4)
    assert owner() is not None
    clock.advance(1)
    assert owner() is None


def test_the_threads_of_a_timer_keep_no_finished_task_alive(timer: Timer) -> None:
    class Weak(TimerTask):
        pass

    task = Weak(1)
    known = weakref.ref(task)
    timer.add(task)
    del task
    until_due(timer)
    finish(timer)
    assert known() is None


def test_a_closed_timer_lets_go_of_what_it_dropped() -> None:
    timer = Timer()
    _task, owner = owned_task(timer, HOUR_MS)
    assert owner() is not None
    assert timer.close() == 1
    assert owner() is None


def test_a_dropped_timer_on_a_manual_clock_lets_go_of_what_waits_in_it() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    owner = owned_task(timer, 5)[1]
    known = weakref.ref(timer)
    assert owner() is not None
    del timer
    gc.collect()  # a timer and its driver know each other
    assert known() is None
    assert owner() is None


def test_arguments_are_let_go_of_too(timer: Timer) -> None:
    owner = Owner()
    known = weakref.ref(owner)
    task = timer.call_later(HOUR_MS, print, owner)
    del owner
    assert known() is not None
    task.cancel()
    assert known() is None


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
    timer.call_later(20, ran.append, 20)
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


# A delay of its own for each wait.


def test_a_task_may_be_given_another_delay_while_it_does_not_wait(
    manual_clock: ManualClock,
) -> None:
    seen: list[int] = []

    class Retry(TimerTask):
        def run(self) -> None:
            seen.append(manual_clock.now_ms)
            self.delay_ms *= 2
            if len(seen) < 4:
                retrying.add(self)

    retrying = Timer(manual_clock)
    task = Retry(10)
    retrying.add(task)
    with pytest.raises(AlreadyWaiting):
        task.delay_ms = 5
    manual_clock.advance(1_000)
    assert seen == [10, 30, 70, 150]
    task.delay_ms = 0
    retrying.add(task)
    assert seen[-1] == 1_000
