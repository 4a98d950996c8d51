"""Everything the report says, as numbers; drawing and words are elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sojourn.report.advisor import Advice, Advisor
from sojourn.report.bins import PER_DOUBLING, Histogram, start_of
from sojourn.report.keys import KeyWaits, LongestKeys
from sojourn.report.stays import STATUSES, Stays
from sojourn.report.tally import Job, Span, Totals, run
from sojourn.report.timeline import Middle, Timeline

_BARS_PER_DOUBLING = 4


@dataclass(frozen=True)
class StatusWaits:
    """How long those that ended in one way had waited; None of nothing."""

    status: str
    count: int
    median_ms: int | None
    p99_ms: int | None
    longest_ms: int | None


@dataclass(frozen=True)
class Summary:
    """The totals: how many ended how, and what became of the rest."""

    waits: list[StatusWaits]
    pending: int | None  # None where it is not known
    rejected: dict[tuple[str, str], int] | None  # by table and reason

    @property
    def ended(self) -> int:
        return sum(waits.count for waits in self.waits)

    def count(self, status: str) -> int:
        return next(waits.count for waits in self.waits if waits.status == status)

    @property
    def rejected_operations(self) -> int:
        return sum(n for (table, _), n in (self.rejected or {}).items() if table == "operations")

    @property
    def rejected_rows(self) -> int:
        return sum((self.rejected or {}).values())

    @property
    def operations(self) -> int:
        """All rows of operations that came in: ended, pending or rejected."""
        return self.ended + (self.pending or 0) + self.rejected_operations


@dataclass(frozen=True)
class Bar:
    """Waits from `from_ms` up to and without `to_ms`, by status."""

    from_ms: int
    to_ms: int
    counts: list[int]


@dataclass(frozen=True)
class Numbers:
    """What the page shows."""

    summary: Summary
    bars: list[Bar]
    first_ms: int | None
    last_ms: int | None
    timeline: Timeline | None
    keys: list[KeyWaits]
    advice: list[Advice] | None  # None with neither condition_ms nor timeout_ms
    data_end_ms: int | None  # when the advisor takes the data to end
    rounded_to_bits: int | None  # of its waits, if there were too many different ones
    looks_after_deadlines: bool  # whether condition_ms says when a condition held too late
    class_column: str | None
    origin: str


def summarise(stays: Stays, on_rows: Callable[[int], None] | None = None) -> Summary:
    """The totals alone."""
    totals = Totals()
    run(stays, [totals], on_rows)
    return _summary(stays, totals)


def count(stays: Stays, on_rows: Callable[[int], None] | None = None) -> Numbers:
    """All numbers, in a few passes over the outcomes."""
    totals, keys = Totals(), LongestKeys()
    advisor = Advisor(stays) if stays.has_condition or stays.has_timeout else None
    timelines: list[Timeline] = []

    def in_time(first_ms: int, last_ms: int) -> Iterable[Job]:
        return (Middle(stays, first_ms, last_ms, timelines.append),)

    span = Span(in_time)
    run(stays, [totals, keys, span, *([advisor] if advisor else [])], on_rows)
    return Numbers(
        summary=_summary(stays, totals),
        bars=_bars(totals.waits),
        first_ms=span.first_ms,
        last_ms=span.last_ms,
        timeline=timelines[0] if timelines else None,
        keys=keys.result,
        advice=advisor.advice if advisor and totals.total else None,
        data_end_ms=advisor.end_ms if advisor else None,
        rounded_to_bits=advisor.rounded_to_bits if advisor else None,
        looks_after_deadlines=stays.has_condition,
        class_column=stays.class_column,
        origin=stays.origin,
    )


def _summary(stays: Stays, totals: Totals) -> Summary:
    waits = []
    for status, histogram, ranked in zip(STATUSES, totals.waits, totals.ranked, strict=True):
        waits.append(StatusWaits(status, len(histogram), *ranked.result))
    pending = sum(len(batch) for batch in stays.pending_batches())
    return Summary(
        waits=waits,
        pending=pending if stays.knows_pending else None,
        rejected=stays.rejected_reasons() if stays.knows_rejected else None,
    )


def _bars(histograms: list[Histogram]) -> list[Bar]:
    """A bar for no wait at all, then four to each doubling, from the shortest to the longest."""
    together = np.sum([histogram.counts for histogram in histograms], axis=0)
    filled = np.flatnonzero(together)
    if not len(filled):
        return []
    # 64 bins to a doubling, cut as evenly as bins allow: after 12, 27 and 44 of them.
    parts = [round(PER_DOUBLING * 2 ** (n / _BARS_PER_DOUBLING)) for n in range(_BARS_PER_DOUBLING)]
    small = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 19, 23, 27, 32, 38, 45, 54]
    large = [
        doubling * PER_DOUBLING + part
        for doubling in range(len(together) // PER_DOUBLING - 1)
        for part in parts
    ]
    edges = [*small, *large, len(together)]
    bars = [
        Bar(
            start_of(start),
            start_of(end),
            [int(histogram.counts[start:end].sum()) for histogram in histograms],
        )
        for start, end in pairwise(edges)
    ]
    used = [number for number, bar in enumerate(bars) if any(bar.counts)]
    return bars[used[0] : used[-1] + 1]
