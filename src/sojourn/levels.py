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


class Level:
    """One wheel of the hierarchy."""

    __slots__ = (
        "_cursor",
        "_is_short",
        "current_ms",
        "first_bucket",
        "interval_ms",
        "overflow",
        "tick_ms",
    )

    def __init__(self, tick_ms: int, size: int, start_ms: int, first_bucket: int) -> None:
        self.tick_ms = tick_ms
        # The coarsest level may span more than 64 bits can say; all that is asked fits in it.
        self.interval_ms = tick_ms * size if tick_ms <= LIMIT_MS // size else EMPTY
        # The start may be negative, where the division of C, in use here, rounds the other way.
        rest = start_ms % tick_ms
        self.current_ms = start_ms - rest if rest >= 0 else start_ms - rest - tick_ms
        cursor = self.current_ms // tick_ms % size
        self._cursor = cursor if cursor >= 0 else cursor + size  # the slot that `current` is in
        self._is_short = self.interval_ms < 2**32
        self.first_bucket = first_bucket
        self.overflow: Level | None = None


class Levels:
    """The hierarchy: finds buckets by time, and keeps the queue of those in use.

    Every method is a raw step: the owner sees to it that steps do not overlap.
    """

    __slots__ = (
        "_coarsest",
        "_queue",
        "_queued",
        "_starts_ms",
        "bucket_count",
        "earliest_ms",
        "finest",
        "size",
    )

    def __init__(self, tick_ms: int, size: int, start_ms: int) -> None:
        self.size = size
        self.bucket_count = 0
        self.earliest_ms = EMPTY
        self._queue = memoryview(array("q"))
        self._queued = 0
        self._starts_ms = memoryview(array("q"))
        self.finest = self._coarsest = self._add_level(tick_ms, start_ms)

    def place(self, expiration_ms: int) -> int:
        """Return the bucket for what expires then, and see that it is queued; -1 if it is due.

        The bucket is the owner's to fill before anything else happens.
        """
        level = self.finest
        after_ms = expiration_ms - level.current_ms
        if after_ms < level.tick_ms:
            return -1
        while after_ms >= level.interval_ms:
            if level is self._coarsest:
                self._coarsest = self._add_level(level.interval_ms, level.current_ms)
                level.overflow = self._coarsest
            level = level.overflow  # type: ignore[assignment]
            after_ms = expiration_ms - level.current_ms
        if cython.compiled and level._is_short:  # dividing 32 bits takes half as long
            ticks = cython.cast(cython.uint, after_ms) // cython.cast(cython.uint, level.tick_ms)
        else:
            ticks = after_ms // level.tick_ms
        bucket = level._cursor + ticks
        if bucket >= self.size:
            bucket -= self.size
        bucket += level.first_bucket
        starts_ms = level.current_ms + ticks * level.tick_ms
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
        level = self.finest
        while starts_ms >= level.current_ms + level.tick_ms:
            ticks = (starts_ms - level.current_ms) // level.tick_ms
            level.current_ms += ticks * level.tick_ms
            level._cursor = (level._cursor + ticks) % self.size
            if level is self._coarsest:
                break
            level = level.overflow  # type: ignore[assignment]
        return bucket

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

    def _add_level(self, tick_ms: int, start_ms: int) -> Level:
        level = Level(tick_ms, self.size, start_ms, self.bucket_count)
        more = array("q", [NEVER]) * self.size
        self._starts_ms = memoryview(array("q", self._starts_ms) + more)
        self._queue = memoryview(array("q", self._queue) + more)
        self.bucket_count += self.size
        return level
