"""Timers, wheels and clocks that were not made as they should be, and subclasses of them."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import DeadlineWheel, ManualClock, Timer, TimerTask, TimingWheel
from sojourn.errors import AlreadyInitialised, NotInitialised, SojournError, WrongType

if TYPE_CHECKING:
    from collections.abc import Callable


def nothing() -> None: ...


# What can be done with each: every public method and property.
USES: dict[type, dict[str, Callable[[Any], object]]] = {
    Timer: {
        "add": lambda timer: timer.add(TimerTask(5)),
        "add at once": lambda timer: timer.add(TimerTask(0)),
        "call_later": lambda timer: timer.call_later(5, nothing),
        "advance_clock": lambda timer: timer.advance_clock(0),
        "len": len,
        "snapshot": lambda timer: timer.snapshot(),
        "close": lambda timer: timer.close(),
        "with": lambda timer: timer.__enter__(),
        "name": lambda timer: timer.name,
        "clock": lambda timer: timer.clock,
        "errors": lambda timer: timer.errors,
        "expired_buckets": lambda timer: timer.expired_buckets,
        "next_ms": lambda timer: timer.next_ms(),
        "turn": lambda timer: timer.turn(),
        "has_ready": lambda timer: timer.has_ready(),
        "run_ready": lambda timer: timer.run_ready(),
    },
    TimingWheel: {
        "add": lambda wheel: wheel.add(TimerTask(0), 5),
        "advance": lambda wheel: wheel.advance(5),
        "len": len,
        "next_expiration_ms": lambda wheel: wheel.next_expiration_ms,
        "snapshot": lambda wheel: wheel.snapshot(),
        "clear": lambda wheel: wheel.clear(),
    },
    DeadlineWheel: {
        "add_many": lambda wheel: wheel.add_many([5]),
        "cancel_many": lambda wheel: wheel.cancel_many([0]),
        "advance": lambda wheel: wheel.advance(5),
        "len": len,
        "next_expiration_ms": lambda wheel: wheel.next_expiration_ms,
        "levels": lambda wheel: wheel.levels(),
    },
    ManualClock: {
        "advance": lambda clock: clock.advance(5),
        "now_ms": lambda clock: clock.now_ms,
        "now_ns": lambda clock: clock.now_ns(),
        "a timer": lambda clock: Timer(clock),
    },
}
MADE: dict[type, Callable[[], Any]] = {
    Timer: lambda: Timer(ManualClock()),
    TimingWheel: TimingWheel,
    DeadlineWheel: DeadlineWheel,
    ManualClock: ManualClock,
}
KINDS = pytest.mark.parametrize("kind", list(USES), ids=lambda kind: kind.__name__)


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        pytest.param(kind, uses[name], id=f"{kind.__name__}-{name}")
        for kind, uses in USES.items()
        for name in uses
    ],
)
def test_what_was_never_initialised_says_so(kind: Any, use: Callable[[Any], object]) -> None:
    class Forgetful(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            """Without super().__init__()."""

    for made in (kind.__new__(kind), Forgetful()):
        with pytest.raises(NotInitialised, match=r"never initialised; .*super\(\).__init__\(\)"):
            use(made)
        assert type(made).__name__ in repr(made)


def test_a_task_that_was_never_initialised_is_not_put_in() -> None:
    class Forgetful(TimerTask):
        def __init__(self) -> None:
            """Without super().__init__()."""

    wheel, timer = TimingWheel(), Timer(ManualClock())
    with pytest.raises(NotInitialised):
        wheel.add(Forgetful(), 5)
    with pytest.raises(NotInitialised):
        timer.add(Forgetful())
    assert (len(wheel), len(timer)) == (0, 0)


@KINDS
def test_a_second_init_is_refused_and_changes_nothing(kind: type) -> None:
    made = MADE[kind]()
    before = repr(made)
    with pytest.raises(AlreadyInitialised, match="make a new one"):
        made.__init__()
    assert repr(made) == before


def test_a_second_init_leaves_what_waits_where_it_is() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    ran: list[int] = []
    timer.call_later(5, ran.append, 5)
    for again in (clock.__init__, timer.__init__):  # type: ignore[misc]
        with pytest.raises(AlreadyInitialised):
            again()
    clock.advance(5)
    assert ran == [5]


@KINDS
def test_an_init_that_was_refused_may_be_tried_again(kind: Any) -> None:
    made = kind.__new__(kind)
    wrong = {"clock": 5} if kind is Timer else {"start_ms": 2**61}
    with pytest.raises(SojournError):
        made.__init__(**wrong)
    with pytest.raises(NotInitialised):
        next(iter(USES[kind].values()))(made)
    made.__init__(**({"clock": ManualClock()} if kind is Timer else {}))
    next(iter(USES[kind].values()))(made)


@KINDS
@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_cannot_be_copied_or_pickled(kind: type, take: Callable[[Any], object]) -> None:
    with pytest.raises(WrongType, match="cannot be copied or pickled"):
        take(MADE[kind]())


# Subclasses may use any name that is not documented as ours.

DOCUMENTED = {
    Timer: {
        "add",
        "advance_clock",
        "call_later",
        "clock",
        "close",
        "errors",
        "expired_buckets",
        "has_ready",
        "name",
        "next_ms",
        "run_ready",
        "snapshot",
        "turn",
    },
    TimingWheel: {"add", "advance", "clear", "next_expiration_ms", "snapshot"},
    DeadlineWheel: {"add_many", "advance", "cancel_many", "levels", "next_expiration_ms"},
    ManualClock: {"advance", "drive", "now_ms", "now_ns"},
}


@KINDS
def test_every_other_name_of_ours_begins_with_our_prefix(kind: type) -> None:
    names = {name for cls in kind.__mro__[:-1] for name in vars(cls)}
    assert {name for name in names if not name.startswith(("__", "_sj_"))} == DOCUMENTED[kind]


NATURAL = [
    "_add",
    "_advance",
    "_advance_to",
    "_buckets",
    "_cancel",
    "_closed",
    "_counter",
    "_driver",
    "_drivers",
    "_ends",
    "_free",
    "_handover",
    "_levels",
    "_move_to",
    "_now_ms",
    "_place",
    "_ready",
    "_run",
    "_slots",
    "_submitted",
    "_waiting",
    "_wheel",
    "expire",
    "has_ready",  # for drivers of the user's; ours do not call it
    "leave",
    "next_ms",
    "now_us",
    "place",
    "put",
    "run_ready",
    "run_submitted",
    "schedule",
    "turn",
]


def broken(*_: object) -> None:
    raise AssertionError("a method of the user's was taken for one of ours")


def test_a_subclass_may_use_any_natural_name() -> None:
    methods = dict.fromkeys(NATURAL, broken)
    clock = type("MyClock", (ManualClock,), dict(methods))(7)
    timer = type("MyTimer", (Timer,), dict(methods))(clock)
    plain_clock = ManualClock(7)
    of_values = type("MyTimer", (Timer,), {})(plain_clock)
    for name in NATURAL:
        setattr(of_values, name, "mine")
    for moved, mine in ((clock, timer), (plain_clock, of_values)):
        ran: list[int] = []
        for delay_ms in (0, 5, 450):
            mine.call_later(delay_ms, ran.append, delay_ms)
        moved.advance(1_000)
        assert ran == [0, 5, 450]
        assert mine.call_later(5, nothing).cancel()
        assert mine.close() == 0

    wheel = type("MyWheel", (TimingWheel,), dict(methods))()
    deadlines = type("MyDeadlines", (DeadlineWheel,), dict(methods))()
    task = TimerTask(0)
    assert wheel.add(task, 450)
    assert wheel.advance(450) == [task]
    handles = deadlines.add_many([450, 5])
    assert deadlines.cancel_many(handles[1:]) == 1
    assert list(deadlines.advance(450)) == [handles[0]]


def test_a_subclass_on_the_system_clock_may_use_any_natural_name() -> None:
    kind = type("MyTimer", (Timer,), dict.fromkeys(NATURAL, broken))
    ran = threading.Event()
    with kind() as timer:
        timer.call_later(1, ran.set)
        assert ran.wait(30)
    assert timer.errors == 0
