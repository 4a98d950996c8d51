"""The two wheels: what is called, and what intrudes."""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING

import sojourn
from sojourn import DeadlineWheel, TimerTask, TimingWheel
from tests.core.models.naive_wheel import NaiveWheel
from tests.core.sweep.cases import Action, Case, Seen, Step, World, alone, crossed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sojourn.core.wheel import WheelSnapshot

_SIZE = 4  # so that a level spans 4, 16, 64, 256 ms
_FAR_MS = 4**6
_MANY_MS = 4_000 if sojourn.compiled else 1_200  # the end of many deadlines, one a millisecond
_THE_END = tuple(("advance", now_ms) for now_ms in (6, 9, 17, 40, 70, 300, 1_100, _FAR_MS, 2**60))


class NaiveWheels(World):
    """The model of both wheels: names, and when they are due."""

    def __init__(self) -> None:
        super().__init__()
        self._wheel = NaiveWheel(1, 0)

    def add(self, name: int, expiration_ms: int) -> Action:
        def add() -> bool:
            self._wheel.cancel(name)
            if self._wheel.must_be_due(expiration_ms):
                return False
            self._wheel.add(name, expiration_ms)
            return True

        return Action(add)

    def add_many(self, first: int, deadlines_ms: Sequence[int]) -> Action:
        def add() -> int:
            for name, deadline_ms in enumerate(deadlines_ms, first):
                self._wheel.add(name, deadline_ms)
            return len(deadlines_ms)

        return Action(add)

    def cancel(self, name: int) -> Action:
        return Action(partial(self._wheel.cancel, name))

    def cancel_many(self, names: Sequence[int]) -> Action:
        return Action(lambda: sum([self._wheel.cancel(name) for name in names]))

    def advance(self, now_ms: int) -> Action:
        return Action(partial(self._advance, now_ms), _without_twins)

    def _advance(self, now_ms: int) -> list[int]:
        return [name for _, names in self._wheel.advance(now_ms) for name in sorted(names)]

    def next_expiration(self) -> Action:
        return Action(lambda: len(self._wheel) > 0)

    def snapshot(self) -> Action:
        return Action(lambda: sorted(self._wheel.expiration_ms))

    def clear(self) -> Action:
        def clear() -> int:
            count = len(self._wheel)
            self._wheel.expiration_ms.clear()
            return count

        return Action(clear)

    def size(self) -> Action:
        return Action(lambda: len(self._wheel))

    def seen(self) -> Seen:
        return (len(self._wheel),)


class NaiveTimingWheel(NaiveWheels):
    """The model of the timing wheel, whose buckets expire one after the other."""

    def _advance(self, now_ms: int) -> list[int]:
        due: list[int] = []
        while True:
            self.gap()
            next_ms = self._wheel.next_due_ms()
            if next_ms is None or next_ms > now_ms:
                return due + super()._advance(now_ms)
            due += super()._advance(next_ms)


def _without_twins(names: Sequence[int]) -> list[int]:
    """Names of one tick come in an order that the model does not know: n and n + 10,000."""
    return [name % 10_000 for name in names]


class _Task(TimerTask):
    def __init__(self, name: int) -> None:
        super().__init__(0)
        self.name = name


class RealTimingWheel(World):
    """Tasks by name in a wheel."""

    def __init__(self) -> None:
        super().__init__()
        self._wheel = TimingWheel(wheel_size=_SIZE)
        self._tasks = {name: _Task(name) for name in (*range(8), *range(10_001, 10_004))}

    def add(self, name: int, expiration_ms: int) -> Action:
        return Action(partial(self._wheel.add, self._tasks[name], expiration_ms))

    def cancel(self, name: int) -> Action:
        return Action(self._tasks[name].cancel)

    def advance(self, now_ms: int) -> Action:
        return Action(
            partial(self._wheel.advance, now_ms),
            lambda tasks: _without_twins([task.name for task in tasks]),
        )

    def next_expiration(self) -> Action:
        look = partial(getattr, self._wheel, "next_expiration_ms")
        return Action(look, lambda next_ms: next_ms is not None)

    def snapshot(self) -> Action:
        return Action(self._wheel.snapshot, _names_in)

    def clear(self) -> Action:
        return Action(self._wheel.clear)

    def size(self) -> Action:
        return Action(partial(len, self._wheel))

    def seen(self) -> Seen:
        return (len(self._wheel),)


def _names_in(snapshot: WheelSnapshot) -> list[int]:
    names = sorted(
        task.name
        for level in snapshot.levels
        for bucket in level.buckets
        for task in bucket.tasks
        if isinstance(task, _Task)
    )
    assert snapshot.waiting == len(names)
    return names


class RealDeadlineWheel(World):
    """Handles, each known by a name."""

    def __init__(self) -> None:
        super().__init__()
        self._wheel = DeadlineWheel(wheel_size=_SIZE)
        self._handles: dict[int, int] = {}
        self._names: dict[int, int] = {}

    def add_many(self, first: int, deadlines_ms: Sequence[int]) -> Action:
        def add() -> int:
            handles = self._wheel.add_many(deadlines_ms)
            for name, handle in enumerate(handles, first):
                self._handles[name] = handle
                self._names[handle] = name
            return len(handles)

        return Action(add)

    def cancel_many(self, names: Sequence[int]) -> Action:
        handles = array("q", [self._handles[name] for name in names])
        return Action(partial(self._wheel.cancel_many, handles))

    def advance(self, now_ms: int) -> Action:
        return Action(
            partial(self._wheel.advance, now_ms),
            lambda handles: _without_twins([self._names[handle] for handle in handles]),
        )

    def next_expiration(self) -> Action:
        look = partial(getattr, self._wheel, "next_expiration_ms")
        return Action(look, lambda next_ms: next_ms is not None)

    def size(self) -> Action:
        return Action(partial(len, self._wheel))

    def seen(self) -> Seen:
        return (len(self._wheel),)


# Levels of 4 buckets span 4, 16, 64, 256 ms ... Tasks 1 to 3, and the twin of 1, share buckets.
_WAITING: tuple[Step, ...] = (
    ("add", 1, 21),
    ("add", 10_001, 21),
    ("add", 2, 22),
    ("add", 3, 23),
    ("add", 4, 3),
)
_WHEEL_CALLS: tuple[Step, ...] = (
    ("add", 5, 2),
    ("add", 5, 20),  # beside the others
    ("add", 5, 40),
    ("add", 5, 100),  # on the first new level
    ("add", 5, _FAR_MS - 1),  # many levels up
    ("add", 1, 100),  # moves
    ("add", 4, -5),
    ("cancel", 1),
    ("advance", 2),
    ("advance", 5),
    ("advance", 20),  # they fall to the finest level
    ("advance", 22),
    ("next_expiration",),
    ("snapshot",),
    ("clear",),
    ("size",),
)
_WHEEL_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("cancel", 1),),
    (("cancel", 3), ("cancel", 2), ("cancel", 10_001), ("cancel", 1)),
    (("add", 6, 24),),
    (("add", 6, 150),),
    (("add", 6, _FAR_MS - 7),),
    (("add", 2, 300), ("cancel", 5)),
    (("advance", 1),),
    (("advance", 24), ("snapshot",)),
    (("clear",),),
)
_DEADLINES: tuple[Step, ...] = (
    ("add_many", 1, (21, 22, 23)),
    ("add_many", 10_001, (21, 22)),
    ("add_many", 4, (3,)),
)
_DEADLINE_CALLS: tuple[Step, ...] = (
    ("add_many", 10, (25,)),
    ("add_many", 10, (26, 101, 402)),
    ("add_many", 10, (_FAR_MS - 1,)),
    ("add_many", 10, range(1_000, _MANY_MS, 2)),  # more slots than there is room for
    ("cancel_many", (1, 2, 4)),
    ("advance", 2),
    ("advance", 5),
    ("advance", 22),
    ("advance", 1_100),
    ("next_expiration",),
    ("size",),
)
_DEADLINE_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("cancel_many", (1,)),),
    (("cancel_many", (3, 10_001, 10_002)),),
    (("add_many", 5_000, (24,)),),
    (("add_many", 5_000, (152, _FAR_MS - 7)),),
    (("add_many", 5_000, range(1_001, _MANY_MS, 2)), ("cancel_many", (2,))),
    (("advance", 1),),
    (("advance", 24),),
)


def cases() -> Iterator[Case]:
    for real, naive, before, calls, intrusions in (
        (RealTimingWheel, NaiveTimingWheel, _WAITING, _WHEEL_CALLS, _WHEEL_INTRUSIONS),
        (RealDeadlineWheel, NaiveWheels, _DEADLINES, _DEADLINE_CALLS, _DEADLINE_INTRUSIONS),
    ):
        subject = real.__name__.removeprefix("Real")
        after = (("size",), ("next_expiration",), *_THE_END)
        yield from crossed(subject, real, naive, before, alone(calls), intrusions, after)
