"""The keys that operations waited for longest, in total, exactly, however many keys there are.

Pass 1 puts every key into one of many buckets by a hash of it and adds up waits by bucket. No key
has waited longer than its bucket. So pass 2 takes the fullest few buckets and adds up their keys.
If the last of the wanted keys has waited longer than the next bucket in line, no other key can be
among them. Where no keys stand out, further passes take as many buckets as have few enough rows to
hold, until that is so or no bucket is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.report.bins import Histogram, Values
from sojourn.report.ranks import MEDIAN, P99
from sojourn.report.stays import Int64s, Stay
from sojourn.report.sums import Sums
from sojourn.report.tally import Job, Ranked

BUCKETS = 1 << 18
ROWS_AT_ONCE = 2_000_000

_FEW = 4  # buckets, for each key that is wanted

_COLUMNS = frozenset(("by_key", "waited_ms"))


@dataclass(frozen=True)
class KeyWaits:
    """What completing operations had waited for this key."""

    key: str
    count: int
    median_ms: int
    p99_ms: int
    total_ms: int


class LongestKeys:
    """Finds the keys with the longest total wait; `found` has them, longest first."""

    columns = _COLUMNS

    def __init__(
        self, wanted: int = 15, *, buckets: int = BUCKETS, rows_at_once: int = ROWS_AT_ONCE
    ) -> None:
        self._wanted = wanted
        self._rows_at_once = rows_at_once
        # Sums are floats: exact up to 2**53 ms, and what is longer cannot wrap round.
        self._totals = np.zeros(buckets)
        self._rows = np.zeros(buckets, np.int64)
        self._quantiles: _KeyQuantiles | None = None

    @property
    def result(self) -> list[KeyWaits]:
        return self._quantiles.result if self._quantiles else []

    def add(self, stay: Stay) -> None:
        keys, waited_ms = _waits(stay)
        buckets = _bucket_of(keys, len(self._totals))
        self._totals += np.bincount(buckets, waited_ms, len(self._totals))
        self._rows += np.bincount(buckets, minlength=len(self._rows))

    def end_pass(self) -> Iterable[Job]:
        fullest = np.argsort(-self._totals, kind="stable")
        fullest = fullest[: np.count_nonzero(self._totals)]
        return self.next_round(fullest, [])

    def next_round(self, fullest: Int64s, best: list[tuple[float, str, int]]) -> Iterable[Job]:
        """Look into the buckets first in line, unless what is found cannot be beaten."""
        enough = len(best) == self._wanted
        if not len(fullest) or (enough and best[-1][0] > self._totals[fullest[0]]):
            self._quantiles = _KeyQuantiles(best)
            return (self._quantiles,) if best else ()
        at_once = int(np.searchsorted(np.cumsum(self._rows[fullest]), self._rows_at_once)) + 1
        if not best:
            at_once = min(at_once, _FEW * self._wanted)
        return (_KeysOfBuckets(self, fullest[:at_once], fullest[at_once:], best),)

    def best_of(
        self, totals: Any, best: list[tuple[float, str, int]]
    ) -> list[tuple[float, str, int]]:
        """The longest of those known and these; of equal ones the smallest key."""
        longest = pc.select_k_unstable(
            totals, min(len(totals), self._wanted), [("total", "descending"), ("key", "ascending")]
        )
        rows = totals.take(longest).to_pylist()
        candidates = [*best, *((row["total"], row["key"], row["count"]) for row in rows)]
        candidates = [(total, key, count) for total, key, count in candidates if total > 0]
        return sorted(candidates, key=lambda one: (-one[0], one[1]))[: self._wanted]

    @property
    def buckets(self) -> int:
        return len(self._totals)


class _KeysOfBuckets:
    """Adds up the keys of some buckets."""

    columns = _COLUMNS
    _SCHEMA = pa.schema([("key", pa.string()), ("total", pa.float64()), ("count", pa.int64())])

    def __init__(
        self,
        whole: LongestKeys,
        buckets: Int64s,
        rest: Int64s,
        best: list[tuple[float, str, int]],
    ) -> None:
        self._whole = whole
        self._rest = rest
        self._best = best
        self._mine = np.zeros(whole.buckets, np.bool_)
        self._mine[buckets] = True
        self._sums = Sums(self._SCHEMA, by=1)

    def add(self, stay: Stay) -> None:
        keys, waited_ms = _waits(stay)
        mine = np.flatnonzero(self._mine[_bucket_of(keys, self._whole.buckets)])
        self._sums.add([keys.take(mine), waited_ms[mine], np.ones(len(mine), np.int64)])

    def end_pass(self) -> Iterable[Job]:
        best = self._whole.best_of(self._sums.table(), self._best)
        return self._whole.next_round(self._rest, best)


class _KeyQuantiles:
    """The waits of a few keys: first in bins, then exactly."""

    columns = _COLUMNS

    def __init__(self, best: list[tuple[float, str, int]]) -> None:
        self._best = best
        self._keys = pa.array([key for _, key, _ in best], pa.string())
        self._waits = [Histogram() for _ in best]
        self._ranked: list[Ranked] = []
        self._last: tuple[Stay, Int64s] | None = None  # all keys ask about the same batch in turn

    @property
    def result(self) -> list[KeyWaits]:
        waits = []
        for (total, key, count), ranked in zip(self._best, self._ranked, strict=True):
            median, p99 = ranked.result
            assert median is not None
            assert p99 is not None
            waits.append(KeyWaits(key, count, median, p99, int(total)))
        return waits

    def add(self, stay: Stay) -> None:
        which = self._which(stay)
        for number in np.unique(which[which >= 0]):
            self._waits[number].add(stay.waited_ms[which == number])

    def end_pass(self) -> Iterable[Job]:
        for number, histogram in enumerate(self._waits):
            self._ranked.append(self._ranked_of(number, histogram))
        return [ranked for ranked in self._ranked if not ranked.over]

    def _which(self, stay: Stay) -> Int64s:
        if self._last is None or self._last[0] is not stay:
            places = pc.index_in(stay.by_key, value_set=self._keys, skip_nulls=True)
            which = np.asarray(pc.fill_null(places, -1).to_numpy(zero_copy_only=False))
            self._last = stay, which
        return self._last[1]

    def _ranked_of(self, number: int, histogram: Histogram) -> Ranked:
        def values(stay: Stay) -> Values:
            mine: npt.NDArray[np.bool_] = self._which(stay) == number
            return stay.waited_ms[mine]

        return Ranked(_COLUMNS, values, histogram, (MEDIAN, P99))


def _waits(stay: Stay) -> tuple[Any, Any]:
    """The keys that completed something, and for each how long that had waited, as floats."""
    has_key = np.asarray(stay.by_key.is_valid().to_numpy(zero_copy_only=False))
    return stay.by_key.drop_null(), stay.waited_ms[has_key].astype(np.float64)


def _bucket_of(keys: Any, buckets: int) -> Int64s:
    """A bucket for each key, from a polynomial of its bytes; `buckets` is a power of two."""
    if not len(keys):
        return np.zeros(0, np.int64)
    encoded = keys.cast(pa.large_binary())
    _, bounds, data = encoded.buffers()
    ends = np.frombuffer(bounds, np.int64)[encoded.offset : encoded.offset + len(keys) + 1]
    lengths = np.diff(ends)
    if data is None or ends[-1] == ends[0]:
        return np.zeros(len(keys), np.int64)
    letters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    starts = ends[:-1] - ends[0]
    place = np.arange(len(letters)) - np.repeat(starts, lengths)
    longest = int(lengths.max())
    powers = _POWERS if longest <= len(_POWERS) else _powers(longest)
    sums = cumulated_wrapping((letters + np.uint64(1)) * powers[place])
    hashed = sums[starts + lengths] - sums[starts]
    hashed ^= hashed >> np.uint64(32)
    hashed *= _FACTOR
    return np.asarray((hashed >> np.uint64(40)) & np.uint64(buckets - 1), np.int64)


def cumulated_wrapping(values: Values) -> Values:
    """Running totals modulo 2**64, with the 0 before the first."""
    return np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])


_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def _powers(count: int) -> Values:
    factors = np.full(count, _FACTOR, np.uint64)
    return np.cumprod(factors, dtype=np.uint64)


_POWERS = _powers(256)
