# cython: cdivision=True
"""The levels of a timing wheel: which bucket a time belongs to, and which bucket expires next.

This is the wheel's arithmetic, and knows nothing of what is in the buckets. Buckets are numbers:
with size 20 the finest level has buckets 0..19, the next 20..39, and so on. Whoever owns the
levels keeps the contents, as linked tasks (wheel.py) or as slots of a slab (deadlines.py).

    level 0   tick 1 ms     buckets  0..19    spans  20 ms
    level 1   tick 20 ms    buckets 20..39    spans 400 ms
    level 2   tick 400 ms   buckets 40..59    spans   8 s       ... made when first needed

A level covers [current, current + interval), where `current` is the wheel's time floored to the
level's tick. A bucket starts at a whole multiple of its level's tick, so at any moment a
bucket stands for one span of time only, and next time round for another.

The queue is a binary heap of the buckets in use, ordered by when they start: a bucket is on it
once for each time it is used, from the first thing put in until it expires. It is written out
here, over plain integers, because `heapq` would need an object for each entry, and making an
object may start the garbage collector, and with it user code, in the middle of a step.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from array import array

if cython.compiled:
    from cython.cimports.sojourn.millis import LIMIT_MS
else:
    from sojourn.millis import LIMIT_MS

# Later than any time there is: the answer to "when next?" when no bucket is in use.
EMPTY = 2**63 - 1
# Earlier than any time there is: where a bucket starts that is not in use.
NEVER = -(2**63) + 1
_SHORT = 2**32


class Levels:
    """The hierarchy: finds buckets by time, and keeps the queue of those in use.

    Every method is a raw step: the owner sees to it that steps do not overlap.
    """

    __slots__ = (
        "_cursors",
        "_queue",
        "_queued",
        "_starts_ms",
        "count",
        "currents_ms",
        "earliest_ms",
        "intervals_ms",
        "size",
        "ticks_ms",
    )

    def __init__(self, tick_ms: int, size: int, start_ms: int) -> None:
        self.size = size
        self.count = 0
        self.earliest_ms = EMPTY
        self._queue = memoryview(array("q"))
        self._queued = 0
        self._starts_ms = memoryview(array("q"))
        # Of each level, finest first:
        self.ticks_ms = memoryview(array("q"))
        self.intervals_ms = memoryview(array("q"))
        self.currents_ms = memoryview(array("q"))
        self._cursors = memoryview(array("q"))  # the slot that `current` is in
        self._add_level(tick_ms, start_ms)

    def place(self, expiration_ms: int) -> int:
        """Return the bucket for what expires then, and see that it is queued; -1 if it is due.

        The bucket is the owner's to fill before anything else happens.
        """
        after_ms = expiration_ms - self.currents_ms[0]
        if after_ms < self.ticks_ms[0]:
            return -1
        level = 0
        while after_ms >= self.intervals_ms[level]:
            level += 1
            if level == self.count:
                self._add_level(self.intervals_ms[level - 1], self.currents_ms[level - 1])
            after_ms = expiration_ms - self.currents_ms[level]
        if cython.compiled and after_ms < _SHORT:  # dividing 32 bits takes half as long
            ticks = cython.cast(cython.uint, after_ms) // cython.cast(
                cython.uint, self.ticks_ms[level]
            )
        else:
            ticks = after_ms // self.ticks_ms[level]
        slot = self._cursors[level] + ticks
        if slot >= self.size:
            slot -= self.size
        bucket = level * self.size + slot
        starts_ms = self.currents_ms[level] + ticks * self.ticks_ms[level]
        if self._starts_ms[bucket] != starts_ms:  # first use, or used again
            self._starts_ms[bucket] = starts_ms
            self._push(bucket)
            if starts_ms < self.earliest_ms:
                self.earliest_ms = starts_ms
        return bucket

    def take(self, now_ms: int) -> int:
        """Move time to the next bucket that expires by `now_ms` and return it; -1 if none does.

        The bucket is off the queue, and the owner's to empty.
        """
        if self.earliest_ms > now_ms:
            return -1
        bucket = self._queue[0]
        starts_ms = self._starts_ms[bucket]
        self.drop_first()
        for level in range(self.count):
            ticks = (starts_ms - self.currents_ms[level]) // self.ticks_ms[level]
            if ticks < 1:
                break
            self.currents_ms[level] += ticks * self.ticks_ms[level]
            self._cursors[level] = (self._cursors[level] + ticks) % self.size
        return bucket

    def due_ms(self) -> int:
        """What expires before this is due."""
        return self.currents_ms[0] + self.ticks_ms[0]

    def starts_ms(self, bucket: int) -> int:
        """When the bucket expires, which is where its span starts; NEVER if it is not in use."""
        return self._starts_ms[bucket]

    def first(self) -> int:
        """The bucket that expires next; -1 if none is in use."""
        return self._queue[0] if self._queued else -1

    def drop_first(self) -> None:
        """Take the bucket that expires next off the queue."""
        self._starts_ms[self._queue[0]] = NEVER
        self._queued -= 1
        last = self._queue[self._queued]
        place = 0
        while 2 * place + 1 < self._queued:
            child = 2 * place + 1
            if child + 1 < self._queued and self._before(
                self._queue[child + 1], self._queue[child]
            ):
                child += 1
            if self._before(last, self._queue[child]):
                break
            self._queue[place] = self._queue[child]
            place = child
        self._queue[place] = last
        self.earliest_ms = self._starts_ms[self._queue[0]] if self._queued else EMPTY

    def _push(self, bucket: int) -> None:
        place = self._queued
        self._queued += 1
        while place > 0:
            parent = (place - 1) // 2
            if self._before(self._queue[parent], bucket):
                break
            self._queue[place] = self._queue[parent]
            place = parent
        self._queue[place] = bucket

    def _before(self, bucket: int, other: int) -> bool:
        """Whether the bucket expires before the other; at the same instant, the finer level's."""
        if self._starts_ms[bucket] == self._starts_ms[other]:
            return bucket < other
        return self._starts_ms[bucket] < self._starts_ms[other]

    def _add_level(self, tick_ms: int, start_ms: int) -> None:
        # The coarsest level may span more than 64 bits can say; all that is asked fits in it.
        interval_ms = tick_ms * self.size if tick_ms <= LIMIT_MS // self.size else EMPTY
        # The start may be negative, where the division of C, in use here, rounds the other way.
        rest = start_ms % tick_ms
        current_ms = start_ms - rest if rest >= 0 else start_ms - rest - tick_ms
        cursor = current_ms // tick_ms % self.size
        self.ticks_ms = _longer(self.ticks_ms, tick_ms, 1)
        self.intervals_ms = _longer(self.intervals_ms, interval_ms, 1)
        self.currents_ms = _longer(self.currents_ms, current_ms, 1)
        self._cursors = _longer(self._cursors, cursor if cursor >= 0 else cursor + self.size, 1)
        self._starts_ms = _longer(self._starts_ms, NEVER, self.size)
        self._queue = _longer(self._queue, NEVER, self.size)
        self.count += 1


def _longer(values: memoryview, value: int, times: int) -> memoryview:
    return memoryview(array("q", values) + array("q", [value]) * times)
