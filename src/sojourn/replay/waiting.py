"""Waiting: the id side of the incremental engine: which operations wait, and how each ends.

An operation has three times: c, when its condition holds, the needed-th of its candidates' moments,
if so many are known; x, its earliest cancel at or after its submission, if any; and its deadline d.
They decide how it ends (endings.py). Its alarm is set to the end that is known so far. New rows can
only make the end earlier, and are always after now; so the end is final when the alarm goes off.

It keeps by id: the operation that waits, if any, with its candidates (cells.py); the cancels ahead
(cancels_ahead.py); and until when another operation of the id is a duplicate (remembered.py).
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.errors import OutOfRange
from sojourn.replay import journal, schemas
from sojourn.replay.alarms import Alarms
from sojourn.replay.arrays import grown, in_order, integers, missing, slab, text_parts
from sojourn.replay.cancels_ahead import CancelsAhead
from sojourn.replay.cells import Cells
from sojourn.replay.endings import STATUS
from sojourn.replay.name_table import NameTable
from sojourn.replay.nodes import Nodes, NumberList
from sojourn.replay.remembered import Remembered
from sojourn.replay.texts import Texts
from sojourn.replay.times import check_forward

if cython.compiled:
    from cython.cimports.sojourn.replay.endings import _CANCELLED, _COMPLETED, ending
else:
    from sojourn.replay.endings import _CANCELLED, _COMPLETED, ending

_ENTRY = "Went"
SNAPSHOT = "Wsnp"
SNAPSHOT_SCHEMAS = (
    schemas.HELD_OPERATIONS,
    schemas.HELD_CELLS,
    schemas.HELD_CANCELS,
    schemas.HELD_IDS,
)
_MOST_MS = 2**63 - 1
_DAY_MS = 86_400_000


class Waiting:
    """The operations that wait. Rows are applied first, then time moves to `now_ms`.

    Rows must be checked already, and none at or before the time it stands at. `now_ms=None` leaves
    the time where it is. An id that ended is remembered for `remember_ms` of event time: an
    operation submitted until then under the same id is a duplicate. Not for several threads at
    once.
    """

    def __init__(self, *, remember_ms: int = _DAY_MS) -> None:
        self._remember_ms = remember_ms
        self._started = False
        self._now_ms = 0
        # By id.
        self._names = NameTable()
        self._operations = slab(0, "i")  # which waits, 0 for none
        self._ahead = CancelsAhead()
        self._remembered = Remembered()
        # By operation.
        self._nodes = Nodes()
        self._ids = slab(1, "i")
        self._tags = slab(1, "q")
        self._submitted_ms = slab(1, "q")
        self._deadlines_ms = slab(1, "q")
        self._needed = slab(1, "i")
        self._counts = slab(1, "i")
        self._firsts = slab(1, "q")  # the first of its cells, 0 while it has none
        self._cancel_ms = slab(1, "q")
        self._has_cancel = slab(1, "B")
        self._touched = slab(1, "B")
        self._payloads = Texts()
        self._ends = Alarms()
        self._cells = Cells()
        # What happened in this batch.
        self._touched_nodes = NumberList()
        self._refused = NumberList()
        self._replaced = NumberList()
        # What `_end` found: when, and by which cell, if by one.
        self._at_ms = 0
        self._by = 0

    @property
    def now_ms(self) -> int | None:
        """The time it stands at; None before the first."""
        return self._now_ms if self._started else None

    @property
    def next_ms(self) -> int | None:
        """Nothing ends before this time, unless rows arrive; None when nothing waits."""
        return self._ends.next_ms

    @property
    def ids(self) -> int:
        """How many ids are known: of those that wait, that have ended, and of cancels ahead."""
        return self._names.count

    @property
    def sweep_ms(self) -> int | None:
        """When to be told the time next, though nothing arrives: ids are to be forgotten by then.

        Some time after the first of them could be, so that many are forgotten at once.
        """
        until_ms = self._remembered.next_ms
        if until_ms is None:
            return None
        return min(until_ms + self._remember_ms // 4, _MOST_MS)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        slabs = self._operations.nbytes + self._ids.nbytes + self._tags.nbytes
        slabs += self._submitted_ms.nbytes + self._deadlines_ms.nbytes + self._needed.nbytes
        slabs += self._counts.nbytes + self._firsts.nbytes + self._cancel_ms.nbytes
        slabs += self._has_cancel.nbytes + self._touched.nbytes + self._nodes.nbytes
        parts = self._names.nbytes + self._ahead.nbytes + self._remembered.nbytes
        parts += self._payloads.nbytes + self._ends.nbytes + self._cells.nbytes
        batch = self._touched_nodes.nbytes + self._refused.nbytes + self._replaced.nbytes
        return int(slabs + parts + batch)

    def __len__(self) -> int:
        """How many operations wait."""
        return len(self._nodes)

    def apply(
        self,
        operations: pa.RecordBatch | None,
        candidates: pa.RecordBatch | None,
        cancels: pa.RecordBatch | None,
        now_ms: int | None,
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Take the rows in, move time to `now_ms`; return what ended, and duplicates (rejected).

        Outcomes come in the order of their time. Candidates of operations that do not wait here
        are passed over.
        """
        check_forward(now_ms, self.now_ms)
        self._take_operations(operations)
        rejected = self._rejected(operations)
        self._take_news(candidates, cancels, now_ms)
        ended = self._move(now_ms)
        outcomes = self._outcomes(ended)
        self._remove(ended, now_ms)
        return outcomes, rejected

    def replay(self, entry: Any) -> None:
        """Apply what the entry holds, leaving out what would come of it."""
        layout = [schemas.SUBMISSIONS, schemas.CANDIDATES, schemas.CANCELS]
        (has_now, now), (operations, candidates, cancels) = journal.unpack(_ENTRY, entry, layout)
        now_ms = now if has_now else None
        check_forward(now_ms, self.now_ms)
        self._take_operations(operations)
        self._free_replaced()
        self._take_news(candidates, cancels, now_ms)
        self._remove(self._move(now_ms), now_ms)

    @staticmethod
    def entry(
        operations: pa.RecordBatch | None,
        candidates: pa.RecordBatch | None,
        cancels: pa.RecordBatch | None,
        now_ms: int | None,
    ) -> bytes:
        """Return what `apply` is given as bytes, for `replay`."""
        batches = [
            journal.in_schema(operations, schemas.SUBMISSIONS),
            journal.in_schema(candidates, schemas.CANDIDATES),
            journal.in_schema(cancels, schemas.CANCELS),
        ]
        return journal.pack(_ENTRY, [int(now_ms is not None), now_ms or 0], batches)

    def pending(self) -> pa.RecordBatch:
        """Return the operations that wait, as they were given."""
        return self._rows_of(self._nodes.used(), schemas.SUBMISSIONS)

    def snapshot(self) -> bytes:
        """Return all of the state as bytes, for `restore`."""
        nodes = self._nodes.used()
        parts = [
            self._rows_of(nodes, schemas.HELD_OPERATIONS),
            self._cells.rows(np.asarray(self._firsts)[nodes], np.asarray(self._counts)[nodes]),
            self._ahead.rows(self._names),
            self._remembered.rows(self._names),
        ]
        return journal.pack(SNAPSHOT, [int(self._started), self._now_ms, self._remember_ms], parts)

    @classmethod
    def restore(cls, data: Any) -> Waiting:
        """Return one that goes on for ever as the one that gave the snapshot would."""
        facts, batches = journal.unpack(SNAPSHOT, data, SNAPSHOT_SCHEMAS)
        self = cls(remember_ms=facts[2])
        self._fill(facts, *batches)
        return self

    def __repr__(self) -> str:
        return f"<Waiting now_ms={self.now_ms} operations={len(self)}>"

    # A batch on its way.

    def _take_operations(self, operations: pa.RecordBatch | None) -> None:
        if operations is None or not len(operations):
            return
        ids = self._names.look_up(operations.column("id"))
        self._reserve_ids()
        self._reserve_operations(len(operations))
        payload_starts, payload_data = text_parts(operations.column("payload"))
        self._admit(
            ids,
            integers(operations.column("tag")),
            integers(operations.column("submitted_ms")),
            integers(operations.column("deadline_ms")),
            integers(operations.column("needed"), "i"),
            integers(operations.column("requirements"), "i"),
            payload_starts,
            payload_data,
            missing(operations.column("payload")),
        )

    def _rejected(self, operations: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the duplicates: those just refused, and those that an earlier one replaced."""
        parts: list[Any] = []
        if self._refused.count and operations is not None:
            refused = operations.take(pa.array(np.asarray(self._refused.numbers())))
            parts.append(journal.in_schema(refused, schemas.SUBMISSIONS))
        if self._replaced.count:
            replaced = np.asarray(self._replaced.numbers())
            parts.append(self._rows_of(replaced, schemas.SUBMISSIONS))
        self._free_replaced()
        return journal.joined(parts, schemas.SUBMISSIONS)

    def _free_replaced(self) -> None:
        replaced = self._replaced.take_all()
        self._ends.clear_many(replaced)
        self._free_operations(replaced)
        self._refused.take_all()

    def _take_news(
        self, candidates: pa.RecordBatch | None, cancels: pa.RecordBatch | None, now_ms: Any
    ) -> None:
        if candidates is not None and len(candidates):
            ids = self._names.find(candidates.column("id"))
            key_starts, key_data = text_parts(candidates.column("key"))
            self._offer(
                ids,
                integers(candidates.column("tag")),
                integers(candidates.column("index"), "i"),
                key_starts,
                key_data,
                integers(candidates.column("moment_ms")),
            )
        if cancels is not None and len(cancels):
            ids = self._names.look_up(cancels.column("id"))
            self._reserve_ids()
            self._ahead.reserve(len(cancels))
            at_ms = integers(cancels.column("at_ms"))
            self._take_cancels(ids, at_ms, now_ms is not None, now_ms or 0)
            self._release_ids(ids)

    def _move(self, now_ms: int | None) -> Any:
        """Move time, if it is to move; return what has ended, in the order of time."""
        start_ms = self.now_ms if now_ms is None else now_ms
        self._ahead.set_alarms(start_ms)
        touched = self._touched_nodes.take_all()
        ended, moved, ends_ms = NumberList(), NumberList(), slab(len(touched), "q")
        self._plan(touched, ended, moved, ends_ms, now_ms is not None, now_ms or 0)
        self._ends.clear_many(ended.numbers())
        self._ends.set_many(moved.numbers(), ends_ms[: moved.count], start_ms)
        if now_ms is None:
            return ended.numbers()
        self._started = True
        self._now_ms = now_ms
        due = self._ends.due(now_ms)
        nodes = np.concatenate([np.asarray(ended.numbers()), np.asarray(due)])
        return nodes[np.asarray(in_order(np.asarray(self._ends.times_ms)[nodes]))].data

    def _outcomes(self, ended: Any) -> pa.RecordBatch:
        """Return how these ended."""
        count = len(ended)
        if not count:
            return pa.RecordBatch.from_pylist([], schemas.ENDED)
        status, by = slab(count, "i"), slab(count, "i")
        at_ms = slab(count, "q")
        self._end_all(ended, status, at_ms, by)
        nodes = np.asarray(ended)
        submitted_ms = np.asarray(self._submitted_ms)[nodes]
        return pa.record_batch(
            [
                self._id_column(nodes, pa.string()),
                pa.array(np.asarray(self._tags)[nodes]),
                pa.array(STATUS).take(pa.array(np.asarray(status))),
                pa.array(np.asarray(at_ms)),
                self._cells.key_column(by),
                pa.array(np.asarray(at_ms) - submitted_ms),
                pa.array(submitted_ms),
                pa.array(np.asarray(self._deadlines_ms)[nodes] - submitted_ms),
                self._payloads.column(ended, pa.binary()),
            ],
            schema=schemas.ENDED,
        )

    def _remove(self, ended: Any, now_ms: int | None) -> None:
        """Keep of what ended only the id, for a while; forget what need not be known any more."""
        if now_ms is None:
            return
        self._forget(now_ms)
        if len(ended):
            self._remember(ended, now_ms, self._remember_ms)
        self._remove_cancels(self._ahead.due(now_ms))

    def _id_column(self, nodes: Any, kind: pa.DataType) -> pa.Array:
        return self._names.column(integers(np.asarray(self._ids)[nodes], "i"), kind)

    def _rows_of(self, nodes: Any, schema: pa.Schema) -> pa.RecordBatch:
        """Return these operations as they were given."""
        return pa.record_batch(
            [
                self._id_column(nodes, schema.field("id").type),
                pa.array(np.asarray(self._tags)[nodes]),
                pa.array(np.asarray(self._submitted_ms)[nodes]),
                pa.array(np.asarray(self._deadlines_ms)[nodes]),
                pa.array(np.asarray(self._needed)[nodes]),
                pa.array(np.asarray(self._counts)[nodes]),
                self._payloads.column(integers(nodes, "i"), schema.field("payload").type),
            ],
            schema=schema,
        )

    def _fill(
        self,
        facts: tuple[int, ...],
        operations: pa.RecordBatch,
        cells: pa.RecordBatch,
        cancels: pa.RecordBatch,
        ended: pa.RecordBatch,
    ) -> None:
        """Put what was in a snapshot into a new one, whose operations are then 1, 2, 3, …"""
        self._started = bool(facts[0])
        self._now_ms = facts[1]
        self._take_operations(operations)
        starts, data = text_parts(cells.column("key"))
        self._fill_cells(
            integers(cells.column("operation"), "i"),
            integers(cells.column("index"), "i"),
            starts,
            data,
            integers(cells.column("moment_ms")),
        )
        self._take_news(None, cancels, None)
        self._move(None)
        ids = self._names.look_up(ended.column("id"))
        self._reserve_ids()
        self._remembered.fill(ids, integers(ended.column("until_ms")))

    def _reserve_ids(self) -> None:
        count = self._names.texts.places
        self._ahead.reserve_keys(count)
        self._remembered.reserve_ids(count)
        if count > len(self._operations):
            self._operations = grown(self._operations, count, "i")

    def _reserve_operations(self, more: int) -> None:
        room = self._nodes.reserve(more)
        if room > len(self._ids):
            self._ids = grown(self._ids, room, "i")
            self._tags = grown(self._tags, room, "q")
            self._submitted_ms = grown(self._submitted_ms, room, "q")
            self._deadlines_ms = grown(self._deadlines_ms, room, "q")
            self._needed = grown(self._needed, room, "i")
            self._counts = grown(self._counts, room, "i")
            self._firsts = grown(self._firsts, room, "q")
            self._cancel_ms = grown(self._cancel_ms, room, "q")
            self._has_cancel = grown(self._has_cancel, room, "B")
            self._touched = grown(self._touched, room, "B")
            self._payloads.reserve(room)
            self._ends.reserve(room)

    # The loops.

    def _admit(
        self,
        ids: Any,
        tags: Any,
        submitted_ms: Any,
        deadlines_ms: Any,
        needed: Any,
        counts: Any,
        payload_starts: Any,
        payload_data: Any,
        payload_missing: Any,
    ) -> None:
        """Let operations in, but of those with one id only the earliest."""
        for n in range(len(ids)):
            id = ids[n]
            other = self._operations[id]
            if self._remembered.has_until(id, submitted_ms[n]) or (
                other and self._submitted_ms[other] <= submitted_ms[n]
            ):
                self._refused.add(n)
                continue
            if other:
                self._replaced.add(other)
            node = self._nodes.take()
            self._operations[id] = node
            self._ids[node] = id
            self._tags[node] = tags[n]
            self._submitted_ms[node] = submitted_ms[n]
            self._deadlines_ms[node] = deadlines_ms[n]
            self._needed[node] = needed[n]
            self._counts[node] = counts[n]
            self._firsts[node] = 0
            self._has_cancel[node] = 0
            if not payload_missing[n]:
                self._payloads.put(node, payload_data, payload_starts[n], payload_starts[n + 1])
            cancel = self._ahead.first(id)
            while cancel:
                self._cancel(node, self._ahead.at_ms(cancel))
                cancel = self._ahead.next(cancel)
            self._touch(node)

    def _offer(
        self,
        ids: Any,
        tags: Any,
        indexes: Any,
        key_starts: Any,
        key_data: Any,
        moments_ms: Any,
    ) -> None:
        """Fill candidates into the cells of their operations, where they are better."""
        for n in range(len(ids)):
            if ids[n] < 0:
                continue
            node = self._operations[ids[n]]
            if node == 0 or self._tags[node] != tags[n] or moments_ms[n] > self._deadlines_ms[node]:
                continue
            if not 0 <= indexes[n] < self._counts[node]:
                raise OutOfRange(
                    f"index of a candidate must be below {self._counts[node]}, the number of "
                    f"requirements of its operation, got {indexes[n]}"
                )
            cell = self._first_cell(node) + indexes[n]
            if self._cells.is_better(cell, moments_ms[n]):
                self._cells.fill(cell, moments_ms[n], key_data, key_starts[n], key_starts[n + 1])
                self._touch(node)

    def _first_cell(self, node: int) -> int:
        if self._firsts[node] == 0:
            self._firsts[node] = self._cells.take(self._counts[node])
        return self._firsts[node]  # type: ignore[no-any-return]

    def _take_cancels(self, ids: Any, at_ms: Any, has_now: bool, now_ms: int) -> None:
        """Take cancels in; keep those that are ahead."""
        for n in range(len(ids)):
            node = self._operations[ids[n]]
            if node:
                self._cancel(node, at_ms[n])
                self._touch(node)
            if not has_now or at_ms[n] > now_ms:
                self._ahead.put(ids[n], at_ms[n])

    def _cancel(self, node: int, at_ms: int) -> None:
        """Note the cancel if it is the operation's earliest, and not before its submission."""
        if at_ms >= self._submitted_ms[node] and (
            not self._has_cancel[node] or at_ms < self._cancel_ms[node]
        ):
            self._has_cancel[node] = 1
            self._cancel_ms[node] = at_ms

    def _touch(self, node: int) -> None:
        """The end of the operation may have moved."""
        if not self._touched[node]:
            self._touched[node] = 1
            self._touched_nodes.add(node)

    def _plan(
        self,
        touched: Any,
        ended: NumberList,
        moved: NumberList,
        ends_ms: Any,
        has_now: bool,
        now_ms: int,
    ) -> None:
        """Tell of the operations touched those that have ended from those whose end has moved."""
        for n in range(len(touched)):
            node = touched[n]
            if not self._touched[node]:
                continue  # it was replaced
            self._touched[node] = 0
            self._end(node)
            if has_now and self._at_ms <= now_ms:
                self._ends.times_ms[node] = self._at_ms
                ended.add(node)
            elif not self._ends.is_set(node) or self._ends.times_ms[node] != self._at_ms:
                ends_ms[moved.count] = self._at_ms
                moved.add(node)

    def _end_all(self, ended: Any, status: Any, at_ms: Any, by: Any) -> None:
        for n in range(len(ended)):
            status[n] = self._end(ended[n])
            at_ms[n] = self._at_ms
            by[n] = self._by

    def _end(self, node: int) -> int:
        """Say how the operation ends as far as is known, when, and by which cell, if by one."""
        first = self._firsts[node]
        is_met = first != 0 and self._cells.find_condition(
            first, self._counts[node], self._needed[node]
        )
        how = ending(
            is_met,
            self._cells.condition_ms,
            self._has_cancel[node] != 0,
            self._cancel_ms[node],
            self._deadlines_ms[node],
        )
        self._by = -1
        self._at_ms = self._deadlines_ms[node]
        if how == _COMPLETED:
            self._at_ms = self._cells.condition_ms
            self._by = self._cells.smallest(first, self._counts[node])
        elif how == _CANCELLED:
            self._at_ms = self._cancel_ms[node]
        return how

    def _remember(self, ended: Any, now_ms: int, remember_ms: int) -> None:
        """Free these operations; keep in mind the ids of which reuse is not long past."""
        for n in range(len(ended)):
            node = ended[n]
            id = self._ids[node]
            at_ms = self._ends.times_ms[node]
            self._operations[id] = 0
            self._free_operation(node)
            until_ms = _MOST_MS
            if at_ms <= _MOST_MS - remember_ms:
                until_ms = at_ms + remember_ms
            if until_ms > now_ms:
                self._remembered.put(id, until_ms)
            else:
                self._release_id(id)

    def _forget(self, now_ms: int) -> None:
        """Forget the ids whose time is up."""
        id = self._remembered.pop(now_ms)
        while id >= 0:
            self._release_id(id)
            id = self._remembered.pop(now_ms)

    def _remove_cancels(self, cancels: Any) -> None:
        """These cancels are past, and mean nobody who may still come."""
        for n in range(len(cancels)):
            self._release_id(self._ahead.remove(cancels[n]))

    def _free_operations(self, nodes: Any) -> None:
        for n in range(len(nodes)):
            self._free_operation(nodes[n])

    def _free_operation(self, node: int) -> None:
        if self._firsts[node]:
            self._cells.free(self._firsts[node], self._counts[node])
        self._payloads.remove(node)
        self._touched[node] = 0
        self._nodes.free(node)

    def _release_ids(self, ids: Any) -> None:
        for n in range(len(ids)):
            if self._names.texts.holds(ids[n]):
                self._release_id(ids[n])

    def _release_id(self, id: int) -> None:
        """Remove the id if there is nothing to know of it."""
        if not (self._operations[id] or self._ahead.first(id) or self._remembered.has(id)):
            self._names.remove(id)

    def _fill_cells(
        self, operations: Any, indexes: Any, key_starts: Any, key_data: Any, moments_ms: Any
    ) -> None:
        for n in range(len(operations)):
            cell = self._first_cell(operations[n] + 1) + indexes[n]
            self._cells.fill(cell, moments_ms[n], key_data, key_starts[n], key_starts[n + 1])
