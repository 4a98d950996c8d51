"""How long things took lately: percentiles over a window that slides in slices of ten seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from sojourn.core.histogram import Histogram, HistogramSnapshot

SLICE_MS = 10_000
SLICES = 30
_LONGEST_MS = 2**50  # 35,000 years; in microseconds it still has 64 bits


class Durations:
    """A histogram for each slice of the window. Not for several threads at once."""

    def __init__(self) -> None:
        self._slices: deque[tuple[int, Histogram]] = deque(maxlen=SLICES)

    def add(self, time_ms: int, durations_ms: Iterable[float]) -> None:
        """Count these in the slice of `time_ms`, which never goes back."""
        number = time_ms // SLICE_MS
        if not self._slices or self._slices[-1][0] < number:
            self._slices.append((number, Histogram()))
        record = self._slices[-1][1].record
        for duration_ms in durations_ms:
            record(int(min(duration_ms, _LONGEST_MS) * 1000))

    def over(self, now_ms: int, slices: int = SLICES) -> HistogramSnapshot:
        """Everything in the last `slices` slices, the present one included."""
        after = now_ms // SLICE_MS - slices
        recent = [histogram.snapshot() for number, histogram in self._slices if number > after]
        count = sum(each.count for each in recent)
        total_us = sum(each.total_us for each in recent)
        return HistogramSnapshot(
            count,
            total_us / count / 1000 if count else 0.0,
            max((each.max_ms for each in recent), default=0.0),
            total_us,
            tuple(map(sum, zip(*(each.counts for each in recent), strict=True))),
        )
