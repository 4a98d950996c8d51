"""The n-th smallest of very many values, exactly, without keeping them.

A histogram says in which bin the answer lies and how many values come before that bin. Going
through the values again, only the bin is counted, in up to 65,536 finer bins, and so on until a
bin is one value wide. Waits of up to an hour take one more look, anything realistic takes two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sojourn.report.bins import Counts, Histogram, Values, shift_of, start_of

_FINER_BITS = 16


@dataclass(frozen=True)
class Quantile:
    """A share of all, as a fraction so that counting stays exact: 99 of 100."""

    of: int
    out_of: int

    def rank(self, count: int) -> int:
        """Which one, from 1, of `count` values in order: the first that has the share behind it."""
        return max(1, -(-count * self.of // self.out_of))


MEDIAN = Quantile(1, 2)
P99 = Quantile(99, 100)
LARGEST = Quantile(1, 1)


class Search:
    """Narrows down on one value of a histogram; None from the start if that is empty."""

    def __init__(self, histogram: Histogram, quantile: Quantile) -> None:
        self.value: int | None = None
        self.over = False
        self._start = self._shift = self._step = 0
        self._before = 0
        self._counts: Counts = histogram.counts
        total = len(histogram)
        if total == 0:
            self.over = True
            return
        self._rank = quantile.rank(total)
        self._settle(lambda number: (start_of(number), shift_of(number)))

    def add(self, values: Values) -> None:
        """Look at the values again, all of them over one round."""
        inside = values - np.uint64(self._start)  # what lies below wraps round to huge
        inside = inside[inside < np.uint64(1 << self._shift)]
        finer = (inside >> np.uint64(self._step)).astype(np.int64)
        self._counts += np.bincount(finer, minlength=len(self._counts))

    def end_round(self) -> None:
        """Take the finer bin that holds the answer."""
        start, step = self._start, self._step
        self._settle(lambda number: (start + (number << step), step))

    def _settle(self, bounds: Callable[[int], tuple[int, int]]) -> None:
        """Find the bin of the answer in the counts; it starts and is as wide as `bounds` says."""
        up_to = self._before + np.cumsum(self._counts)
        number = int(np.searchsorted(up_to, self._rank))
        self._before = int(up_to[number - 1]) if number else self._before
        self._start, self._shift = bounds(number)
        if self._shift == 0:
            self.value = self._start
            self.over = True
            return
        self._step = max(0, self._shift - _FINER_BITS)
        self._counts = np.zeros(1 << (self._shift - self._step), np.int64)
