"""The hierarchical timing wheel: no clock, no threads, no callbacks. It is told the time and
says what is due.

A wheel of `wheel_size` buckets, each `tick_ms` wide, holds what expires within its interval. What
expires later goes to an overflow level, made on demand, whose tick is this level's whole
interval. With tick 1 and size 3, at time 0, tasks that expire at 1, 3, 5, 9, 14 and 17:

    level 0, tick 1    |  0  | [1] |  2  |                           bucket 1 holds 1
    level 1, tick 3    |    0..2   |   [3..5]  |    6..8   |         bucket 3 holds 3 and 5
    level 2, tick 9    |    0..8   |  [9..17]  |   18..26  |         bucket 9 holds 9, 14 and 17

Three buckets are in use, so three buckets are on the queue (a heap ordered by when a bucket
expires): 1, 3, 9. The queue never holds tasks. Time moves from bucket to bucket:

    at 1   level 0 expires bucket 1: the task at 1 is due
    at 3   level 1 expires bucket 3: the task at 3 is due; 5 is not yet, and falls to level 0,
           which by now covers 3..5
    at 5   level 0 expires bucket 5: the task at 5 is due
    at 9   level 2 expires bucket 9: 9 is due, 14 falls to level 1 bucket 12, 17 to bucket 15
    ...

A bucket's bounds are whole multiples of its level's tick, so a bucket is found by division:
`(expiration // tick) % size`. Putting in, taking out and moving a task cost the same however
many tasks wait; a task moves at most once per level.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sojourn.core.alike import already_initialised, not_copied, not_initialised, start_out
from sojourn.core.guard import GUARD

if not cython.compiled:
    from sojourn.core.levels import EMPTY, Levels
    from sojourn.core.millis import checked_ms
    from sojourn.core.task import (
        TaskCounter,
        TimerTask,
        TimerTaskList,
        address,
        first,
        is_empty,
        link,
        new_list,
        release_callback,
        unlink,
    )

from sojourn.core.millis import checked_shape
from sojourn.errors import AlreadyWaiting, WrongType

if not cython.compiled:  # which has them as constants of C, in the .pxd
    # What became of a task that was put into the wheel.
    DUE = 0  # not added: it is due now
    WAITING = 1  # added
    EARLIEST = 2  # added, and its bucket is now the first to expire


@dataclass(frozen=True)
class BucketSnapshot:
    """One bucket in use: which slot of its level, when it expires, what is in it."""

    index: int
    expiration_ms: int
    tasks: tuple[TimerTask, ...]


@dataclass(frozen=True)
class LevelSnapshot:
    """One level: its tick, its span, its own time, and its buckets in use in order of expiry."""

    tick_ms: int
    interval_ms: int
    current_ms: int
    buckets: tuple[BucketSnapshot, ...]


@dataclass(frozen=True)
class WheelSnapshot:
    """A wheel at one moment, level 0 (the finest) first. Printing it draws it."""

    levels: tuple[LevelSnapshot, ...]
    waiting: int
    next_expiration_ms: int | None

    def __str__(self) -> str:
        lines = [f"{self.waiting} waiting, next bucket expires at {self.next_expiration_ms}"]
        for number, level in enumerate(self.levels):
            used = "  ".join(
                f"[{bucket.expiration_ms}, {bucket.expiration_ms + level.tick_ms}): "
                f"{len(bucket.tasks)}"
                for bucket in level.buckets
            )
            lines.append(
                f"level {number}  tick {level.tick_ms} ms  at {level.current_ms}  {used or '-'}"
            )
        return "\n".join(lines)


class TimingWheel:
    """Tasks waiting for their time, in levels of buckets.

    Any thread may add, cancel and advance at any moment. Times are whole milliseconds on
    whatever clock you pass in.
    """

    __slots__ = ("_sj_buckets", "_sj_counter", "_sj_levels", "_sj_room_ms")

    _sj_buckets: list[Any]  # a TimerTaskList for each bucket of all levels, None before first use
    _sj_counter: TaskCounter
    _sj_levels: Levels
    _sj_room_ms: int  # what expires before this has a level and a bucket

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20, start_ms: int = 0) -> None:
        before: Any = self._sj_levels
        if before is not None:
            raise already_initialised(self)
        levels = Levels(*checked_shape(tick_ms, wheel_size, start_ms))
        self._sj_counter = TaskCounter()
        self._sj_buckets = [None] * levels.size
        self._sj_room_ms = levels.end_ms()
        self._sj_levels = levels

    def add(self, task: TimerTask, expiration_ms: int) -> bool:
        """Put the task in, to be due at `expiration_ms`; False if it is due already, and not added.

        A task that waits in this wheel is moved. One that waits in another raises
        `AlreadyWaiting` and stays where it is.
        """
        if self._sj_levels is None:
            raise not_initialised(self)
        if not isinstance(task, TimerTask):
            raise WrongType(f"task must be a TimerTask, got {task!r}; wrap it: TimerTask(0, fn)")
        expires_ms = checked_ms(expiration_ms, "expiration_ms")
        if expires_ms >= self._sj_room_ms:
            self._sj_make_room(expires_ms)
        return self._sj_place(task, expires_ms) != DUE

    def advance(self, now_ms: int) -> list[TimerTask]:
        """Move time to `now_ms` and return what became due, earlier ticks first.

        Nothing is run in here. Time never moves back: an earlier `now_ms` returns nothing.
        """
        if self._sj_levels is None:
            raise not_initialised(self)
        tasks: list[TimerTask] = []
        self._sj_expire(checked_ms(now_ms, "now_ms"), None, tasks)
        return tasks

    def __len__(self) -> int:
        if self._sj_levels is None:
            raise not_initialised(self)
        return self._sj_counter.waiting

    @property
    def next_expiration_ms(self) -> int | None:
        """When the next bucket in use expires; None when nothing waits."""
        if self._sj_levels is None:
            raise not_initialised(self)
        next_ms = self._sj_next_ms()
        return None if next_ms == EMPTY else next_ms

    def snapshot(self) -> WheelSnapshot:
        """Return the levels, their times, their buckets in use and what is in them."""
        if self._sj_levels is None:
            raise not_initialised(self)
        seen: list[Any] = []
        self._sj_look(seen)
        items = iter(seen)
        levels = tuple(_level(items) for _ in range(next(items)))
        waiting = sum(len(bucket.tasks) for level in levels for bucket in level.buckets)
        firsts = [level.buckets[0].expiration_ms for level in levels if level.buckets]
        return WheelSnapshot(levels, waiting, min(firsts, default=None))

    def clear(self) -> int:
        """Cancel everything that waits; return how much that was."""
        if self._sj_levels is None:
            raise not_initialised(self)
        dropped: list[object] = []
        self._sj_drain(dropped)
        return len(dropped)

    def __repr__(self) -> str:
        waits = " not initialised" if self._sj_levels is None else f" waiting={len(self)}"
        return f"<{type(self).__name__}{waits}>"

    def __reduce__(self) -> Any:
        raise not_copied(self)

    def __del__(self) -> None:
        # Compiled, tasks and buckets form circles that the collector does not see.
        if cython.compiled and self._sj_levels is not None:
            self._sj_drain([])

    # Outside any step.

    def _sj_make_room(self, expiration_ms: int) -> None:
        """See to it that there are levels and buckets for what expires then."""
        while expiration_ms >= self._sj_room_ms:
            levels = larger = self._sj_levels
            buckets = self._sj_buckets
            if expiration_ms >= levels.end_ms():
                larger = levels.spanning(expiration_ms)
                buckets = [None] * (larger.count * larger.size)
            self._sj_grow(levels, larger, buckets)

    # The atomic steps. They make no object that the collector counts.

    def _sj_grow(self, levels: Levels, larger: Levels, buckets: list[Any]) -> None:
        """Go on with the larger levels, unless they have been replaced meanwhile."""
        if self._sj_levels is levels:
            if larger is not levels:
                larger.take_over(levels)
                for number in range(levels.count * levels.size):
                    buckets[number] = self._sj_buckets[number]
                self._sj_buckets = buckets
                self._sj_levels = larger
            self._sj_room_ms = larger.end_ms()

    def _sj_place(self, task: TimerTask, expiration_ms: int) -> int:
        """Put a task in, or move it; say DUE, WAITING or EARLIEST. There must be room."""
        if task._sj_run is None:
            raise not_initialised(task)
        self._sj_leave(task)
        task._sj_expiration_ms = expiration_ms
        return self._sj_put(task, expiration_ms)

    def _sj_expire(
        self, now_ms: int, ready: TimerTaskList | None, tasks: list[TimerTask] | None
    ) -> int:
        """Expire every bucket up to `now_ms`, in order; return how many buckets that was.

        What is due goes to the list `ready`, or if that is None to `tasks`.
        """
        expired = 0
        while True:
            number = self._sj_levels.take(now_ms)
            if number < 0:
                return expired
            expired += 1
            bucket = self._sj_buckets[number]
            due_ms = self._sj_levels.due_ms()
            while not is_empty(bucket):
                task = first(bucket)
                if task._sj_expiration_ms >= due_ms:
                    unlink(task)
                    self._sj_put(task, task._sj_expiration_ms)
                elif ready is not None:
                    unlink(task)
                    link(ready, task)
                elif tasks is not None:
                    tasks.append(task)
                    unlink(task)

    def _sj_next_ms(self) -> int:
        """When the first bucket that holds anything expires, or EMPTY.

        Buckets that cancellation has emptied leave the queue here, so nobody wakes for them.
        """
        while True:
            number = self._sj_levels.first()
            if number < 0:
                return EMPTY
            bucket = self._sj_buckets[number]
            if not is_empty(bucket):
                return self._sj_levels.earliest_ms
            self._sj_levels.drop_first()

    def _sj_drain(self, dropped: list[object]) -> None:
        """Cancel everything; the callbacks go to the caller, to be dropped after the step."""
        for bucket in self._sj_buckets:
            while bucket is not None and not is_empty(bucket):
                task = first(bucket)
                dropped.append(release_callback(task))
                unlink(task)

    def _sj_look(self, seen: list[Any]) -> None:
        """Note everything, in a row: how many levels, and each level's numbers and buckets.

        tick, interval, current, then the buckets in use: index, expiration, tasks, None; -1
        """
        seen.append(self._sj_levels.count)
        for level in range(self._sj_levels.count):
            seen.append(self._sj_levels.ticks_ms[level])
            seen.append(self._sj_levels.intervals_ms[level])
            seen.append(self._sj_levels.currents_ms[level])
            for index in range(self._sj_levels.size):
                number = level * self._sj_levels.size + index
                bucket = self._sj_buckets[number]
                if bucket is not None and not is_empty(bucket):
                    seen.append(index)
                    seen.append(self._sj_levels.starts_ms(number))
                    at = bucket._sj_next
                    while at is not address(bucket):
                        task = cython.cast(TimerTask, at)
                        seen.append(task)
                        at = task._sj_next
                    seen.append(None)
            seen.append(-1)

    # The raw steps.

    def _sj_leave(self, task: TimerTask) -> None:
        """Take the task out of this wheel or its ready list, if it waits; refuse if elsewhere."""
        if task._sj_list is not None:
            if task._sj_list._counter is not self._sj_counter:
                raise AlreadyWaiting(
                    f"this {type(task).__name__} waits in another wheel or timer; "
                    "cancel it there first"
                )
            unlink(task)

    def _sj_put(self, task: TimerTask, expiration_ms: int) -> int:
        """Link a task that waits nowhere into its bucket; say DUE, WAITING or EARLIEST."""
        earliest_ms = self._sj_levels.earliest_ms
        number = self._sj_levels.place(expiration_ms)
        if number < 0:
            return DUE
        bucket = self._sj_buckets[number]
        if bucket is None:  # to make one is no risk: the collector does not count it
            bucket = self._sj_buckets[number] = new_list(self._sj_counter, False)
        link(bucket, task)
        return EARLIEST if self._sj_levels.earliest_ms < earliest_ms else WAITING


def _level(items: Iterator[Any]) -> LevelSnapshot:
    """Read one level of what `_sj_look` has noted."""
    tick_ms, interval_ms, current_ms = next(items), next(items), next(items)
    buckets = []
    while (index := next(items)) >= 0:
        buckets.append(BucketSnapshot(index, next(items), tuple(iter(items.__next__, None))))
    buckets.sort(key=lambda bucket: bucket.expiration_ms)
    return LevelSnapshot(tick_ms, interval_ms, current_ms, tuple(buckets))


if not cython.compiled:
    start_out(TimingWheel, _sj_buckets=None, _sj_counter=None, _sj_levels=None, _sj_room_ms=0)
    GUARD.protect(
        TimingWheel,
        "_sj_grow",
        "_sj_place",
        "_sj_expire",
        "_sj_next_ms",
        "_sj_drain",
        "_sj_look",
    )
