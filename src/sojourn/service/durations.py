"""How long things took lately: percentiles over a window that slides in slices of ten seconds."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Iterable

from sojourn.histogram import HistogramSnapshot

SLICE_MS = 10_000
SLICES = 30
_BUCKETS = 16 + 60 * 8  # as in sojourn.histogram: eight to a doubling, from a microsecond
_LARGEST_US = 2**63 - 1


class _Slice:
    __slots__ = ("count", "counts", "max_us", "number", "total_us")

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts = array("q", bytes(8 * _BUCKETS))
        self.count = self.total_us = self.max_us = 0


class Durations:
    """A histogram for each slice of the window. Not for several threads at once."""

    def __init__(self) -> None:
        self._slices: deque[_Slice] = deque(maxlen=SLICES)

    def add(self, time_ms: int, durations_ms: Iterable[float]) -> None:
        """Count these in the slice of `time_ms`, which never goes back."""
        number = time_ms // SLICE_MS
        if not self._slices or self._slices[-1].number < number:
            self._slices.append(_Slice(number))
        slice = self._slices[-1]
        for duration_ms, count in Counter(durations_ms).items():
            us = min(max(round(duration_ms * 1000), 0), _LARGEST_US)
            slice.counts[_bucket(us)] += count
            slice.count += count
            slice.total_us += us * count
            slice.max_us = max(slice.max_us, us)

    def over(self, now_ms: int, slices: int = SLICES) -> HistogramSnapshot:
        """Everything in the last `slices` slices, the present one included."""
        after = now_ms // SLICE_MS - slices
        recent = [slice for slice in self._slices if slice.number > after]
        count = sum(slice.count for slice in recent)
        total_us = sum(slice.total_us for slice in recent)
        return HistogramSnapshot(
            count,
            total_us / count / 1000 if count else 0.0,
            max((slice.max_us for slice in recent), default=0) / 1000,
            total_us,
            tuple(map(sum, zip(*(slice.counts for slice in recent), strict=True))),
        )


def _bucket(us: int) -> int:
    shift = max(us.bit_length() - 4, 0)
    return 8 * shift + (us >> shift)
