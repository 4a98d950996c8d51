"""The timeout advisor: what any other timeout would have done to the same operations.

For all operations and for each class: how long until the event comes (watched.py says what counts,
survival.py how it is reckoned from data that ends), the timeouts in use, and how the two compare.

The timeout in use is read off `timeout_ms`; where outcomes do not have it, off what expired
operations had waited. If there are several, the commonest is taken and `timeouts` says how many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from sojourn.replay.endings import EXPIRED
from sojourn.report.bins import bin_of, start_of
from sojourn.report.stays import ENDINGS, Int64s, Stay, Stays
from sojourn.report.survival import Need, Point, Survival
from sojourn.report.tally import Job
from sojourn.report.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from sojourn.report.watched import DataEnd, Watched, columns_for

MOST_CLASSES = 11  # more are put together as the rest
OVERALL = "all operations"
REST = "(all others)"

LADDER_MS = (
    *(SECOND_MS * n for n in (1, 5, 10, 30)),
    *(MINUTE_MS * n for n in (1, 2, 5, 10, 15, 30, 45)),
    *(HOUR_MS * n for n in (1, 2, 4, 8, 12)),
    *(DAY_MS * n for n in (1, 2, 7, 30)),
)

_MOST_TIMEOUTS = 65_536


class Verdict(Enum):
    """How the present timeout compares."""

    TIGHT = "tight"  # below p99 of the time until the event
    FITS = "fits"
    LONG = "long"  # twice the p99.9, or longer
    MIXED = "mixed"  # there is no one present timeout
    UNKNOWN = "unknown"  # the data cannot tell


@dataclass(frozen=True)
class Present:
    """The timeout in use."""

    timeout_ms: int
    operations: int  # how many have it
    timeouts: int  # how many different ones there are
    exact: bool  # whether all of them could be counted

    @property
    def only_one(self) -> bool:
        return self.timeouts == 1 and self.exact


@dataclass(frozen=True)
class Advice:
    """What the timeout should have been, for one class or for all operations together."""

    name: str
    operations: int  # ended or pending
    ended: tuple[int, int, int]  # completed, expired, cancelled
    pending: int
    cut_off: int  # of a stream: left out, because their deadline is beyond the data
    too_late: int | None  # expired, and the event came afterwards; None where nobody looked
    present: Present | None
    watched: int  # those that count
    got: int  # of these, how many got their event, in time or too late
    horizon_ms: int  # the longest wait that the data can tell about
    within_horizon: float  # the share that gets its event by then,
    in_second_half: float  # and in the second half of that time
    ever: float  # the share that gets its event at all
    at_present: Point | None  # what the present timeout does; None beyond the horizon
    for_99: Need | None  # None if no event came
    for_999: Need | None
    curve: list[Point]  # close enough together to be drawn as a line, up to the horizon
    ladder: list[Point]  # timeouts that people choose, up to the horizon

    @property
    def verdict(self) -> Verdict:
        if self.present is None or self.for_99 is None or self.for_999 is None:
            return Verdict.UNKNOWN
        if not self.present.only_one:
            return Verdict.MIXED
        timeout_ms, need = self.present.timeout_ms, self.for_99
        if timeout_ms < need.at_least_ms:
            return Verdict.TIGHT
        if need.at_most_ms is None:
            return Verdict.UNKNOWN
        enough_ms = self.for_999.ms
        if enough_ms is not None and timeout_ms >= 2 * max(enough_ms, need.at_most_ms):
            return Verdict.LONG
        return Verdict.FITS


class _Group:
    """The ends and the timeouts of one class, or of several together."""

    def __init__(self) -> None:
        self.ended: Counter[int] = Counter()
        self.pending = self.too_late = self.cut_off = 0
        self.timeouts: dict[int, int] = {}
        self.pruned = False

    @property
    def operations(self) -> int:
        return sum(self.ended.values()) + self.pending

    def add_timeouts(self, timeouts_ms: Iterable[int], counts: Iterable[int]) -> None:
        for value, count in zip(timeouts_ms, counts, strict=True):
            self.timeouts[value] = self.timeouts.get(value, 0) + count
        if len(self.timeouts) > _MOST_TIMEOUTS:  # keep the common ones
            common = sorted(self.timeouts.items(), key=lambda one: -one[1])[: _MOST_TIMEOUTS // 2]
            self.timeouts = dict(common)
            self.pruned = True

    def take_in(self, other: _Group) -> None:
        self.ended += other.ended
        self.pending += other.pending
        self.too_late += other.too_late
        self.cut_off += other.cut_off
        self.pruned |= other.pruned
        self.add_timeouts(other.timeouts.keys(), other.timeouts.values())

    def present(self) -> Present | None:
        """The commonest timeout, of equally common ones the shortest."""
        if not self.timeouts:
            return None
        common = min(self.timeouts, key=lambda ms: (-self.timeouts[ms], ms))
        return Present(common, self.timeouts[common], len(self.timeouts), not self.pruned)


class Advisor:
    """Counts by class; `advice` has the whole first, then the classes by size."""

    def __init__(self, stays: Stays) -> None:
        self._stays = stays
        self.columns = columns_for(stays)
        self._by_code: list[_Group] = []
        self._data_end = DataEnd(stays)
        self._watched: Watched | None = None

    @property
    def end_ms(self) -> int | None:
        """When the data ends; None if nothing shows that."""
        return self._data_end.end_ms

    @property
    def rounded_to_bits(self) -> int | None:
        """To how many bits waits were rounded, because too many were different."""
        return self._watched.rounded_to_bits if self._watched else None

    def add(self, stay: Stay) -> None:
        self._data_end.add(stay)
        codes, expired = stay.class_code, stay.status == EXPIRED
        for code in np.unique(codes):
            group, mine = self._group(int(code)), codes == code
            for status in ENDINGS:
                group.ended[status] += int(np.count_nonzero(mine & (stay.status == status)))
            if self._stays.has_condition:
                group.too_late += int(np.count_nonzero(mine & expired & stay.held))
            if self._stays.has_timeout:
                _add_timeouts(group, stay.timeout_ms[mine & stay.timeout_known])
            else:
                _add_timeouts(group, stay.waited_ms[mine & expired].view(np.int64))

    def end_pass(self) -> Iterable[Job]:
        for pending in self._stays.pending_batches():
            codes = pending.class_code
            for code in np.unique(codes):
                group, mine = self._group(int(code)), codes == code
                group.pending += int(np.count_nonzero(mine))
                if self._stays.has_timeout:
                    _add_timeouts(group, pending.timeout_ms[mine & pending.timeout_known])
        self._watched = Watched(self._stays, self.end_ms)
        return (self._watched,)

    @property
    def advice(self) -> list[Advice]:
        assert self._watched is not None
        for code, number in self._watched.cut_off.items():
            self._by_code[code].cut_off = number
        return [self._advise(name, codes) for name, codes in self._shown()]

    def _shown(self) -> Iterator[tuple[str, list[int]]]:
        everything = list(range(len(self._by_code)))
        yield OVERALL, everything
        if self._stays.class_column is None:
            return
        by_size = sorted(everything, key=lambda code: -self._by_code[code].operations)
        codes = by_size if len(by_size) <= MOST_CLASSES + 1 else by_size[:MOST_CLASSES]
        for code in codes:
            yield self._stays.classes[code], [code]
        if len(codes) < len(by_size):
            yield REST, by_size[len(codes) :]

    def _group(self, code: int) -> _Group:
        while len(self._by_code) <= code:
            self._by_code.append(_Group())
        return self._by_code[code]

    def _advise(self, name: str, codes: list[int]) -> Advice:
        assert self._watched is not None
        group = _Group()
        for code in codes:
            group.take_in(self._by_code[code])
        waits_ms, got, unseen = self._watched.waits(codes)
        survival = Survival(waits_ms, got, unseen) if len(waits_ms) else None
        completed, expired, cancelled = (group.ended[status] for status in ENDINGS)
        present = group.present()
        at_present = _points(survival, [present.timeout_ms]) if survival and present else []
        return Advice(
            name=name,
            operations=group.operations,
            ended=(completed, expired, cancelled),
            pending=group.pending,
            cut_off=group.cut_off,
            too_late=group.too_late if self._stays.has_condition else None,
            present=present,
            watched=survival.watched if survival else 0,
            got=survival.got if survival else 0,
            horizon_ms=survival.horizon_ms if survival else 0,
            within_horizon=survival.within_horizon if survival else 0,
            in_second_half=survival.in_second_half if survival else 0,
            ever=survival.ever if survival else 0,
            at_present=at_present[0] if at_present else None,
            for_99=survival.need(0.99) if survival else None,
            for_999=survival.need(0.999) if survival else None,
            curve=_points(survival, _curve_ms(survival)) if survival else [],
            ladder=_points(survival, LADDER_MS) if survival else [],
        )


def _add_timeouts(group: _Group, timeouts_ms: Int64s) -> None:
    values, counts = np.unique(timeouts_ms, return_counts=True)
    group.add_timeouts(values.tolist(), counts.tolist())


def _points(survival: Survival, timeouts_ms: Iterable[int]) -> list[Point]:
    return [survival.point(ms) for ms in timeouts_ms if ms <= survival.horizon_ms]


def _curve_ms(survival: Survival) -> list[int]:
    """The last timeout of each bin in which something changes: 64 to a doubling at most."""
    bins = np.unique(bin_of(survival.waits_ms))
    ends_ms = [start_of(int(number) + 1) - 1 for number in bins]
    return [*ends_ms[:-1], survival.horizon_ms]
