"""Counting outcomes: everything a page or a summary says, in memory that does not grow with rows.

The rows are gone through a few times. A `Job` looks at every batch of a pass; at the end of it the
job says which jobs follow from what it found. All jobs of one pass share the reading.

    pass 1   totals, histograms, first and last times ─┬─ pass 2…  exact p50 and p99
             which groups of keys have waited longest  ├─ pass 2   what was waiting at each moment
                                                       └─ pass 2…  the keys themselves
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from sojourn.report.bins import Histogram, Values
from sojourn.report.ranks import LARGEST, MEDIAN, P99, Quantile, Search
from sojourn.report.stays import ENDINGS, Int64s, Stay, Stays


class Job(Protocol):
    """Something to count in one pass."""

    columns: frozenset[str]

    def add(self, stay: Stay) -> None:
        """Take one batch into account."""

    def end_pass(self) -> Iterable[Job]:
        """All batches were seen; what is to be counted next."""


def run(stays: Stays, jobs: Iterable[Job], on_rows: Callable[[int], None] | None = None) -> None:
    """Go through the outcomes until no job is left; `on_rows` hears of every batch."""
    waiting = list(jobs)
    while waiting:
        columns = {column for job in waiting for column in job.columns}
        for stay in stays.batches(columns):
            for job in waiting:
                job.add(stay)
            if on_rows:
                on_rows(len(stay))
        waiting = [following for job in waiting for following in job.end_pass()]


class Ranked:
    """A job that finds exact values of one group of times, each quantile its own."""

    def __init__(
        self,
        columns: Iterable[str],
        values: Callable[[Stay], Values],
        histogram: Histogram,
        quantiles: Sequence[Quantile],
    ) -> None:
        self.columns = frozenset(columns)
        self._values = values
        self._searches = [Search(histogram, quantile) for quantile in quantiles]

    @property
    def over(self) -> bool:
        return all(search.over for search in self._searches)

    @property
    def result(self) -> list[int | None]:
        """One for each quantile, None of nothing."""
        return [search.value for search in self._searches]

    def add(self, stay: Stay) -> None:
        values = self._values(stay)
        for search in self._searches:
            if not search.over:
                search.add(values)

    def end_pass(self) -> Iterable[Job]:
        for search in self._searches:
            if not search.over:
                search.end_round()
        return () if self.over else (self,)


class Totals:
    """How many ended in which way, and how long they had waited."""

    columns = frozenset(("status", "waited_ms"))

    def __init__(self) -> None:
        self.waits = [Histogram() for _ in ENDINGS]
        self.ranked: list[Ranked] = []

    def add(self, stay: Stay) -> None:
        for status, waits in zip(ENDINGS, self.waits, strict=True):
            waits.add(stay.waited_ms[stay.status == status])

    def end_pass(self) -> Iterable[Job]:
        def of(status: int) -> Callable[[Stay], Values]:
            return lambda stay: stay.waited_ms[stay.status == status]

        self.ranked = [
            Ranked(self.columns, of(status), waits, (MEDIAN, P99, LARGEST))
            for status, waits in zip(ENDINGS, self.waits, strict=True)
        ]
        return [ranked for ranked in self.ranked if not ranked.over]

    @property
    def total(self) -> int:
        return sum(len(waits) for waits in self.waits)


class Span:
    """From the first submission to the last end."""

    columns = frozenset(("at_ms", "waited_ms"))

    def __init__(self, following: Callable[[int, int], Iterable[Job]] | None = None) -> None:
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self._following = following

    def add(self, stay: Stay) -> None:
        first, last = int(stay.submitted_ms.min()), int(stay.at_ms.max())
        self.first_ms = first if self.first_ms is None else min(first, self.first_ms)
        self.last_ms = last if self.last_ms is None else max(last, self.last_ms)

    def end_pass(self) -> Iterable[Job]:
        if self._following is None or self.first_ms is None or self.last_ms is None:
            return ()
        return self._following(self.first_ms, self.last_ms)


def cumulated(counts: Int64s) -> Int64s:
    """Running totals, with the 0 before the first."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
