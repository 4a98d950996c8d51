"""Faults that the sample adds: late, duplicate and broken rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.sample.shop import MINUTE_MS, Int64s

LATEST_MS = 2**63 - 1

_SENT_TWICE = 0.001
_LATE = 0.002
_BROKEN = 0.0001  # of each kind; at least one

Row = dict[str, Any]


def _first_requirement(**change: Any) -> Callable[[Row], None]:
    def change_row(row: Row) -> None:
        row["requires"][0].update(change)

    return change_row


def _set(**change: Any) -> Callable[[Row], None]:
    return lambda row: row.update(change)


def _too_many_needed(row: Row) -> None:
    row["needed"] = len(row["requires"]) + 1


BROKEN_OPERATIONS: tuple[Callable[[Row], None], ...] = (
    _set(id=None),
    _set(submitted_ms=None),
    _set(timeout_ms=None),
    _set(timeout_ms=-1),
    _set(requires=None),
    _set(requires=[]),
    _first_requirement(key=None),
    _first_requirement(offset=None),
    _set(needed=0),
    _too_many_needed,
    _set(timeout_ms=LATEST_MS),  # a deadline past the end of time
)
BROKEN_SIGNALS = (_set(key=None), _set(offset=None), _set(at_ms=None))
BROKEN_CANCELS = (_set(id=None), _set(at_ms=None), _set(id="order-of-somebody-else"))


class Faults:
    """Adds faulty rows to good ones, and puts all of them in order of arrival."""

    def __init__(self, rng: np.random.Generator, start_ms: int, end_ms: int) -> None:
        self._rng = rng
        self._start_ms = start_ms
        self._end_ms = end_ms

    def operations(self, good: Any) -> tuple[Any, Int64s]:
        # A client without an answer sends again: the same row, or one with a new time.
        again = self._some(good)
        later = pc.add(
            again["submitted_ms"], pa.array(self._rng.integers(0, 2, len(again)) * 1_500)
        )
        again = again.set_column(
            again.schema.get_field_index("submitted_ms"), "submitted_ms", later
        )
        broken = self._broken(good, BROKEN_OPERATIONS, name="id")
        return self._arriving(pa.concat_tables([good, again, broken]), "submitted_ms")

    def signals(self, good: Any) -> tuple[Any, Int64s]:
        broken = self._broken(good, BROKEN_SIGNALS)
        return self._arriving(pa.concat_tables([good, self._some(good), broken]), "at_ms")

    def cancels(self, good: Any) -> tuple[Any, Int64s]:
        broken = self._broken(good, BROKEN_CANCELS)
        return self._arriving(pa.concat_tables([good, self._some(good), broken]), "at_ms")

    def _some(self, good: Any) -> Any:
        return good.take(np.flatnonzero(self._rng.random(len(good)) < _SENT_TWICE))

    def _broken(
        self, good: Any, kinds: tuple[Callable[[Row], None], ...], name: str | None = None
    ) -> Any:
        """Copies of good rows, each broken in one way; with an id of its own if it has one."""
        if not len(good):
            return good
        each = max(1, int(len(good) * _BROKEN))
        rows = good.take(self._rng.integers(0, len(good), each * len(kinds))).to_pylist()
        for number, row in enumerate(rows):
            if name:
                row[name] = f"{row[name]}-spoilt-{number}"
            kinds[number // each](row)
        return pa.Table.from_pylist(rows, schema=good.schema)

    def _arriving(self, table: Any, time: str) -> tuple[Any, Int64s]:
        count = len(table)
        # A row without a time arrives at a random one.
        some_time = pa.array(self._rng.integers(self._start_ms, self._end_ms, count))
        at_ms = pc.coalesce(table[time].combine_chunks(), some_time).to_numpy()
        delay_ms = self._rng.exponential(600, count)
        late = self._rng.random(count) < _LATE
        delay_ms += late * self._rng.lognormal(np.log(4 * MINUTE_MS), 1.4, count)
        arrived_ms = at_ms + delay_ms.astype(np.int64)
        order = np.argsort(arrived_ms, kind="stable")
        return table.take(order).combine_chunks(), arrived_ms[order]
