"""Needs: by key, the requirements that are open, or may still get an earlier moment.

The needs of a key are a tree ordered by offset, so a signal concerns one range of offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sojourn.replay import schemas
from sojourn.replay.arrays import grown, in_order, integers, slab, text_parts
from sojourn.replay.nodes import NumberList, TimedTrees
from sojourn.replay.texts import Texts

if TYPE_CHECKING:
    from sojourn.replay.name_table import NameTable


class RequirementRows:
    """The columns of a batch of requirements, as arrays; keys as numbers."""

    def __init__(self, batch: pa.RecordBatch, keys: Any) -> None:
        self.keys = keys
        self.id_starts, self.id_data = text_parts(batch.column("id"))
        self.tags = integers(batch.column("tag"))
        self.indexes = integers(batch.column("index"), "i")
        self.offsets = integers(batch.column("offset"))
        self.submitted_ms = integers(batch.column("submitted_ms"))
        self.deadlines_ms = integers(batch.column("deadline_ms"))
        self.order = in_order(self.submitted_ms)


class Needs(TimedTrees):
    """Requirements by key, a tree each. Rows of a batch are put in first, then alarms are set."""

    def __init__(self) -> None:
        super().__init__()
        self._ids = Texts()
        self._tags = slab(1, "q")
        self._indexes = slab(1, "i")
        self._submitted_ms = slab(1, "q")
        # Of this batch.
        self._improved = NumberList()
        self._moments_ms = slab(16, "q")  # of those improved
        # Of a walk through a tree.
        self._walk = NumberList()
        self._range = NumberList()

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        facts = self._tags.nbytes + self._indexes.nbytes + self._submitted_ms.nbytes
        lists = self._improved.nbytes + self._moments_ms.nbytes
        lists += self._walk.nbytes + self._range.nbytes
        return int(super().nbytes + facts + self._ids.nbytes + lists)

    def reserve(self, more: int) -> int:
        """Make room for so many more; return how long the owner's slabs have to be."""
        room = super().reserve(more)
        if room > len(self._tags):
            self._tags = grown(self._tags, room, "q")
            self._indexes = grown(self._indexes, room, "i")
            self._submitted_ms = grown(self._submitted_ms, room, "q")
            self._ids.reserve(room)
        return room

    def put(self, rows: RequirementRows, n: int) -> None:
        """Put in the requirement of row `n`; there is room."""
        node = self._insert(rows.keys[n], rows.offsets[n], rows.deadlines_ms[n])
        self._tags[node] = rows.tags[n]
        self._indexes[node] = rows.indexes[n]
        self._submitted_ms[node] = rows.submitted_ms[n]
        self._ids.put(node, rows.id_data, rows.id_starts[n], rows.id_starts[n + 1])

    def improve(self, key: int, bounded: bool, bound: int, offset: int, at_ms: int) -> None:
        """Requirements with bound < offset ≤ the signal's hold from the signal on: note them.

        Not those whose deadline is before.
        """
        self._find_range(self._firsts[key], bounded, bound, True, offset)
        for n in range(self._range.count):
            node = self._range.at(n)
            moment_ms = at_ms if at_ms > self._submitted_ms[node] else self._submitted_ms[node]
            if moment_ms <= self._alarms.times_ms[node]:
                if self._improved.count == len(self._moments_ms):
                    self._moments_ms = grown(self._moments_ms, self._improved.count + 1, "q")
                self._moments_ms[self._improved.count] = moment_ms
                self._improved.add(node)

    def take_improved(self, names: NameTable) -> pa.RecordBatch | None:
        """Return the candidates of those noted, None if there are none; note them no longer."""
        count = self._improved.count
        if not count:
            return None
        nodes = np.asarray(self._improved.take_all())
        columns = [
            self._ids.column(integers(nodes, "i"), pa.string()),
            pa.array(np.asarray(self._tags)[nodes]),
            pa.array(np.asarray(self._indexes)[nodes]),
            names.column(integers(np.asarray(self._keys)[nodes], "i"), pa.string()),
            pa.array(np.array(self._moments_ms[:count])),
        ]
        return pa.record_batch(columns, schema=schemas.CANDIDATES)

    def clear_improved(self) -> None:
        """Note none of those noted any longer."""
        self._improved.count = 0

    def remove_until(self, key: int, offset: int) -> None:
        """Remove the requirements of a key up to this offset: what they get is final."""
        self._firsts[key] = self._forest.cut(self._firsts[key], offset)
        if self._forest.cut_off:
            self._find_range(self._forest.cut_off, False, 0, False, 0)
            for n in range(self._range.count):
                self._gone.add(self._range.at(n))
                self._free(self._range.at(n))

    def expire(self, node: int) -> int:
        """Remove a requirement whose deadline is past; return its key."""
        key = self._remove(node)
        self._free(node)
        return key

    def set_alarms(self, start_ms: int | None) -> None:
        """Set the alarms of what is new."""
        self._set_alarms(*self._take_fresh(), start_ms)

    def due(self, now_ms: int) -> Any:
        """Return the requirements whose deadline has come; their alarms are off."""
        self._alarms.clear_many(self._gone.take_all())
        return self._alarms.due(now_ms)

    def rows(self, place_of_key: Any) -> pa.RecordBatch:
        """Return all requirements, for `fill`; keys by their place among those of a snapshot."""
        nodes = self._nodes.used()
        return pa.record_batch(
            [
                self._ids.column(integers(nodes, "i"), pa.large_string()),
                pa.array(np.asarray(self._tags)[nodes]),
                pa.array(np.asarray(self._indexes)[nodes]),
                pa.array(place_of_key[np.asarray(self._keys)[nodes]]),
                self._offsets_column(nodes),
                pa.array(np.asarray(self._submitted_ms)[nodes]),
                self._times_column(nodes),
            ],
            schema=schemas.HELD_REQUIREMENTS,
        )

    def fill(self, rows: pa.RecordBatch) -> None:
        """Put in what was in a snapshot; alarms are set as of a batch."""
        self.reserve(len(rows))
        self._put_all(RequirementRows(rows, integers(rows.column("key"), "i")))

    def _put_all(self, rows: RequirementRows) -> None:
        for n in range(len(rows.keys)):
            self.put(rows, n)

    def _free(self, node: int) -> None:
        self._ids.remove(node)
        self._nodes.free(node)

    def _find_range(self, root: int, bounded: bool, bound: int, limited: bool, limit: int) -> None:
        """Find the nodes of a tree with bound < offset ≤ limit, where these are given."""
        self._walk.count = 0
        self._range.count = 0
        self._walk.add(root)
        done = 0
        while done < self._walk.count:
            node = self._walk.at(done)
            done += 1
            above = not bounded or self._forest.keys[node] > bound
            below = not limited or self._forest.keys[node] <= limit
            if above and self._forest.links[2 * node]:
                self._walk.add(self._forest.links[2 * node])
            if below and self._forest.links[2 * node + 1]:
                self._walk.add(self._forest.links[2 * node + 1])
            if above and below:
                self._range.add(node)
