"""Names for replaying a history in which keys were forgotten and ids came again.

A durable purgatory forgets keys that were idle, and ids some time after their end. The rules for
rows never forget. So a key is given another name each time it was forgotten, and an id that came
several times a name for each; then the rules for rows say what the purgatory said:

    time ->     10         20           30          40          50
    signals     k to 5                  k to 2
    forgotten              k
    as          k to 5                  k·1 to 2
    operations                                      A needs k·1 to be at 3: it waits
                                                    under `k` it would have been there since 10

This is exact. Nobody waits on a key when it is forgotten, and no row of that moment names it, so
every operation sees one and the same `k` for all of its life.

Names keep the order of keys, for of several keys that hold at one moment the smallest is `by_key`:
a key is followed by two NUL characters and the count, and a NUL in a key is followed by a 1, so
that no key's name is the beginning of another's continuation:

    k           k·1 = k NUL NUL 1           k NUL -> k NUL 1           kk
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.replay.arrays import one_piece

Integers = npt.NDArray[np.int64]

_NUL = "\0"
_NUL_IN_NAME = "\0\1"
_END = "\0\0"
_COUNT = r"\x00\x00[0-9]+\z"


@dataclass(frozen=True)
class Names:
    """Gives rows the names under which they are replayed, and takes them back.

    `forgotten` (key, at_ms) are the forgettings, at least those of keys that came again;
    `repeated` (id, submitted_ms) the operations whose ids came several times.
    """

    forgotten: pa.Table
    repeated: pa.Table

    def __bool__(self) -> bool:
        """Whether any row has another name."""
        return bool(len(self.forgotten) or len(self.repeated))

    def operations(self, table: pa.Table) -> pa.Table:
        if not self:
            return table
        submitted_ms = _numbers(table["submitted_ms"])
        table = _put(table, "id", self._ids(table["id"], submitted_ms))
        if not len(self.forgotten):
            return table
        requires = one_piece(table["requires"])
        items = requires.flatten()
        counts = pc.fill_null(pc.list_value_length(requires), 0).to_numpy(zero_copy_only=False)
        keys = self._keys(items.field("key"), np.repeat(submitted_ms, counts))
        starts = np.zeros(len(counts) + 1, dtype=np.int32)
        np.cumsum(counts, out=starts[1:])
        named = pa.StructArray.from_arrays([keys, items.field("offset")], ["key", "offset"])
        return _put(table, "requires", pa.ListArray.from_arrays(pa.array(starts), named))

    def signals(self, table: pa.Table) -> pa.Table:
        if not len(self.forgotten):
            return table
        return _put(table, "key", self._keys(table["key"], _numbers(table["at_ms"])))

    def cancels(self, table: pa.Table) -> pa.Table:
        if not self:
            return table
        return _put(table, "id", self._ids(table["id"], _numbers(table["at_ms"])))

    def outcomes(self, table: pa.Table) -> pa.Table:
        """Those that were told: their ids have names, `by_key` stays as it was told."""
        if not self:
            return table
        return _put(table, "id", self._ids(table["id"], _numbers(table["submitted_ms"])))

    def plain_ids(self, ids: Any) -> Any:
        """The ids that these names stand for."""
        return _plain(ids) if self else ids

    def plain_keys(self, keys: Any) -> Any:
        """The keys that these names stand for."""
        return _plain(keys) if len(self.forgotten) else keys

    def begins_anew(self, keys: Any) -> Any:
        """Which of these names are of keys that had been forgotten before."""
        if not len(self.forgotten):
            return pa.array(np.zeros(len(keys), dtype=np.bool_))
        return pc.match_substring(keys, pattern=_END)

    def _keys(self, keys: Any, at_ms: Integers) -> pa.Array:
        return _named(keys, times_before(keys, at_ms, self.forgotten, "key", "at_ms"))

    def _ids(self, ids: Any, at_ms: Integers) -> pa.Array:
        """An operation counts itself: the first one of an id that comes again is 1."""
        counts = times_before(ids, at_ms + 1, self.repeated, "id", "submitted_ms")
        return _named(ids, counts)


def times_before(names: Any, at_ms: Integers, events: pa.Table, name: str, time: str) -> Integers:
    """How many events of the same name were before the time, for each."""
    counts = np.zeros(len(names), dtype=np.int64)
    if not len(events):
        return counts
    event_names = pc.unique(one_piece(events[name]))
    code = pc.index_in(one_piece(names), value_set=event_names)
    rows = np.flatnonzero(~np.asarray(pc.is_null(code)))
    if not len(rows):
        return counts
    # Names and times as one number each, so that one search serves all names.
    moments = np.unique(_numbers(events[time]))
    width = len(moments) + 1
    event_code = _numbers(pc.index_in(one_piece(events[name]), value_set=event_names))
    places = np.sort(
        event_code * width + np.searchsorted(moments, _numbers(events[time]), side="left")
    )
    row_code = _numbers(code.take(pa.array(rows)))
    row_place = row_code * width + np.searchsorted(moments, at_ms[rows], side="left")
    counts[rows] = np.searchsorted(places, row_place) - np.searchsorted(places, row_code * width)
    return counts


def _plain(names: Any) -> Any:
    names = pc.replace_substring_regex(names, pattern=_COUNT, replacement="")
    return pc.replace_substring(names, pattern=_NUL_IN_NAME, replacement=_NUL)


def _named(names: Any, counts: Integers) -> pa.Array:
    names = pc.replace_substring(one_piece(names), pattern=_NUL, replacement=_NUL_IN_NAME)
    counted = pa.array(counts > 0)
    with_count = pc.binary_join_element_wise(names, pa.array(counts).cast(names.type), _END)
    return pc.if_else(counted, with_count, names)


def _put(table: pa.Table, column: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, values)


def _numbers(column: Any) -> Integers:
    numbers: Integers = one_piece(column).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers
