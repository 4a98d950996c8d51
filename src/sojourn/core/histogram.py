"""A histogram of durations that costs a few nanoseconds to record into.

Eight buckets to each doubling, from a microsecond to centuries, so any percentile is within an
eighth of the truth:

    us      0 1 2 ... 15 | 16 18 20 .. 30 | 32 36 40 .. 60 | 64 72 ...
    bucket  0 1 2 ... 15 | 16 17 18 .. 23 | 24 25 26 .. 31 | 32 33 ...
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

_BUCKETS = 16 + 60 * 8


@dataclass(frozen=True)
class HistogramSnapshot:
    """Durations seen so far, in milliseconds."""

    count: int
    mean_ms: float
    max_ms: float
    total_us: int
    counts: tuple[int, ...]

    def percentile_ms(self, percent: float) -> float:
        """Return the duration that `percent` of those seen did not exceed, to within an eighth."""
        wanted = self.count * percent / 100
        seen = 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return min(_upper_us(bucket) / 1000, self.max_ms)
        return 0.0

    def __repr__(self) -> str:
        return (
            f"<{self.count} durations: mean {self.mean_ms:.3f} ms, "
            f"p50 {self.percentile_ms(50):.3f}, p99 {self.percentile_ms(99):.3f}, "
            f"max {self.max_ms:.3f}>"
        )


class Histogram:
    """Counts durations by size. Record from inside an atomic step or under a lock."""

    __slots__ = ("_count", "_counts", "_max_us", "_total_us")

    def __init__(self) -> None:
        self._counts = memoryview(array("q", bytes(8 * _BUCKETS)))
        self._count = 0
        self._total_us = 0
        self._max_us = 0

    def record_us(self, us: int) -> None:
        us = max(us, 0)
        self._count += 1
        self._total_us += us
        if us > self._max_us:
            self._max_us = us
        octave = 0
        # The steps that the loop below would take one by one.
        if us >= 1 << 19:
            us >>= 16
            octave = 128
        if us >= 1 << 11:
            us >>= 8
            octave += 64
        if us >= 1 << 7:
            us >>= 4
            octave += 32
        while us >= 16:
            us >>= 1
            octave += 8
        self._counts[octave + us] += 1

    def record(self, us: int) -> None:
        """`record_us`, for modules that are not compiled."""
        self.record_us(us)

    def snapshot(self) -> HistogramSnapshot:
        """Return what was recorded so far."""
        return HistogramSnapshot(
            self._count,
            self._total_us / self._count / 1000 if self._count else 0.0,
            self._max_us / 1000,
            self._total_us,
            tuple(self._counts),
        )


def _upper_us(bucket: int) -> int:
    """The largest duration that falls into the bucket."""
    if bucket < 16:
        return bucket
    octave = bucket // 8 - 1
    return ((bucket - octave * 8 + 1) << octave) - 1
