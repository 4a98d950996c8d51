"""Signals ahead: for each key, the signals after now whose offset is above all earlier ones.

Those of one key rise in time and in offset, so a tree ordered by offset is ordered by time too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.replay import schemas
from sojourn.replay.arrays import in_order, integers
from sojourn.replay.nodes import TimedTrees


class SignalRows:
    """The columns of a batch of signals, as arrays; keys as numbers."""

    def __init__(self, batch: pa.RecordBatch, keys: Any) -> None:
        self.keys = keys
        self.offsets = integers(batch.column("offset"))
        self.at_ms = integers(batch.column("at_ms"))
        self.order = in_order(self.at_ms)


class SignalsAhead(TimedTrees):
    """Signals by key, a tree each. Rows of a batch are put in first, then their alarms are set."""

    def offset(self, node: int) -> int:
        return self._forest.keys[node]

    def put(self, key: int, offset: int, at_ms: int) -> None:
        self._insert(key, offset, at_ms)

    def latest_until(self, key: int, at_ms: int) -> int:
        """Return the last signal of the key at or before this time; 0 if there is none."""
        latest = 0
        here = self._firsts[key]
        while here:
            if self._alarms.times_ms[here] <= at_ms:
                latest = here
                here = self._forest.links[2 * here + 1]
            else:
                here = self._forest.links[2 * here]
        return latest

    def earliest_from(self, key: int, at_ms: int) -> int:
        """Return the first signal of the key at or after this time; 0 if there is none."""
        earliest = 0
        here = self._firsts[key]
        while here:
            if self._alarms.times_ms[here] >= at_ms:
                earliest = here
                here = self._forest.links[2 * here]
            else:
                here = self._forest.links[2 * here + 1]
        return earliest

    def covering(self, key: int, offset: int) -> int:
        """Return the first signal of the key that brings this offset; 0 if there is none."""
        covering = 0
        here = self._firsts[key]
        while here:
            if self._forest.keys[here] >= offset:
                covering = here
                here = self._forest.links[2 * here]
            else:
                here = self._forest.links[2 * here + 1]
        return covering

    def remove(self, node: int) -> None:
        """Remove a signal that is no news; it is freed with the others of the batch.

        So no node is new twice in a batch.
        """
        self._remove(node)
        self._gone.add(node)

    def remove_all(self, key: int) -> None:
        """Remove the signals of a key."""
        while self._firsts[key]:
            self.remove(self._firsts[key])

    def pass_by(self, node: int) -> int:
        """Remove a signal whose time has come; return its key."""
        key = self._remove(node)
        self._nodes.free(node)
        return key

    def set_alarms(self, now_ms: int | None, start_ms: int | None) -> Any:
        """Set the alarms of what is new; return those of the new whose time has come already."""
        gone = self._gone.take_all()
        self._alarms.clear_many(gone)
        self._free_all(gone)
        fresh, at_ms = self._take_fresh()
        past = fresh[:0] if now_ms is None else fresh[at_ms <= now_ms]
        if len(past):
            fresh, at_ms = fresh[at_ms > now_ms], at_ms[at_ms > now_ms]
        self._set_alarms(fresh, at_ms, start_ms)
        return integers(past, "i")

    def rows(self, place_of_key: Any) -> pa.RecordBatch:
        """Return all signals, for `fill`; keys by their place among those of a snapshot."""
        nodes = self._nodes.used()
        return pa.record_batch(
            [
                pa.array(place_of_key[np.asarray(self._keys)[nodes]]),
                self._offsets_column(nodes),
                self._times_column(nodes),
            ],
            schema=schemas.HELD_SIGNALS,
        )

    def fill(self, rows: pa.RecordBatch) -> None:
        """Put in what was in a snapshot; alarms are set as of a batch."""
        self.reserve(len(rows))
        self._put_all(SignalRows(rows, integers(rows.column("key"), "i")))

    def _free_all(self, nodes: Any) -> None:
        for n in range(len(nodes)):
            self._nodes.free(nodes[n])

    def _put_all(self, rows: SignalRows) -> None:
        for n in range(len(rows.keys)):
            self.put(rows.keys[n], rows.offsets[n], rows.at_ms[n])
