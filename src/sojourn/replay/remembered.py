"""Remembered ids: the ids of operations that have ended, each until a time of its own.

A queue holds them in the order in which they are forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sojourn.replay import schemas
from sojourn.replay.arrays import grown, integers, slab

if TYPE_CHECKING:
    from sojourn.replay.name_table import NameTable


class Remembered:
    """Ids, and until when a second operation under each is a duplicate."""

    def __init__(self) -> None:
        self._until_ms = slab(0, "q")  # by id
        self._has_until = slab(0, "B")
        self._queue_ms = slab(16, "q")
        self._queue_ids = slab(16, "i")
        self._first = 0
        self._last = 0

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        by_id = self._until_ms.nbytes + self._has_until.nbytes
        return int(by_id + self._queue_ms.nbytes + self._queue_ids.nbytes)

    @property
    def next_ms(self) -> int | None:
        """When the next one may be forgotten; None if there is none."""
        return None if self._first == self._last else int(self._queue_ms[self._first])

    def reserve_ids(self, count: int) -> None:
        """Make room for ids below this number."""
        if count > len(self._until_ms):
            self._until_ms = grown(self._until_ms, count, "q")
            self._has_until = grown(self._has_until, len(self._until_ms), "B")

    def has(self, id: int) -> bool:
        """Say whether the id is remembered."""
        return bool(self._has_until[id] != 0)

    def has_until(self, id: int, at_ms: int) -> bool:
        """Say whether the id is remembered until this time, or longer."""
        return bool(self._has_until[id] != 0 and self._until_ms[id] >= at_ms)

    def put(self, id: int, until_ms: int) -> None:
        """Remember the id, which is not remembered, until this time; no other is until later."""
        self._has_until[id] = 1
        self._until_ms[id] = until_ms
        if self._last == len(self._queue_ms):
            self._make_room()
        self._queue_ms[self._last] = until_ms
        self._queue_ids[self._last] = id
        self._last += 1

    def pop(self, now_ms: int) -> int:
        """Forget an id whose time is up, and return it; -1 if there is none."""
        if self._first == self._last or self._queue_ms[self._first] > now_ms:
            return -1
        id = self._queue_ids[self._first]
        self._first += 1
        self._has_until[id] = 0
        return id  # type: ignore[no-any-return]

    def rows(self, names: NameTable) -> pa.RecordBatch:
        """Return all ids, from the one to be forgotten first, for `fill`."""
        ids = np.asarray(self._queue_ids)[self._first : self._last]
        until_ms = np.asarray(self._queue_ms)[self._first : self._last]
        texts = names.column(integers(ids, "i"), pa.large_string())
        return pa.record_batch([texts, pa.array(until_ms)], schema=schemas.HELD_IDS)

    def fill(self, ids: Any, until_ms: Any) -> None:
        """Put in what was in a snapshot."""
        for n in range(len(ids)):
            self.put(ids[n], until_ms[n])

    def _make_room(self) -> None:
        count = self._last - self._first
        if 2 * count > self._last:
            self._queue_ms = grown(self._queue_ms, self._last + 1, "q")
            self._queue_ids = grown(self._queue_ids, len(self._queue_ms), "i")
        else:  # half of it is behind us
            for queue in (np.asarray(self._queue_ms), np.asarray(self._queue_ids)):
                queue[:count] = queue[self._first : self._last].copy()
            self._first = 0
            self._last = count
