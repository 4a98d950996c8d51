"""How the operations of each class ended lately, in slices of ten seconds.

A thousand classes at most are counted by name; beyond that they are counted together. A class with
no end in the whole window makes room. So memory is bounded however many names come:

    slice        … 17  18  19      a class counted by name keeps that until its row is all zero
    "order"         4   9   7
    "refund"        0   0   0  --> removed, the next new name is counted by itself
    all classes     4  11   7      so others have      0   2   0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nlargest
from operator import sub

from sojourn.durable.answers import CANCELLED, COMPLETED, EXPIRED
from sojourn.service.durations import SLICE_MS, SLICES

MOST_CLASSES = 1_000
HIGH_SHARE = 0.1  # of expiries among ends
STATUSES = (COMPLETED, EXPIRED, CANCELLED)


@dataclass(frozen=True)
class ClassCounts:
    """Ends of one class by slice, the oldest first; `name` is None for all that have no row."""

    name: str | None
    by_status: dict[str, list[int]]
    high_since_ms: int | None = None  # since when the share of expiries has been high

    def count(self, status: str, slices: int = SLICES) -> int:
        return sum(self.by_status[status][-slices:])

    def ended(self, slices: int = SLICES) -> int:
        return sum(self.count(status, slices) for status in STATUSES)

    def ended_by_slice(self) -> list[int]:
        return [sum(counts) for counts in zip(*self.by_status.values(), strict=True)]


class _Row:
    """The rings of a class, one for each status; and since which slice its share is high."""

    __slots__ = ("high_since", "rings")

    def __init__(self) -> None:
        self.rings = [[0] * SLICES for _ in STATUSES]
        self.high_since: int | None = None

    def judge(self, slice: int) -> int | None:
        """Since which slice the share is high, after this one; None if it is not."""
        completed, expired, cancelled = (ring[slice % SLICES] for ring in self.rings)
        ended = completed + expired + cancelled
        if not ended:
            return self.high_since
        if expired < HIGH_SHARE * ended:
            return None
        return slice if self.high_since is None else self.high_since


class Classes:
    """Rings of counts by class and status. Not for several threads at once."""

    def __init__(self, most: int = MOST_CLASSES) -> None:
        self._most = most
        self._rows: dict[str, _Row] = {}
        self._all = _Row()
        self._slice: int | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, time_ms: int, class_: str, counts: Mapping[str, int]) -> None:
        """Count ends by status in the slice of `time_ms`, which never goes back."""
        self._turn_to(time_ms // SLICE_MS)
        row = self._rows.get(class_)
        if row is None and len(self._rows) < self._most:
            row = self._rows[class_] = _Row()
        slot = time_ms // SLICE_MS % SLICES
        for at, status in enumerate(STATUSES):
            count = counts.get(status, 0)
            self._all.rings[at][slot] += count
            if row is not None:
                row.rings[at][slot] += count

    def over(self, now_ms: int, most: int) -> tuple[int, list[ClassCounts], ClassCounts | None]:
        """From when; the counts of `most` classes, the largest first; and of all others together.

        The counts are those of the last 30 slices, the present one included. Half of the classes
        are those with the most expiries.
        """
        now = now_ms // SLICE_MS
        self._turn_to(now)
        slots = [slice % SLICES for slice in range(now - SLICES + 1, now + 1)]
        ended = {name: sum(map(sum, row.rings)) for name, row in self._rows.items()}
        names = nlargest(most, ended, key=lambda name: (ended[name], name))
        if len(names) < len(ended):
            expired = {name: sum(row.rings[1]) for name, row in self._rows.items()}
            worst = nlargest(most // 2, expired, key=lambda name: (expired[name], name))
            worst = [name for name in worst if expired[name]]
            names = [*worst, *(name for name in names if name not in worst)][:most]
            names.sort(key=lambda name: (-ended[name], name))

        def counts(name: str | None, row: _Row) -> ClassCounts:
            rings = zip(STATUSES, row.rings, strict=True)
            since = row.judge(now)
            return ClassCounts(
                name,
                {status: [ring[slot] for slot in slots] for status, ring in rings},
                None if since is None else since * SLICE_MS,
            )

        others = _Row()
        for at, ring in enumerate(others.rings):
            ring[:] = self._all.rings[at]
            for name in names:
                ring[:] = map(sub, ring, self._rows[name].rings[at])
        return (
            (now - SLICES + 1) * SLICE_MS,
            [counts(name, self._rows[name]) for name in names],
            counts(None, others) if any(map(any, others.rings)) else None,
        )

    def _turn_to(self, slice: int) -> None:
        last = slice - SLICES if self._slice is None else self._slice
        if slice <= last:
            return
        slots = [passed % SLICES for passed in range(max(last + 1, slice - SLICES + 1), slice + 1)]
        for row in (*self._rows.values(), self._all):
            row.high_since = row.judge(last)
            for ring in row.rings:
                for slot in slots:
                    ring[slot] = 0
        for name in [name for name, row in self._rows.items() if not any(map(any, row.rings))]:
            del self._rows[name]
        self._slice = slice
