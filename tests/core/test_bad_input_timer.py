"""What a wheel, timer or clock is given wrong, it refuses: it says what to do, and is unchanged."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sojourn import DeadlineWheel, ManualClock, SojournError, Timer, TimerTask, TimingWheel
from sojourn.errors import AlreadyWaiting, Closed, OutOfRange, WrongType
from tests import ids

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_MS = 2**61 - 1
CLOCK_LIMIT_MS = 10**15
NOT_INTEGERS = [1.5, 2.0, "5", b"5", None, math.nan, math.inf, [5], 5 + 0j, np.float64(5)]
TOO_FAR = [2**61, -(2**61), 2**63, -(2**63) - 1, 2**64, 10**40, -(10**40)]


class Five:
    """An integer of the user's own kind."""

    def __index__(self) -> int:
        return 5


INTEGERS = [Five(), np.int64(5), np.int8(5), np.uint64(5)]


def nothing() -> None: ...


# Every place that takes a number of milliseconds: what it is called there, and how to give it.
MILLISECONDS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "TimerTask": ("delay_ms", lambda ms: TimerTask(ms)),
    "call_later": ("delay_ms", lambda ms: Timer(ManualClock()).call_later(ms, nothing)),
    "advance_clock": ("timeout_ms", lambda ms: Timer(ManualClock()).advance_clock(ms)),
    "TimingWheel": ("start_ms", lambda ms: TimingWheel(start_ms=ms)),
    "TimingWheel.add": ("expiration_ms", lambda ms: TimingWheel().add(TimerTask(0), ms)),
    "TimingWheel.advance": ("now_ms", lambda ms: TimingWheel().advance(ms)),
    "DeadlineWheel": ("start_ms", lambda ms: DeadlineWheel(start_ms=ms)),
    "DeadlineWheel.advance": ("now_ms", lambda ms: DeadlineWheel().advance(ms)),
    "ManualClock": ("start_ms", lambda ms: ManualClock(ms)),
    "ManualClock.advance": ("ms", lambda ms: ManualClock().advance(ms)),
}
PLACES = pytest.mark.parametrize(("name", "take"), MILLISECONDS.values(), ids=MILLISECONDS.keys())


@PLACES
@pytest.mark.parametrize("value", NOT_INTEGERS, ids=ids.plain)
def test_milliseconds_that_are_no_integer_are_refused(
    name: str, take: Callable[[Any], object], value: object
) -> None:
    with pytest.raises(WrongType) as refusal:
        take(value)
    said = str(refusal.value)
    assert said.startswith(f"{name} must be an integer number of milliseconds, got {value!r}")
    assert "round it first" in said
    assert isinstance(refusal.value, TypeError)
    assert isinstance(refusal.value, SojournError)


@PLACES
@pytest.mark.parametrize("value", TOO_FAR)
def test_milliseconds_beyond_all_time_are_refused(
    name: str, take: Callable[[Any], object], value: int
) -> None:
    with pytest.raises(OutOfRange, match=rf"^{name} must .* got {value}") as refusal:
        take(value)
    assert isinstance(refusal.value, ValueError)
    assert isinstance(refusal.value, SojournError)


@PLACES
@pytest.mark.parametrize("value", [*INTEGERS, True, False], ids=ids.plain)
@pytest.mark.usefixtures("caplog")
def test_milliseconds_of_any_integer_kind_are_taken(
    name: str, take: Callable[[Any], object], value: object
) -> None:
    take(value)


def test_the_furthest_times_there_are_are_taken() -> None:
    for far_ms in (LIMIT_MS, -LIMIT_MS):
        assert TimerTask(far_ms).delay_ms == far_ms
        TimingWheel(start_ms=far_ms)
        DeadlineWheel(start_ms=far_ms)
    for far_ms in (CLOCK_LIMIT_MS, -CLOCK_LIMIT_MS):
        assert ManualClock(far_ms).now_ms == far_ms


def test_an_integer_of_another_kind_means_what_an_int_means() -> None:
    for five in INTEGERS:
        assert TimerTask(five).delay_ms == 5  # type: ignore[arg-type]
        clock = ManualClock()
        ran: list[int] = []
        timer = Timer(clock, tick_ms=five, wheel_size=five)  # type: ignore[arg-type]
        timer.call_later(five, lambda ran=ran, clock=clock: ran.append(clock.now_ms))  # type: ignore[arg-type]
        clock.advance(five)  # type: ignore[arg-type]
        assert ran == [5]
        assert type(clock.now_ms) is int
        wheel = TimingWheel(five, five, five)  # type: ignore[arg-type]
        assert wheel.add(TimerTask(0), np.int64(50))  # type: ignore[arg-type]
        assert wheel.snapshot().levels[0].tick_ms == 5
        assert type(wheel.next_expiration_ms) is int


# The shape of a wheel.

SHAPED: dict[str, Callable[..., object]] = {
    "TimingWheel": TimingWheel,
    "DeadlineWheel": DeadlineWheel,
    "Timer": lambda **shape: Timer(ManualClock(), **shape),
}


@pytest.mark.parametrize("make", SHAPED.values(), ids=SHAPED.keys())
@pytest.mark.parametrize(("name", "least"), [("tick_ms", 1), ("wheel_size", 2)])
class TestTheShapeOfAWheel:
    @pytest.mark.parametrize("value", NOT_INTEGERS, ids=ids.plain)
    def test_is_refused_if_it_is_no_integer(
        self, make: Callable[..., object], name: str, least: int, value: object
    ) -> None:
        with pytest.raises(WrongType) as refusal:
            make(**{name: value})
        said = str(refusal.value)
        assert said.startswith(f"{name} must be an integer ≥ {least}, got {value!r}")
        assert "the default" in said

    @pytest.mark.parametrize("value", [0, -1, -20, 2**61, 2**63, -(2**63) - 1, 10**40])
    def test_is_refused_if_it_makes_no_sense(
        self, make: Callable[..., object], name: str, least: int, value: int
    ) -> None:
        with pytest.raises(
            OutOfRange, match=rf"^{name} must be an integer ≥ {least}.* got {value}; the"
        ):
            make(**{name: value})


@pytest.mark.parametrize("make", SHAPED.values(), ids=SHAPED.keys())
def test_a_wheel_of_one_bucket_is_refused_and_one_of_two_is_not(
    make: Callable[..., object],
) -> None:
    with pytest.raises(OutOfRange, match=r"wheel_size must be an integer ≥ 2 .*got 1; the default"):
        make(wheel_size=1)
    make(wheel_size=2)


# Tasks.


@pytest.mark.parametrize("task", [None, 5, nothing, "task", TimerTask, object()], ids=ids.plain)
def test_what_is_no_task_is_refused(task: Any) -> None:
    wheel, timer = TimingWheel(), Timer(ManualClock())
    with pytest.raises(WrongType, match=r"task must be a TimerTask, got .*; wrap it: TimerTask"):
        wheel.add(task, 5)
    with pytest.raises(WrongType, match=r"task must be a TimerTask, got .*; .*use call_later\(\)"):
        timer.add(task)
    assert (len(wheel), len(timer)) == (0, 0)


@pytest.mark.parametrize("run", [5, "run", [], object()], ids=ids.plain)
def test_what_cannot_be_called_is_refused(run: Any) -> None:
    with pytest.raises(WrongType, match=r"run must be callable, got .*override run\(\)"):
        TimerTask(5, run)
    timer = Timer(ManualClock())
    with pytest.raises(WrongType, match="fn must be callable, got"):
        timer.call_later(5, run)
    assert len(timer) == 0


def test_call_later_needs_something_to_call() -> None:
    with pytest.raises(WrongType, match="fn must be callable, got None"):
        Timer(ManualClock()).call_later(5, None)  # type: ignore[arg-type]


def test_a_refused_time_leaves_a_waiting_task_where_it_was() -> None:
    wheel = TimingWheel()
    task = TimerTask(0)
    wheel.add(task, 5)
    before = wheel.snapshot()
    for value in (1.5, 2**61, None):
        with pytest.raises(SojournError):
            wheel.add(task, value)  # type: ignore[arg-type]
        with pytest.raises(SojournError):
            wheel.advance(value)  # type: ignore[arg-type]
    assert wheel.snapshot() == before
    assert wheel.advance(5) == [task]


def test_a_task_is_in_one_wheel_or_timer_at_a_time() -> None:
    clock = ManualClock()
    ran: list[int] = []
    task = TimerTask(5, lambda: ran.append(clock.now_ms))
    timer, wheel, other = Timer(clock), TimingWheel(), Timer(clock)
    timer.add(task)
    with pytest.raises(AlreadyWaiting, match="waits in another wheel or timer; cancel it there"):
        wheel.add(task, 3)
    with pytest.raises(AlreadyWaiting, match="waits in another wheel or timer; cancel it there"):
        other.add(task)
    assert (len(timer), len(wheel), len(other), task.expiration_ms) == (1, 0, 0, 5)
    clock.advance(10)
    assert ran == [5]


# Clocks and executors.


def test_a_manual_clock_does_not_go_back() -> None:
    clock = ManualClock(100)
    with pytest.raises(OutOfRange, match=r"^ms must be ≥ 0, got -1; .*make a new clock"):
        clock.advance(-1)
    assert clock.now_ms == 100


def test_a_manual_clock_shows_no_time_beyond_its_limit() -> None:
    clock = ManualClock(CLOCK_LIMIT_MS - 5)
    with pytest.raises(OutOfRange, match="the new time must lie within"):
        clock.advance(6)
    assert clock.now_ms == CLOCK_LIMIT_MS - 5
    clock.advance(5)
    assert clock.now_ms == CLOCK_LIMIT_MS
    for beyond_ms in (CLOCK_LIMIT_MS + 1, -CLOCK_LIMIT_MS - 1):
        with pytest.raises(OutOfRange, match="start_ms must lie within"):
            ManualClock(beyond_ms)


ONLY_TELLS_TIME = SimpleNamespace(now_ns=print)
ONLY_DRIVES = SimpleNamespace(drive=print)


@pytest.mark.parametrize(
    "clock", [5, "clock", ONLY_TELLS_TIME, ONLY_DRIVES, nothing, ManualClock], ids=ids.plain
)
def test_what_is_no_clock_is_refused(clock: Any) -> None:
    with pytest.raises(WrongType, match="clock must be like SystemClock"):
        Timer(clock)


@pytest.mark.parametrize("executor", [5, "executor", nothing, ThreadPoolExecutor], ids=ids.plain)
def test_what_is_no_executor_is_refused(executor: Any) -> None:
    with pytest.raises(WrongType, match="executor must be like"):
        Timer(ManualClock(), executor=executor)


def test_a_closed_timer_refuses_everything_and_leaves_the_task_free() -> None:
    clock = ManualClock()
    closed, other = Timer(clock), Timer(clock)
    closed.close()
    task = TimerTask(5)
    with pytest.raises(Closed, match="closed; make a new one"):
        closed.add(task)
    with pytest.raises(Closed, match="closed; make a new one"):
        closed.call_later(0, nothing)
    other.add(task)
    assert (len(closed), len(other)) == (0, 1)


# Deadline wheels.

NOT_ROWS_OF_INTEGERS: list[Any] = [
    None,
    5,
    "12",
    b"12345678",
    [1.5],
    [1, "2"],
    [None],
    [math.nan],
    [[1, 2]],
    [2**63],
    [-(2**63) - 1],
    np.array([1.0]),
    np.array([1], dtype=np.int32),
    np.array([1], dtype=np.uint64),
    np.array([1], dtype=">i8"),
    np.array([[1, 2], [3, 4]]),
    np.array(5),
    np.array([1], dtype="datetime64[ms]"),
    np.array([1], dtype=object),
]


@pytest.mark.parametrize("values", NOT_ROWS_OF_INTEGERS, ids=ids.plain)
def test_what_is_no_row_of_64_bit_integers_is_refused_whole(values: Any) -> None:
    wheel = DeadlineWheel()
    handles = wheel.add_many([5, 7])
    with pytest.raises(WrongType, match=r"^deadlines_ms must be .*64-bit integers"):
        wheel.add_many(values)
    with pytest.raises(WrongType, match=r"^handles must be .*64-bit integers"):
        wheel.cancel_many(values)
    assert (len(wheel), wheel.next_expiration_ms) == (2, 5)
    assert list(wheel.advance(10)) == list(handles)


@pytest.mark.parametrize("far_ms", [2**61, -(2**61), 2**63 - 1, -(2**63)])
def test_one_deadline_beyond_all_time_refuses_them_all_and_is_named(far_ms: int) -> None:
    wheel = DeadlineWheel()
    with pytest.raises(OutOfRange, match=rf"^deadlines_ms\[2\] must lie within .* got {far_ms}"):
        wheel.add_many([5, 7, far_ms, 9])
    assert (len(wheel), wheel.next_expiration_ms) == (0, None)
    assert list(wheel.add_many([LIMIT_MS, -LIMIT_MS])) != []


@pytest.mark.parametrize("never", [2, 10**6, 2**32 - 1, -1, -(2**63), 2**63 - 1])
def test_a_handle_never_given_out_refuses_them_all_and_is_named(never: int) -> None:
    wheel = DeadlineWheel()
    first, second = wheel.add_many([5, 7])
    with pytest.raises(OutOfRange, match=rf"^handles\[1\] is {never}, .*never gave out.*nothing"):
        wheel.cancel_many([first, never, second])
    assert len(wheel) == 2
    assert list(wheel.advance(10)) == [first, second]


def test_an_empty_wheel_has_given_out_no_handle() -> None:
    with pytest.raises(OutOfRange, match="never gave out"):
        DeadlineWheel().cancel_many([0])
