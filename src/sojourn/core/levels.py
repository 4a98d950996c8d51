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

For the same reason no step makes a level. Before something is put in, the owner asks where the
coarsest level ends. If that is too early it has a larger hierarchy made (`spanning`), outside any
step, which then takes over from the old one in a step that only copies numbers. What falls to a
finer level never needs a new one, and time moves only forward, so what was spanned once is
spanned for good.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

if not cython.compiled:
    from sojourn.core.places import filled, numbers

# Later than any time there is: the answer to "when next?" when no bucket is in use.
EMPTY = 2**63 - 1
# Earlier than any time there is: where a bucket starts that is not in use.
NEVER = -(2**63) + 1
_SHORT = 2**32


class Levels:
    """The hierarchy: finds buckets by time, and keeps the queue of those in use.

    Every method but `spanning` is a raw step: it makes no object, and the owner sees to it that
    steps do not overlap.
    """

    __slots__ = (
        "_queue",
        "_queued",
        "_starts_ms",
        "count",
        "currents_ms",
        "cursors",
        "earliest_ms",
        "intervals_ms",
        "size",
        "ticks_ms",
    )

    def __init__(self, tick_ms: int, size: int, start_ms: int, count: int = 1) -> None:
        self.size = size
        self.count = count
        self.earliest_ms = EMPTY
        self._queue = filled(count * size, NEVER)
        self._queued = 0
        self._starts_ms = filled(count * size, NEVER)
        # Of each level, finest first:
        self.ticks_ms = numbers("q", count)
        self.intervals_ms = numbers("q", count)
        self.currents_ms = numbers("q", count)
        self.cursors = numbers("q", count)  # the slot that `current` is in
        for level in range(count):
            self.ticks_ms[level] = tick_ms
            tick_ms = self.intervals_ms[level] = interval_of(tick_ms, size)
        self._begin(0, start_ms)

    def end_ms(self) -> int:
        """What expires before this has a level; it never moves back."""
        last = self.count - 1
        if self.currents_ms[last] > EMPTY - self.intervals_ms[last]:
            return EMPTY
        return self.currents_ms[last] + self.intervals_ms[last]

    def spanning(self, expiration_ms: int) -> Levels:
        """Make a hierarchy with levels for what expires then; it has yet to `take_over`."""
        count = self.count
        current_ms = self.currents_ms[count - 1]
        interval_ms = self.intervals_ms[count - 1]
        while expiration_ms - current_ms >= interval_ms:
            current_ms = floored(current_ms, interval_ms)
            interval_ms = interval_of(interval_ms, self.size)
            count += 1
        return Levels(self.ticks_ms[0], self.size, current_ms, count)

    def take_over(self, other: Levels) -> None:
        """Become what the smaller hierarchy is by now."""
        for level in range(other.count):
            self.currents_ms[level] = other.currents_ms[level]
            self.cursors[level] = other.cursors[level]
        self._begin(other.count, other.currents_ms[other.count - 1])
        for bucket in range(other.count * other.size):
            self._starts_ms[bucket] = other._starts_ms[bucket]
        for place in range(other._queued):
            self._queue[place] = other._queue[place]
        self._queued = other._queued
        self.earliest_ms = other.earliest_ms

    def place(self, expiration_ms: int) -> int:
        """Return the bucket for what expires then, and see that it is queued; -1 if it is due.

        There must be a level for it. The owner fills the bucket before anything else happens.
        """
        after_ms = expiration_ms - self.currents_ms[0]
        if after_ms < self.ticks_ms[0]:
            return -1
        level = 0
        while after_ms >= self.intervals_ms[level]:
            level += 1
            after_ms = expiration_ms - self.currents_ms[level]
        if cython.compiled and after_ms < _SHORT:  # dividing 32 bits takes half as long
            ticks = cython.cast(cython.uint, after_ms) // cython.cast(
                cython.uint, self.ticks_ms[level]
            )
        else:
            ticks = after_ms // self.ticks_ms[level]
        slot = self.cursors[level] + ticks
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
            self.cursors[level] = (self.cursors[level] + ticks) % self.size
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

    def _begin(self, first: int, start_ms: int) -> None:
        """Set the time of the levels from `first` on."""
        for level in range(first, self.count):
            current_ms = floored(start_ms, self.ticks_ms[level])
            cursor = current_ms // self.ticks_ms[level] % self.size
            self.currents_ms[level] = current_ms
            self.cursors[level] = cursor if cursor >= 0 else cursor + self.size


def interval_of(tick_ms: int, size: int) -> int:
    """What a level spans.

    Times lie within ±2**61, so that two of them are less than 2**62 apart, and a level's own time
    is at most three times 2**61 behind: all differences fit. A coarsest level may span more than
    64 bits can say. Whatever is asked then fits in it.
    """
    return tick_ms * size if tick_ms <= EMPTY // size else EMPTY


def floored(ms: int, tick_ms: int) -> int:
    """The last whole tick at or before `ms`, which may be negative."""
    rest = ms % tick_ms  # in C it has the sign of `ms`
    return ms - rest if rest >= 0 else ms - rest - tick_ms
