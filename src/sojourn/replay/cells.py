"""Cells: the candidates of operations, one cell for each requirement.

A cell holds the earliest moment known for its requirement, and the key. The cells of an operation
are adjacent, and are known by the number of the first.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.replay import schemas
from sojourn.replay.arrays import grown, integers, slab, starts_of, within
from sojourn.replay.texts import Texts

if cython.compiled:
    from cython.cimports.sojourn.replay.endings import nth
else:
    from sojourn.replay.endings import nth


class Cells:
    """Cells from 1 on; one without a key is empty."""

    def __init__(self) -> None:
        self._moments_ms = slab(1, "q")
        self._keys = Texts()
        self._top = 0
        # Where free ones begin, by how many lie side by side; their moments lead on.
        self._free = slab(2, "q")
        self._scratch = slab(16, "q")
        self.condition_ms = 0  # what `find_condition` found

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        slabs = self._moments_ms.nbytes + self._free.nbytes + self._scratch.nbytes
        return int(slabs + self._keys.nbytes)

    def take(self, count: int) -> int:
        """Return the first of so many empty cells side by side."""
        if count >= len(self._free):
            self._free = grown(self._free, count + 1, "q")
        first = self._free[count]
        if first:
            self._free[count] = self._moments_ms[first]
        else:
            first = self._top + 1
            self._top += count
            if self._top >= len(self._moments_ms):
                self._moments_ms = grown(self._moments_ms, self._top + 1, "q")
                self._keys.reserve(len(self._moments_ms))
        return first  # type: ignore[no-any-return]

    def free(self, first: int, count: int) -> None:
        """Let these cells be used anew."""
        for cell in range(first, first + count):
            self._keys.remove(cell)
        self._moments_ms[first] = self._free[count]
        self._free[count] = first

    def is_better(self, cell: int, moment_ms: int) -> bool:
        """Say whether the moment is better than what the cell holds, if anything."""
        return bool(not self._keys.holds(cell) or moment_ms < self._moments_ms[cell])

    def fill(self, cell: int, moment_ms: int, data: Any, start: int, end: int) -> None:
        """Put a moment and a key into the cell."""
        self._moments_ms[cell] = moment_ms
        self._keys.put(cell, data, start, end)

    def find_condition(self, first: int, count: int, needed: int) -> bool:
        """Find the needed-th of the moments in these cells; say whether there are so many."""
        if count > len(self._scratch):
            self._scratch = grown(self._scratch, count, "q")
        held = 0
        for cell in range(first, first + count):
            if self._keys.holds(cell):
                self._scratch[held] = self._moments_ms[cell]
                held += 1
        if held < needed:
            return False
        self.condition_ms = nth(self._scratch, held, needed)
        return True

    def smallest(self, first: int, count: int) -> int:
        """Return the cell with the smallest key, of those whose moment is the condition's."""
        smallest = -1
        for cell in range(first, first + count):
            if (
                self._keys.holds(cell)
                and self._moments_ms[cell] == self.condition_ms
                and (smallest < 0 or self._keys.before(cell, smallest))
            ):
                smallest = cell
        return smallest

    def key_column(self, cells: Any) -> pa.Array:
        """Return the keys in these cells; null where the number is -1."""
        return self._keys.column(cells, pa.string())

    def rows(self, firsts: Any, counts: Any) -> pa.RecordBatch:
        """Return what is in the cells of these operations, where they have any, for a snapshot."""
        starts = starts_of(np.where(firsts > 0, counts, 0))
        indexes = within(starts)
        owners = np.repeat(np.arange(len(firsts)), np.diff(starts))
        cells = firsts[owners] + indexes
        full = np.asarray(self._keys._sizes)[cells] >= 0
        owners, indexes, cells = owners[full], indexes[full], cells[full]
        return pa.record_batch(
            [
                pa.array(owners.astype(np.int32)),
                pa.array(indexes.astype(np.int32)),
                self._keys.column(integers(cells, "i"), pa.large_string()),
                pa.array(np.asarray(self._moments_ms)[cells]),
            ],
            schema=schemas.HELD_CELLS,
        )
