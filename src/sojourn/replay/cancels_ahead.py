"""Cancels ahead: those that are still after now, since the operation they mean may come yet."""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sojourn.replay import schemas
from sojourn.replay.arrays import grown, integers, slab

if cython.compiled:
    from cython.cimports.sojourn.replay.alarms import Alarms
    from cython.cimports.sojourn.replay.nodes import Nodes, NumberList
else:
    from sojourn.replay.alarms import Alarms
    from sojourn.replay.nodes import Nodes, NumberList

if TYPE_CHECKING:
    from sojourn.replay.name_table import NameTable


class CancelsAhead:
    """Cancels by id, a chain each."""

    __slots__ = ("_alarms", "_firsts", "_fresh", "_ids", "_next", "_nodes")

    def __init__(self) -> None:
        self._firsts = slab(0, "i")  # by id; the rest by node
        self._nodes = Nodes()
        self._ids = slab(1, "i")
        self._next = slab(1, "i")  # of the same id
        self._alarms = Alarms()
        self._fresh = NumberList()  # of this batch

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        slabs = self._firsts.nbytes + self._ids.nbytes + self._next.nbytes + self._nodes.nbytes
        return int(slabs + self._alarms.nbytes + self._fresh.nbytes)

    def reserve_ids(self, count: int) -> None:
        """Make room for ids below this number."""
        if count > len(self._firsts):
            self._firsts = grown(self._firsts, count, "i")

    def reserve(self, more: int) -> None:
        """Make room for so many more cancels."""
        room = self._nodes.reserve(more)
        if room > len(self._ids):
            self._ids = grown(self._ids, room, "i")
            self._next = grown(self._next, len(self._ids), "i")
            self._alarms.reserve(len(self._ids))

    def put(self, id: int, at_ms: int) -> None:
        node = self._nodes.take()
        self._ids[node] = id
        self._alarms.times_ms[node] = at_ms
        self._next[node] = self._firsts[id]
        self._firsts[id] = node
        self._fresh.add(node)

    def first(self, id: int) -> int:
        """Return one of the cancels of an id, 0 if there is none; `next` leads on."""
        return self._firsts[id]  # type: ignore[no-any-return]

    def next(self, node: int) -> int:
        return self._next[node]  # type: ignore[no-any-return]

    def at_ms(self, node: int) -> int:
        return self._alarms.times_ms[node]  # type: ignore[no-any-return]

    def remove(self, node: int) -> int:
        """Remove a cancel whose time has come; return its id."""
        id = self._ids[node]
        if self._firsts[id] == node:
            self._firsts[id] = self._next[node]
        else:
            before = self._firsts[id]
            while self._next[before] != node:
                before = self._next[before]
            self._next[before] = self._next[node]
        self._nodes.free(node)
        return id  # type: ignore[no-any-return]

    def set_alarms(self, start_ms: int | None) -> None:
        """Set the alarms of what is new."""
        fresh = self._fresh.taken()
        times_ms = np.asarray(self._alarms.times_ms)[np.asarray(fresh)]
        self._alarms.set_many(fresh, integers(times_ms), start_ms)

    def due(self, now_ms: int) -> Any:
        """Return the cancels whose time has come; their alarms are off."""
        return self._alarms.due(now_ms)

    def rows(self, names: NameTable) -> pa.RecordBatch:
        """Return all cancels, for a snapshot."""
        nodes = self._nodes.used()
        return pa.record_batch(
            [
                names.column(integers(np.asarray(self._ids)[nodes], "i"), pa.large_string()),
                pa.array(np.asarray(self._alarms.times_ms)[nodes]),
            ],
            schema=schemas.HELD_CANCELS,
        )
