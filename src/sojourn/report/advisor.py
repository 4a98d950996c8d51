"""The timeout advisor: what any other timeout would have done to the same operations.

Counted are the operations whose condition held at some time, in time or not (`condition_ms`), with
the wait that this took. With a timeout of t those that took longer than t would have expired; one
that took exactly t completes, as at a deadline. The share is of those counted.

Not counted, and said apart: operations that expired and whose condition never held, since no
timeout would have saved them; and operations that were cancelled and whose condition never held,
since nobody knows what would have become of them. Cancelled ones whose condition held later count.

The present timeout is read off the operations that expired: it is what they waited. If they waited
differently, the commonest is taken and `timeouts` says how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from sojourn.report.bins import PER_DOUBLING, Histogram, Values, start_of
from sojourn.report.ranks import LARGEST, P99, P999, Found
from sojourn.report.stays import CANCELLED, EXPIRED, Stay, Stays
from sojourn.report.tally import Job, Ranked
from sojourn.report.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

MOST_CLASSES = 11  # more are put together as the rest
OVERALL = "all operations"
REST = "(all others)"

LADDER_MS = (
    *(SECOND_MS * n for n in (1, 5, 10, 30)),
    *(MINUTE_MS * n for n in (1, 2, 5, 10, 15, 30, 45)),
    *(HOUR_MS * n for n in (1, 2, 4, 8, 12)),
    *(DAY_MS * n for n in (1, 2, 7, 30)),
)

_CURVE_STEP = PER_DOUBLING // 16
_MOST_TIMEOUTS = 65_536


class Verdict(Enum):
    """How the present timeout compares."""

    TIGHT = "tight"  # more than 1 in 100 of those that could have completed expired
    FITS = "fits"
    LONG = "long"  # twice what 999 in 1000 need, or longer
    MIXED = "mixed"  # there is no one present timeout
    UNKNOWN = "unknown"  # nothing expired, or nothing ever held


@dataclass(frozen=True)
class Present:
    """The timeout in use, as far as outcomes show it."""

    timeout_ms: int
    expired: int  # how many waited exactly that and expired
    timeouts: int  # how many different ones there are
    exact: bool  # whether all of them could be counted
    would_expire: int  # of those counted

    @property
    def only_one(self) -> bool:
        return self.timeouts == 1 and self.exact


@dataclass(frozen=True)
class Advice:
    """What the timeout should have been, for one class or for all operations together."""

    name: str
    operations: int
    counted: int
    too_late: int  # expired, and the condition held afterwards
    never: int  # expired, and the condition never held
    left_out: int  # cancelled, and the condition never held
    present: Present | None
    for_99: Found | None
    for_999: Found | None
    longest: Found | None
    curve: list[tuple[int, int]]  # timeout, how many of those counted would have expired
    ladder: list[tuple[int, int]]  # the same for timeouts that people choose

    @property
    def verdict(self) -> Verdict:
        if self.present is None or self.for_99 is None or self.for_999 is None:
            return Verdict.UNKNOWN
        if not self.present.only_one:
            return Verdict.MIXED
        if self.present.timeout_ms < self.for_99.value:
            return Verdict.TIGHT
        return Verdict.LONG if self.present.timeout_ms >= 2 * self.for_999.value else Verdict.FITS


class _Group:
    """One class, or several together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waits = Histogram()
        self.too_late = self.never = self.left_out = 0
        self.timeouts: dict[int, int] = {}
        self.pruned = False
        self.ranked: Ranked | None = None
        self.below: _Below | None = None

    @property
    def operations(self) -> int:
        return len(self.waits) + self.never + self.left_out

    def add_timeouts(self, waited_ms: Values, counts: Iterable[int] | None = None) -> None:
        if counts is None:
            waited_ms, counts = np.unique(waited_ms, return_counts=True)
        for value, count in zip(waited_ms.tolist(), counts, strict=True):
            self.timeouts[value] = self.timeouts.get(value, 0) + int(count)
        if len(self.timeouts) > _MOST_TIMEOUTS:  # keep the common ones
            kept = sorted(self.timeouts.items(), key=lambda one: -one[1])[: _MOST_TIMEOUTS // 2]
            self.timeouts = dict(kept)
            self.pruned = True

    def take_in(self, other: _Group) -> None:
        self.waits.counts += other.waits.counts
        self.too_late += other.too_late
        self.never += other.never
        self.left_out += other.left_out
        self.pruned |= other.pruned
        values = np.array(list(other.timeouts), np.uint64)
        self.add_timeouts(values, other.timeouts.values())

    def commonest(self) -> tuple[int, int] | None:
        """The commonest timeout, of equally common ones the shortest, and its count."""
        if not self.timeouts:
            return None
        return min(self.timeouts.items(), key=lambda one: (-one[1], one[0]))


class Advisor:
    """Counts conditions by class; `advice` has the whole first, then the classes by size."""

    def __init__(self, stays: Stays) -> None:
        self._stays = stays
        columns = {"status", "at_ms", "waited_ms", "condition_ms"}
        if stays.class_column is not None:
            columns.add(stays.class_column)
        self.columns = frozenset(columns)
        self._by_code: list[_Group] = []
        self._groups: list[_Group] = []

    @property
    def advice(self) -> list[Advice]:
        return [_advice(group) for group in self._groups]

    def add(self, stay: Stay) -> None:
        codes = stay.class_code
        while len(self._by_code) <= int(codes.max()):
            code = len(self._by_code)
            name = self._stays.classes[code] if self._stays.class_column else OVERALL
            self._by_code.append(_Group(name))
        expired = stay.status == EXPIRED
        for code in np.unique(codes):
            group, mine = self._by_code[code], codes == code
            group.waits.add(stay.condition_waits_ms[mine & stay.held])
            group.too_late += int(np.count_nonzero(mine & expired & stay.held))
            group.never += int(np.count_nonzero(mine & expired & ~stay.held))
            cancelled = stay.status == CANCELLED
            group.left_out += int(np.count_nonzero(mine & cancelled & ~stay.held))
            group.add_timeouts(stay.waited_ms[mine & expired])

    def end_pass(self) -> Iterable[Job]:
        whole = _Group(OVERALL)
        for group in self._by_code:
            whole.take_in(group)
        self._groups = [whole]
        of_code = [0] * len(self._by_code)
        if self._stays.class_column is not None:
            by_size = sorted(
                range(len(self._by_code)), key=lambda code: -self._by_code[code].operations
            )
            shown = by_size if len(by_size) <= MOST_CLASSES + 1 else by_size[:MOST_CLASSES]
            rest = _Group(REST)
            for code in by_size:
                if code in shown:
                    of_code[code] = len(self._groups)
                    self._groups.append(self._by_code[code])
                else:
                    rest.take_in(self._by_code[code])
            if len(shown) < len(by_size):
                for code in by_size[len(shown) :]:
                    of_code[code] = len(self._groups)
                self._groups.append(rest)
        return self._follow(np.array(of_code, np.int64))

    def _follow(self, of_code: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterable[Job]:
        def values(number: int) -> Callable[[Stay], Values]:
            def of(stay: Stay) -> Values:
                mine = (
                    stay.held if number == 0 else stay.held & (of_code[stay.class_code] == number)
                )
                return stay.condition_waits_ms[mine]

            return of

        jobs: list[Job] = []
        for number, group in enumerate(self._groups):
            group.ranked = Ranked(self.columns, values(number), group.waits, (P99, P999, LARGEST))
            common = group.commonest()
            wanted = [*LADDER_MS, *([common[0]] if common else [])]
            group.below = _Below(self.columns, values(number), wanted)
            jobs += [group.below] if group.ranked.over else [group.ranked, group.below]
        return jobs


class _Below:
    """How many waits are not longer than each of a few timeouts."""

    def __init__(
        self, columns: frozenset[str], values: Callable[[Stay], Values], timeouts_ms: list[int]
    ) -> None:
        self.columns = columns
        self._values = values
        self._timeouts_ms = np.array(sorted(timeouts_ms), np.uint64)
        self._counts = np.zeros(len(timeouts_ms) + 1, np.int64)

    def add(self, stay: Stay) -> None:
        places = np.searchsorted(self._timeouts_ms, self._values(stay))
        self._counts += np.bincount(places, minlength=len(self._counts))

    def end_pass(self) -> Iterable[Job]:
        return ()

    def above(self, timeout_ms: int) -> int:
        """How many took longer."""
        place = int(np.searchsorted(self._timeouts_ms, np.uint64(timeout_ms), side="right"))
        return int(self._counts[place:].sum())


def _advice(group: _Group) -> Advice:
    assert group.ranked is not None
    assert group.below is not None
    common = group.commonest()
    for_99, for_999, longest = group.ranked.found
    return Advice(
        name=group.name,
        operations=group.operations,
        counted=len(group.waits),
        too_late=group.too_late,
        never=group.never,
        left_out=group.left_out,
        present=common
        and Present(
            timeout_ms=common[0],
            expired=common[1],
            timeouts=len(group.timeouts),
            exact=not group.pruned,
            would_expire=group.below.above(common[0]),
        ),
        for_99=for_99,
        for_999=for_999,
        longest=longest,
        curve=_curve(group.waits),
        ladder=[(timeout_ms, group.below.above(timeout_ms)) for timeout_ms in LADDER_MS],
    )


def _curve(waits: Histogram) -> list[tuple[int, int]]:
    """Exact points, close enough together to be drawn as a line; from all to none expiring."""
    filled = np.flatnonzero(waits.counts)
    if not len(filled):
        return []
    longer = int(waits.counts.sum()) - np.cumsum(waits.counts)
    first, last = int(filled[0]), int(filled[-1])
    # Below 128 every value is a bin, further up each doubling has 64 of them, of which every
    # fourth is enough; the last point of a bin is the longest wait in it.
    numbers = [n for n in range(first, last) if n < 32 or n % _CURVE_STEP == _CURVE_STEP - 1]
    return [(start_of(n + 1) - 1, int(longer[n])) for n in [*numbers, last]]
