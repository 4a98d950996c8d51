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

from dataclasses import dataclass

from sojourn._guard import GUARD

if cython.compiled:
    from cython.cimports.sojourn.levels import EMPTY, Levels
    from cython.cimports.sojourn.millis import checked_ms
    from cython.cimports.sojourn.task import (
        TaskCounter,
        TimerTask,
        TimerTaskList,
        first,
        is_empty,
        link,
        release_callback,
        tasks_in,
        unlink,
    )
else:
    from sojourn.levels import EMPTY, Levels
    from sojourn.millis import checked_ms
    from sojourn.task import (
        TaskCounter,
        TimerTask,
        TimerTaskList,
        first,
        is_empty,
        link,
        release_callback,
        tasks_in,
        unlink,
    )

from sojourn.errors import AlreadyWaiting, WrongType
from sojourn.millis import checked_shape

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

    __slots__ = ("_buckets", "_counter", "_levels")

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20, start_ms: int = 0) -> None:
        self._levels = Levels(*checked_shape(tick_ms, wheel_size, start_ms))
        self._counter = TaskCounter()
        self._buckets: list[TimerTaskList] = []

    def add(self, task: TimerTask, expiration_ms: int) -> bool:
        """Put the task in, to be due at `expiration_ms`; False if it is due already, and not added.

        A task that waits in this wheel is moved. One that waits in another raises
        `AlreadyWaiting` and stays where it is.
        """
        if not isinstance(task, TimerTask):
            raise WrongType(f"task must be a TimerTask, got {task!r}; wrap it: TimerTask(0, fn)")
        return self.place(task, checked_ms(expiration_ms, "expiration_ms")) != DUE

    def advance(self, now_ms: int) -> list[TimerTask]:
        """Move time to `now_ms` and return what became due, earlier ticks first.

        Nothing is run in here. Time never moves back: an earlier `now_ms` returns nothing.
        """
        out: list[TimerTask] = []
        self.expire(checked_ms(now_ms, "now_ms"), None, out)
        return out

    def __len__(self) -> int:
        return self._counter.waiting

    @property
    def next_expiration_ms(self) -> int | None:
        """When the next bucket in use expires; None when nothing waits."""
        next_ms = self.next_ms()
        return None if next_ms == EMPTY else next_ms

    def snapshot(self) -> WheelSnapshot:
        """Return the levels, their times, their buckets in use and what is in them."""
        levels: list[LevelSnapshot] = []
        waiting = 0
        for level, found in self._tasks_by_bucket():
            buckets = [
                BucketSnapshot(index, expiration_ms, tuple(tasks))
                for expiration_ms, index, tasks in sorted(found, key=lambda bucket: bucket[0])
            ]
            waiting += sum(len(bucket.tasks) for bucket in buckets)
            levels.append(LevelSnapshot(*level, tuple(buckets)))
        firsts = [level.buckets[0].expiration_ms for level in levels if level.buckets]
        return WheelSnapshot(tuple(levels), waiting, min(firsts, default=None))

    def clear(self) -> int:
        """Cancel everything that waits; return how much that was."""
        return len(self._drain())

    def __del__(self) -> None:
        # Compiled, tasks and buckets form circles that the collector does not see.
        if cython.compiled and self._buckets is not None:
            self._drain()

    # The atomic steps, for the layers above.

    def place(self, task: TimerTask, expiration_ms: int) -> int:
        """Put a task in, or move it; say DUE, WAITING or EARLIEST."""
        self.leave(task)
        task._sj_expiration_ms = expiration_ms
        return self.put(task, expiration_ms)

    def expire(self, now_ms: int, ready: TimerTaskList | None, out: list[TimerTask] | None) -> int:
        """Expire every bucket up to `now_ms`, in order; return how many buckets that was.

        What is due goes to the list `ready`, or if that is None to `out`.
        """
        expired = 0
        while True:
            number = self._levels.take(now_ms)
            if number < 0:
                return expired
            expired += 1
            bucket = self._buckets[number]
            due_ms = self._levels.due_ms()
            while not is_empty(bucket):
                task = first(bucket)
                unlink(task)
                if task._sj_expiration_ms >= due_ms:
                    self.put(task, task._sj_expiration_ms)
                elif ready is not None:
                    link(ready, task)
                elif out is not None:
                    out.append(task)

    def next_ms(self) -> int:
        """When the first bucket that holds anything expires, or EMPTY.

        Buckets that cancellation has emptied leave the queue here, so nobody wakes for them.
        """
        while True:
            number = self._levels.first()
            if number < 0:
                return EMPTY
            bucket = self._buckets[number]
            if not is_empty(bucket):
                return self._levels.earliest_ms
            self._levels.drop_first()

    def _drain(self) -> list[object]:
        """Cancel everything; the callbacks go to the caller, to be dropped after the step."""
        dropped: list[object] = []
        for bucket in self._buckets:
            while not is_empty(bucket):
                task = first(bucket)
                unlink(task)
                dropped.append(release_callback(task))
        return dropped

    def _tasks_by_bucket(
        self,
    ) -> list[tuple[tuple[int, int, int], list[tuple[int, int, list[TimerTask]]]]]:
        found = []
        for level in range(self._levels.count):
            buckets: list[tuple[int, int, list[TimerTask]]] = []
            for index in range(self._levels.size):
                number = level * self._levels.size + index
                tasks = tasks_in(self._buckets[number]) if number < len(self._buckets) else []
                if tasks:
                    buckets.append((self._levels.starts_ms(number), index, tasks))
            shape = (
                self._levels.ticks_ms[level],
                self._levels.intervals_ms[level],
                self._levels.currents_ms[level],
            )
            found.append((shape, buckets))
        return found

    # The raw steps.

    def leave(self, task: TimerTask) -> None:
        """Take the task out of this wheel or its ready list, if it waits; refuse if elsewhere."""
        if task._sj_list is not None:
            if task._sj_list._counter is not self._counter:
                raise AlreadyWaiting(
                    f"this {type(task).__name__} waits in another wheel or timer; "
                    "cancel it there first"
                )
            unlink(task)

    def put(self, task: TimerTask, expiration_ms: int) -> int:
        """Link a task that waits nowhere into its bucket; say DUE, WAITING or EARLIEST."""
        earliest_ms = self._levels.earliest_ms
        number = self._levels.place(expiration_ms)
        if number < 0:
            return DUE
        while number >= len(self._buckets):
            self._buckets.append(TimerTaskList(self._counter, False))
        link(self._buckets[number], task)
        return EARLIEST if self._levels.earliest_ms < earliest_ms else WAITING


if not cython.compiled:
    GUARD.protect(TimingWheel, "place", "expire", "next_ms", "_drain", "_tasks_by_bucket")
