"""The reaper: the threads behind a timer on the system clock."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import ManualClock, SystemClock, Timer, prompt_switching
from sojourn.core.reaper import Reaper
from tests.until import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from sojourn.core.clock import Driver
    from tests.conftest import FreshPython

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

        def is_quiet() -> bool:
            before = clock.asked
            assert not timer.advance_clock(200)
            return clock.asked == before

        # Its threads may take a while to go to sleep; who ticks is never quiet.
        assert any(is_quiet() for _ in range(100))


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
        went_on = ran.wait(SOON_S)
        alive = len(threads_of(timer))
    executor._behind.shutdown()
    assert went_on
    assert alive == 2


class Shut:
    """An executor that is held up by a slow task, with more behind it, and then shut down."""

    def __init__(self, clock: SystemClock | ManualClock) -> None:
        self.executor = ThreadPoolExecutor(1)
        self.timer = Timer(clock, executor=self.executor, name="shut under test")
        self.ran: list[int] = []
        self.go_on = threading.Event()
        begun = threading.Event()

        def hold_up() -> None:
            begun.set()
            assert self.go_on.wait(SOON_S)

        self.timer.call_later(0, hold_up)
        assert begun.wait(SOON_S)
        for name in range(5):
            self.timer.call_later(0, self.ran.append, name)


def test_what_an_executor_cancels_when_it_is_shut_down_the_timer_runs_itself_in_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shut = Shut(SystemClock())
    done = threading.Event()
    shut.timer.call_later(1, done.set)
    while not shut.timer.advance_clock(1_000):
        pass
    shut.executor.shutdown(wait=False, cancel_futures=True)
    in_time = done.wait(SOON_S / 2)  # before the slow task gives up
    shut.go_on.set()
    shut.timer.close()
    assert in_time
    assert shut.ran == [0, 1, 2, 3, 4]
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "shut under test" in errors[0].getMessage()
    assert "close the timer before the executor" in errors[0].getMessage()


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("end", ["advance", "close"])
def test_on_a_manual_clock_the_next_advance_runs_what_the_executor_cancelled(
    manual_clock: ManualClock, end: str
) -> None:
    shut = Shut(manual_clock)
    shut.executor.shutdown(wait=False, cancel_futures=True)
    assert shut.ran == []  # the thread that shuts an executor down holds its locks
    shut.go_on.set()
    if end == "advance":
        manual_clock.advance(0)
    else:
        shut.timer.close()
    assert shut.ran == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("quiet_log")
def test_closing_runs_what_the_executor_cancels_meanwhile() -> None:
    shut = Shut(SystemClock())
    closing = threading.Thread(target=shut.timer.close)
    closing.start()
    closing.join(0.05)
    shut.executor.shutdown(wait=False, cancel_futures=True)
    shut.go_on.set()
    closing.join(SOON_S)
    assert not closing.is_alive()
    assert shut.ran == [0, 1, 2, 3, 4]


# Timers that nobody refers to.


def ended(threads: list[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(SOON_S)
    return not any(thread.is_alive() for thread in threads)


def test_a_timer_that_nobody_refers_to_ends_its_threads_once_nothing_waits() -> None:
    timer = Timer(name="dropped under test")
    ran = threading.Event()
    timer.call_later(1, ran.set)
    assert ran.wait(SOON_S)
    threads, known = threads_of(timer), weakref.ref(timer)
    assert len(threads) == 2
    del timer
    assert ended(threads)
    assert known() is None


def test_a_timer_in_a_circle_ends_its_threads_once_it_is_collected() -> None:
    class Owner:
        def __init__(self) -> None:
            self.ticks = 0
            self.timer = Timer(name="circle under test")
            self.timer.call_later(1, self.tick)

        def tick(self) -> None:
            self.ticks += 1
            ran.set()

    ran = threading.Event()
    owner = Owner()
    assert ran.wait(SOON_S)
    gone = threading.Event()
    threads, known = threads_of(owner.timer), weakref.ref(owner, lambda _: gone.set())
    del owner
    # The thread that ran it may be on its last lines yet.
    until(lambda: gc.collect() >= 0 and gone.is_set(), "the owner to be collected")
    assert ended(threads)
    assert known() is None


def test_a_timer_that_nobody_refers_to_runs_what_waits_in_it() -> None:
    ran = threading.Event()
    timer = Timer(name="kept under test")
    timer.call_later(2_000, ran.set)
    threads, known = threads_of(timer), weakref.ref(timer)
    del timer
    gc.collect()
    assert known() is not None or ran.is_set()
    assert ran.wait(SOON_S)
    assert ended(threads)
    assert known() is None


def test_a_timer_that_nobody_refers_to_ends_though_its_last_task_was_cancelled() -> None:
    timer = Timer(name="cancelled under test")
    timer.call_later(HOUR_MS, nothing).cancel()
    threads, known = threads_of(timer), weakref.ref(timer)
    del timer
    assert ended(threads)
    assert known() is None


def test_a_task_runs_though_its_timer_is_dropped_the_moment_it_is_added() -> None:
    left = threading.Semaphore(0)
    for delay_ms in (0, 1, 30) * 10:
        Timer(name="dropped at once").call_later(delay_ms, left.release)
    assert all(left.acquire(timeout=SOON_S) for _ in range(30))


def test_a_timer_with_an_executor_runs_what_waits_though_nobody_refers_to_it() -> None:
    ran = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        timer = Timer(executor=executor, name="executor under test")
        go_on = threading.Event()
        timer.call_later(0, go_on.wait, SOON_S)
        timer.call_later(0, ran.set)
        timer.advance_clock(5)
        threads, known = threads_of(timer), weakref.ref(timer)
        del timer
        gc.collect()
        go_on.set()
        assert ran.wait(SOON_S)
    assert ended(threads)
    gc.collect()
    assert known() is None


def test_a_timer_used_again_after_a_while_of_nothing_goes_on() -> None:
    with Timer(name="again under test") as timer:
        for _ in range(5):
            ran = threading.Event()
            timer.call_later(1, ran.set)
            assert ran.wait(SOON_S)
            timer.call_later(HOUR_MS, nothing).cancel()
            timer.advance_clock(5)
        assert len(threads_of(timer)) == 2


def test_a_program_that_ends_with_timers_open_ends_quietly(fresh_python: FreshPython) -> None:
    done = fresh_python(
        "import sojourn\n"
        "idle, busy, unused = (sojourn.Timer() for _ in range(3))\n"
        "idle.call_later(1, print, 'ran')\n"
        "while not idle.advance_clock(1_000): pass\n"
        "busy.call_later(3_600_000, print)\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


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
