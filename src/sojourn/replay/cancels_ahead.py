"""Cancels ahead: cancels whose time is after now; their operations may still arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sojourn.replay import schemas
from sojourn.replay.arrays import grown, integers, slab
from sojourn.replay.nodes import TimedNodes

if TYPE_CHECKING:
    from sojourn.replay.name_table import NameTable


class CancelsAhead(TimedNodes):
    """Cancels by id, a chain each."""

    def __init__(self) -> None:
        super().__init__()
        self._next = slab(1, "i")  # of the same id

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return int(super().nbytes + self._next.nbytes)

    def reserve(self, more: int) -> int:
        """Make room for so many more; return how long the owner's slabs have to be."""
        room = super().reserve(more)
        if room > len(self._next):
            self._next = grown(self._next, room, "i")
        return room

    def put(self, id: int, at_ms: int) -> None:
        node = self._add(id, at_ms)
        self._next[node] = self._firsts[id]
        self._firsts[id] = node

    def first(self, id: int) -> int:
        """Return one of the cancels of an id, 0 if there is none; `next` leads on."""
        return self._firsts[id]  # type: ignore[no-any-return]

    def next(self, node: int) -> int:
        return self._next[node]  # type: ignore[no-any-return]

    def remove(self, node: int) -> int:
        """Remove a cancel whose time has come; return its id."""
        id = self._keys[node]
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
        self._set_alarms(*self._take_fresh(), start_ms)

    def rows(self, names: NameTable) -> pa.RecordBatch:
        """Return all cancels, for a snapshot."""
        nodes = self._nodes.used()
        return pa.record_batch(
            [
                names.column(integers(np.asarray(self._keys)[nodes], "i"), pa.large_string()),
                self._times_column(nodes),
            ],
            schema=schemas.HELD_CANCELS,
        )
