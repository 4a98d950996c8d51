"""Waiting: the id side of the incremental engine, which operations wait and how each ends.

An operation has three times: c, when its condition holds, the needed-th of its candidates' moments,
if so many are known; x, its earliest cancel at or after its submission, if any; and its deadline d.

    A. x ≤ d and x < c   cancelled at x
    B. c ≤ d, else       completed at c
    C. else              expired at d

Its alarm stands at the end that is known so far. News can only bring the end forward, and always
lies after now; so when the alarm goes off the end is final.

What is kept, by id: the operation that waits, if any; cancels that are still ahead of now, since
the operation they mean may come yet; and until when a second one is a duplicate. Candidates lie
in cells, as many to an operation as it has requirements, from its first candidate on.
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
from sojourn.replay import journal
from sojourn.replay.progress import CANDIDATES
from sojourn.replay.slab import grown, in_order, integers, missing, slab, text_parts

if cython.compiled:
    from cython.cimports.sojourn.replay.alarms import Alarms
    from cython.cimports.sojourn.replay.texts import Names, Texts
else:
    from sojourn.replay.alarms import Alarms
    from sojourn.replay.texts import Names, Texts

OPERATIONS = pa.schema(
    [
        ("id", pa.string()),
        ("tag", pa.int64()),
        ("submitted_ms", pa.int64()),
        ("deadline_ms", pa.int64()),
        ("needed", pa.int32()),
        ("requirements", pa.int32()),
        ("payload", pa.binary()),
    ]
)
CANCELS = pa.schema([("id", pa.string()), ("at_ms", pa.int64())])
OUTCOMES = pa.schema(
    [
        ("id", pa.string()),
        ("tag", pa.int64()),
        ("status", pa.string()),
        ("at_ms", pa.int64()),
        ("by_key", pa.string()),
        ("waited_ms", pa.int64()),
        ("submitted_ms", pa.int64()),
        ("timeout_ms", pa.int64()),
        ("payload", pa.binary()),
    ]
)
STATUS = ("completed", "expired", "cancelled")

_ENTRY = "Went"
SNAPSHOT = "Wsnp"
_HELD = pa.schema(
    [
        ("id", pa.large_string()),
        ("tag", pa.int64()),
        ("submitted_ms", pa.int64()),
        ("deadline_ms", pa.int64()),
        ("needed", pa.int32()),
        ("requirements", pa.int32()),
        ("payload", pa.large_binary()),
    ]
)
_CELLS = pa.schema(
    [
        ("operation", pa.int32()),  # its row among those held
        ("index", pa.int32()),
        ("key", pa.large_string()),
        ("moment_ms", pa.int64()),
    ]
)
_AHEAD = pa.schema([("id", pa.large_string()), ("at_ms", pa.int64())])
_ENDED = pa.schema([("id", pa.large_string()), ("until_ms", pa.int64())])
SNAPSHOT_SCHEMAS = (_HELD, _CELLS, _AHEAD, _ENDED)
_COMPLETED = 0
_EXPIRED = 1
_CANCELLED = 2
_MOST_MS = 2**63 - 1
_DAY_MS = 86_400_000


class Waiting:
    """The operations that wait. Rows are applied first, then time moves to `now_ms`.

    Rows must be checked already, and none at or before the time it stands at. `now_ms=None` leaves
    the time where it is. An id that ended is remembered for `remember_ms` of event time: an
    operation submitted until then under the same id is a duplicate. Not for several threads at
    once.
    """

    __slots__ = (
        "_at_ms",
        "_by",
        "_cancel_alarms",
        "_cancel_free",
        "_cancel_free_count",
        "_cancel_ids",
        "_cancel_ms",
        "_cancel_next",
        "_cancel_top",
        "_cancels",
        "_cell_free",
        "_cell_keys",
        "_cell_moments",
        "_cell_top",
        "_cells",
        "_condition_ms",
        "_counts",
        "_deadlines_ms",
        "_ends",
        "_fresh_cancel_count",
        "_fresh_cancels",
        "_has_cancel",
        "_has_until",
        "_ids",
        "_memory_first",
        "_memory_ids",
        "_memory_last",
        "_memory_ms",
        "_names",
        "_needed",
        "_now_ms",
        "_op_free",
        "_op_free_count",
        "_op_top",
        "_ops",
        "_ousted",
        "_ousted_count",
        "_payloads",
        "_refused",
        "_refused_count",
        "_remember_ms",
        "_scratch",
        "_started",
        "_submitted_ms",
        "_tags",
        "_touched",
        "_touched_count",
        "_touched_ops",
        "_until_ms",
    )

    def __init__(self, *, remember_ms: int = _DAY_MS) -> None:
        self._remember_ms = remember_ms
        self._started = False
        self._now_ms = 0
        # By id.
        self._names = Names()
        self._ops = slab(0, "i")
        self._cancels = slab(0, "i")
        self._until_ms = slab(0, "q")
        self._has_until = slab(0, "B")
        # By operation, from 1 on; the free ones are linked through their cells.
        self._ids = slab(1, "i")  # -1 for a free one
        self._tags = slab(1, "q")
        self._submitted_ms = slab(1, "q")
        self._deadlines_ms = slab(1, "q")
        self._needed = slab(1, "i")
        self._counts = slab(1, "i")
        self._cells = slab(1, "q")  # the first of its cells, 0 while it has none
        self._cancel_ms = slab(1, "q")
        self._has_cancel = slab(1, "B")
        self._touched = slab(1, "B")
        self._payloads = Texts()
        self._ends = Alarms()
        self._op_top = 0
        self._op_free = 0
        self._op_free_count = 0
        # By cell, from 1 on; a cell without a key is empty. Free ones are linked by their moments,
        # in a list for each number of cells together.
        self._cell_moments = slab(1, "q")
        self._cell_keys = Texts()
        self._cell_free = slab(2, "q")
        self._cell_top = 0
        # By cancel ahead, from 1 on; those of one id are linked.
        self._cancel_ids = slab(1, "i")
        self._cancel_next = slab(1, "i")
        self._cancel_alarms = Alarms()
        self._cancel_top = 0
        self._cancel_free = 0
        self._cancel_free_count = 0
        # Ended ids from the one to be forgotten first.
        self._memory_ms = slab(16, "q")
        self._memory_ids = slab(16, "i")
        self._memory_first = 0
        self._memory_last = 0
        # What happened in this batch.
        self._touched_ops = slab(0, "i")
        self._touched_count = 0
        self._fresh_cancels = slab(0, "i")
        self._fresh_cancel_count = 0
        self._refused = slab(0, "q")
        self._refused_count = 0
        self._ousted = slab(0, "i")
        self._ousted_count = 0
        self._scratch = slab(16, "q")
        self._condition_ms = 0
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
        if self._memory_first == self._memory_last:
            return None
        until_ms = self._memory_ms[self._memory_first]
        slack_ms = self._remember_ms // 4
        return _MOST_MS if until_ms > _MOST_MS - slack_ms else int(until_ms + slack_ms)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        by_id = self._ops.nbytes + self._cancels.nbytes + self._until_ms.nbytes
        by_id += self._has_until.nbytes + self._names.nbytes
        by_id += self._memory_ms.nbytes + self._memory_ids.nbytes
        by_operation = self._ids.nbytes + self._tags.nbytes + self._submitted_ms.nbytes
        by_operation += self._deadlines_ms.nbytes + self._needed.nbytes + self._counts.nbytes
        by_operation += self._cells.nbytes + self._cancel_ms.nbytes + self._has_cancel.nbytes
        by_operation += self._touched.nbytes + self._payloads.nbytes + self._ends.nbytes
        by_cell = self._cell_moments.nbytes + self._cell_keys.nbytes + self._cell_free.nbytes
        by_cancel = self._cancel_ids.nbytes + self._cancel_next.nbytes + self._cancel_alarms.nbytes
        batch = self._touched_ops.nbytes + self._fresh_cancels.nbytes + self._refused.nbytes
        batch += self._ousted.nbytes + self._scratch.nbytes
        return int(by_id + by_operation + by_cell + by_cancel + batch)

    def __len__(self) -> int:
        """How many operations wait."""
        return self._op_top - self._op_free_count

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
        self._check_now_ms(now_ms)
        self._take_operations(operations)
        rejected = self._rejected(operations)
        self._take_news(candidates, cancels, now_ms)
        ended = self._move(now_ms)
        outcomes = self._outcomes(ended)
        self._let_go(ended, now_ms)
        return outcomes, rejected

    def replay(self, entry: Any) -> None:
        """Apply what the entry holds, leaving out what would come of it."""
        schemas = [OPERATIONS, CANDIDATES, CANCELS]
        (has_now, now), (operations, candidates, cancels) = journal.unpack(_ENTRY, entry, schemas)
        now_ms = now if has_now else None
        self._check_now_ms(now_ms)
        self._take_operations(operations)
        self._free_ousted()
        self._take_news(candidates, cancels, now_ms)
        self._let_go(self._move(now_ms), now_ms)

    @staticmethod
    def entry(
        operations: pa.RecordBatch | None,
        candidates: pa.RecordBatch | None,
        cancels: pa.RecordBatch | None,
        now_ms: int | None,
    ) -> bytes:
        """Return what `apply` is given as bytes, for `replay`."""
        batches = [
            journal.in_schema(operations, OPERATIONS),
            journal.in_schema(candidates, CANDIDATES),
            journal.in_schema(cancels, CANCELS),
        ]
        return journal.pack(_ENTRY, [int(now_ms is not None), now_ms or 0], batches)

    def pending(self) -> pa.RecordBatch:
        """Return the operations that wait, as they were given."""
        return self._rows_of(self._held(), OPERATIONS)

    def snapshot(self) -> bytes:
        """Return all of the state as bytes, for `restore`."""
        held = self._held()
        owners, cells = self._full_cells(held)
        first = np.asarray(self._cells)[held][owners]
        candidates = pa.record_batch(
            [
                pa.array(owners.astype(np.int32)),
                pa.array((cells - first).astype(np.int32)),
                self._cell_keys.column(integers(cells, "i"), pa.large_string()),
                pa.array(np.asarray(self._cell_moments)[cells]),
            ],
            schema=_CELLS,
        )
        nodes = 1 + np.flatnonzero(np.asarray(self._cancel_ids)[1 : self._cancel_top + 1] >= 0)
        cancels = pa.record_batch(
            [
                self._names.texts.column(
                    integers(np.asarray(self._cancel_ids)[nodes], "i"), pa.large_string()
                ),
                pa.array(np.asarray(self._cancel_alarms.times_ms)[nodes]),
            ],
            schema=_AHEAD,
        )
        ids = np.asarray(self._memory_ids)[self._memory_first : self._memory_last]
        until_ms = np.asarray(self._memory_ms)[self._memory_first : self._memory_last]
        known = (np.asarray(self._until_ms)[ids] == until_ms) & (
            np.asarray(self._has_until)[ids] != 0
        )
        ended = pa.record_batch(
            [
                self._names.texts.column(integers(ids[known], "i"), pa.large_string()),
                pa.array(until_ms[known]),
            ],
            schema=_ENDED,
        )
        facts = [int(self._started), self._now_ms, self._remember_ms]
        rows = self._rows_of(held, _HELD)
        return journal.pack(SNAPSHOT, facts, [rows, candidates, cancels, ended])

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

    def _check_now_ms(self, now_ms: int | None) -> None:
        if now_ms is not None and self._started and now_ms < self._now_ms:
            raise OutOfRange(
                f"now_ms must be ≥ {self._now_ms}, got {now_ms}; time does not go back"
            )

    def _take_operations(self, operations: pa.RecordBatch | None) -> None:
        self._refused_count = self._ousted_count = 0
        if operations is None or not len(operations):
            return
        count = len(operations)
        starts, data = text_parts(operations.column("id"))
        ids = self._names.look_up(starts, data, count, True)
        self._reserve_ids()
        self._reserve_operations(count)
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
        """Return the duplicates: those just refused, and those that made way for an earlier one."""
        parts = []
        if self._refused_count and operations is not None:
            numbers = np.array(self._refused[: self._refused_count])
            parts.append(journal.in_schema(operations.take(pa.array(numbers)), OPERATIONS))
        if self._ousted_count:
            parts.append(self._rows_of(np.array(self._ousted[: self._ousted_count]), OPERATIONS))
            self._free_ousted()
        if not parts:
            return pa.RecordBatch.from_pylist([], OPERATIONS)
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _free_ousted(self) -> None:
        ousted = self._ousted[: self._ousted_count]
        self._ends.clear_many(ousted)
        self._free_operations(ousted)
        self._ousted_count = 0

    def _take_news(
        self, candidates: pa.RecordBatch | None, cancels: pa.RecordBatch | None, now_ms: Any
    ) -> None:
        if candidates is not None and len(candidates):
            starts, data = text_parts(candidates.column("id"))
            ids = self._names.look_up(starts, data, len(candidates), False)
            key_starts, key_data = text_parts(candidates.column("key"))
            self._reserve_touched(len(candidates))
            self._offer(
                ids,
                integers(candidates.column("tag")),
                integers(candidates.column("index"), "i"),
                key_starts,
                key_data,
                integers(candidates.column("moment_ms")),
            )
        if cancels is not None and len(cancels):
            starts, data = text_parts(cancels.column("id"))
            ids = self._names.look_up(starts, data, len(cancels), True)
            self._reserve_ids()
            self._reserve_cancels(len(cancels))
            self._reserve_touched(len(cancels))
            at_ms = integers(cancels.column("at_ms"))
            self._call_off(ids, at_ms, now_ms is not None, now_ms or 0)
            self._release_ids(ids)

    def _move(self, now_ms: int | None) -> Any:
        """Move time, if it is to move; return the operations that have ended."""
        if self._fresh_cancel_count:
            fresh = self._fresh_cancels[: self._fresh_cancel_count]
            times_ms = np.asarray(self._cancel_alarms.times_ms)[np.asarray(fresh)]
            self._cancel_alarms.set_many(fresh, integers(times_ms), self._start_ms(now_ms))
            self._fresh_cancel_count = 0
        touched = self._touched_count
        moved, ended = slab(touched, "i"), slab(touched, "i")
        ends_ms = slab(touched, "q")
        count = 0
        if touched:
            count = self._plan(moved, ends_ms, ended, now_ms is not None, now_ms or 0)
            kept = self._touched_count - count
            self._ends.clear_many(ended[:count])
            self._ends.set_many(moved[:kept], ends_ms[:kept], self._start_ms(now_ms))
            self._touched_count = 0
        if now_ms is None:
            return ended[:0]
        self._started = True
        self._now_ms = now_ms
        due = self._ends.due(now_ms)
        return np.concatenate([np.asarray(ended[:count]), np.asarray(due)]).data

    def _outcomes(self, ended: Any) -> pa.RecordBatch:
        """Return how these ended, in the order of time, and put them into that order."""
        count = len(ended)
        if not count:
            return pa.RecordBatch.from_pylist([], OUTCOMES)
        self._sort(ended)
        status, by = slab(count, "i"), slab(count, "i")
        at_ms = slab(count, "q")
        self._tell(ended, status, at_ms, by)
        nodes = np.asarray(ended)
        submitted_ms = np.asarray(self._submitted_ms)[nodes]
        return pa.record_batch(
            [
                self._id_column(nodes, pa.string()),
                pa.array(np.asarray(self._tags)[nodes]),
                pa.array(STATUS).take(pa.array(np.asarray(status))),
                pa.array(np.asarray(at_ms)),
                self._cell_keys.column(by, pa.string()),
                pa.array(np.asarray(at_ms) - submitted_ms),
                pa.array(submitted_ms),
                pa.array(np.asarray(self._deadlines_ms)[nodes] - submitted_ms),
                self._payloads.column(ended, pa.binary()),
            ],
            schema=OUTCOMES,
        )

    def _sort(self, ended: Any) -> None:
        nodes = np.asarray(ended)
        nodes[:] = nodes[np.asarray(in_order(np.asarray(self._ends.times_ms)[nodes]))]

    def _let_go(self, ended: Any, now_ms: int | None) -> None:
        """Keep of what ended only the id, for a while; forget what need not be known any more."""
        if now_ms is None:
            return
        if len(ended):
            self._sort(ended)
            self._remember(ended, now_ms, self._remember_ms)
        self._forget(now_ms)
        self._pass(self._cancel_alarms.due(now_ms))

    def _start_ms(self, now_ms: int | None) -> int | None:
        return self.now_ms if now_ms is None else now_ms

    def _held(self) -> Any:
        return 1 + np.flatnonzero(np.asarray(self._ids)[1 : self._op_top + 1] >= 0)

    def _id_column(self, nodes: Any, kind: pa.DataType) -> pa.Array:
        return self._names.texts.column(integers(np.asarray(self._ids)[nodes], "i"), kind)

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

    def _full_cells(self, held: Any) -> tuple[Any, Any]:
        """Return the cells that are not empty, and to which of those held each belongs."""
        counts = np.where(np.asarray(self._cells)[held] > 0, np.asarray(self._counts)[held], 0)
        owners = np.repeat(np.arange(len(held)), counts)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        cells = np.asarray(self._cells)[held][owners] + within
        full = np.asarray(self._cell_keys._sizes)[cells] >= 0 if len(cells) else cells > 0
        return owners[full], cells[full]

    def _fill(
        self,
        facts: tuple[int, ...],
        held: pa.RecordBatch,
        cells: pa.RecordBatch,
        cancels: pa.RecordBatch,
        ended: pa.RecordBatch,
    ) -> None:
        """Put what was in a snapshot into a new one, whose operations are then 1, 2, 3, …"""
        self._started = bool(facts[0])
        self._now_ms = facts[1]
        self._take_operations(held)
        starts, data = text_parts(cells.column("key"))
        self._plant_cells(
            integers(cells.column("operation"), "i"),
            integers(cells.column("index"), "i"),
            starts,
            data,
            integers(cells.column("moment_ms")),
        )
        self._take_news(None, cancels, None)
        self._move(None)
        starts, data = text_parts(ended.column("id"))
        ids = self._names.look_up(starts, data, len(ended), True)
        self._reserve_ids()
        self._plant_memory(ids, integers(ended.column("until_ms")))

    def _reserve_ids(self) -> None:
        count = self._names.texts.places
        if count > len(self._ops):
            self._ops = grown(self._ops, count, "i")
            self._cancels = grown(self._cancels, count, "i")
            self._until_ms = grown(self._until_ms, count, "q")
            self._has_until = grown(self._has_until, count, "B")

    def _reserve_operations(self, more: int) -> None:
        top = self._op_top + max(0, more - self._op_free_count)
        if top >= len(self._ids):
            self._ids = grown(self._ids, top + 1, "i")
            top = len(self._ids) - 1
            self._tags = grown(self._tags, top + 1, "q")
            self._submitted_ms = grown(self._submitted_ms, top + 1, "q")
            self._deadlines_ms = grown(self._deadlines_ms, top + 1, "q")
            self._needed = grown(self._needed, top + 1, "i")
            self._counts = grown(self._counts, top + 1, "i")
            self._cells = grown(self._cells, top + 1, "q")
            self._cancel_ms = grown(self._cancel_ms, top + 1, "q")
            self._has_cancel = grown(self._has_cancel, top + 1, "B")
            self._touched = grown(self._touched, top + 1, "B")
            self._payloads.reserve(top + 1)
            self._ends.reserve(top + 1)
        self._reserve_touched(more)
        if more > len(self._refused):
            self._refused = slab(more, "q")
            self._ousted = slab(more, "i")

    def _reserve_touched(self, more: int) -> None:
        if self._touched_count + more > len(self._touched_ops):
            self._touched_ops = grown(self._touched_ops, self._touched_count + more, "i")

    def _reserve_cancels(self, more: int) -> None:
        top = self._cancel_top + max(0, more - self._cancel_free_count)
        if top >= len(self._cancel_ids):
            self._cancel_ids = grown(self._cancel_ids, top + 1, "i")
            top = len(self._cancel_ids) - 1
            self._cancel_next = grown(self._cancel_next, top + 1, "i")
            self._cancel_alarms.reserve(top + 1)
        if self._fresh_cancel_count + more > len(self._fresh_cancels):
            self._fresh_cancels = grown(self._fresh_cancels, self._fresh_cancel_count + more, "i")

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
            other = self._ops[id]
            if (self._has_until[id] and self._until_ms[id] >= submitted_ms[n]) or (
                other and self._submitted_ms[other] <= submitted_ms[n]
            ):
                self._refused[self._refused_count] = n
                self._refused_count += 1
                continue
            if other:
                self._ousted[self._ousted_count] = other
                self._ousted_count += 1
            node = self._op_free
            if node:
                self._op_free = self._cells[node]
                self._op_free_count -= 1
            else:
                self._op_top += 1
                node = self._op_top
            self._ops[id] = node
            self._ids[node] = id
            self._tags[node] = tags[n]
            self._submitted_ms[node] = submitted_ms[n]
            self._deadlines_ms[node] = deadlines_ms[n]
            self._needed[node] = needed[n]
            self._counts[node] = counts[n]
            self._cells[node] = 0
            self._has_cancel[node] = 0
            if not payload_missing[n]:
                self._payloads.put(node, payload_data, payload_starts[n], payload_starts[n + 1])
            cancel = self._cancels[id]
            while cancel:
                self._cancelled(node, self._cancel_alarms.times_ms[cancel])
                cancel = self._cancel_next[cancel]
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
            node = self._ops[ids[n]]
            if node == 0 or self._tags[node] != tags[n] or moments_ms[n] > self._deadlines_ms[node]:
                continue
            if not 0 <= indexes[n] < self._counts[node]:
                raise OutOfRange(
                    f"index of a candidate must be below {self._counts[node]}, the number of "
                    f"requirements of its operation, got {indexes[n]}"
                )
            if self._cells[node] == 0:
                self._cells[node] = self._new_cells(self._counts[node])
            cell = self._cells[node] + indexes[n]
            if not self._cell_keys.holds(cell) or moments_ms[n] < self._cell_moments[cell]:
                self._cell_moments[cell] = moments_ms[n]
                self._cell_keys.put(cell, key_data, key_starts[n], key_starts[n + 1])
                self._touch(node)

    def _call_off(self, ids: Any, at_ms: Any, has_now: bool, now_ms: int) -> None:
        """Take cancels in; keep those that are ahead."""
        for n in range(len(ids)):
            id = ids[n]
            if self._ops[id]:
                self._cancelled(self._ops[id], at_ms[n])
                self._touch(self._ops[id])
            if has_now and at_ms[n] <= now_ms:
                continue
            node = self._cancel_free
            if node:
                self._cancel_free = self._cancel_next[node]
                self._cancel_free_count -= 1
            else:
                self._cancel_top += 1
                node = self._cancel_top
            self._cancel_ids[node] = id
            self._cancel_alarms.times_ms[node] = at_ms[n]
            self._cancel_next[node] = self._cancels[id]
            self._cancels[id] = node
            self._fresh_cancels[self._fresh_cancel_count] = node
            self._fresh_cancel_count += 1

    def _cancelled(self, node: int, at_ms: int) -> None:
        if at_ms >= self._submitted_ms[node] and (
            not self._has_cancel[node] or at_ms < self._cancel_ms[node]
        ):
            self._has_cancel[node] = 1
            self._cancel_ms[node] = at_ms

    def _touch(self, node: int) -> None:
        """The end of the operation may have moved."""
        if not self._touched[node]:
            self._touched[node] = 1
            self._touched_ops[self._touched_count] = node
            self._touched_count += 1

    def _plan(self, moved: Any, ends_ms: Any, ended: Any, has_now: bool, now_ms: int) -> int:
        """Tell of the operations touched those that have ended from those whose end has moved.

        Return how many ended; of the others as many as `_touched_count` says in the end.
        """
        ended_count = 0
        moved_count = 0
        for n in range(self._touched_count):
            node = self._touched_ops[n]
            if not self._touched[node]:
                continue  # it was ousted
            self._touched[node] = 0
            self._end(node)
            if has_now and self._at_ms <= now_ms:
                self._ends.times_ms[node] = self._at_ms
                ended[ended_count] = node
                ended_count += 1
            elif not self._ends.is_set(node) or self._ends.times_ms[node] != self._at_ms:
                moved[moved_count] = node
                ends_ms[moved_count] = self._at_ms
                moved_count += 1
        self._touched_count = ended_count + moved_count
        return ended_count

    def _tell(self, ended: Any, status: Any, at_ms: Any, by: Any) -> None:
        for n in range(len(ended)):
            status[n] = self._end(ended[n])
            at_ms[n] = self._at_ms
            by[n] = self._by

    def _end(self, node: int) -> int:
        """Say how the operation ends as far as is known, when, and by which cell, if by one.

        The letters are those at the head of the file.
        """
        holds = self._cells[node] != 0 and self._find_condition(node)
        self._by = -1
        if self._has_cancel[node]:
            self._at_ms = self._cancel_ms[node]
            if self._at_ms <= self._deadlines_ms[node] and not (
                holds and self._condition_ms <= self._at_ms
            ):
                return _CANCELLED  # A
        if holds and self._condition_ms <= self._deadlines_ms[node]:
            self._at_ms = self._condition_ms
            cell = self._cells[node]
            last = cell + self._counts[node]
            while cell < last:
                if (
                    self._cell_keys.holds(cell)
                    and self._cell_moments[cell] == self._condition_ms
                    and (self._by < 0 or self._cell_keys.before(cell, self._by))
                ):
                    self._by = cell
                cell += 1
            return _COMPLETED  # B
        self._at_ms = self._deadlines_ms[node]
        return _EXPIRED  # C

    def _find_condition(self, node: int) -> bool:
        """Find the needed-th of the moments known; say whether there are so many."""
        needed = self._needed[node]
        cell = self._cells[node]
        last = cell + self._counts[node]
        if self._counts[node] > len(self._scratch):
            self._scratch = grown(self._scratch, self._counts[node], "q")
        count = 0
        while cell < last:
            if self._cell_keys.holds(cell):
                self._scratch[count] = self._cell_moments[cell]
                count += 1
            cell += 1
        if count < needed:
            return False
        self._condition_ms = self._least(count, needed - 1)
        return True

    def _least(self, count: int, rank: int) -> int:
        """Return what stands at this rank among the first of the scratch pad: quickselect."""
        low = 0
        high = count - 1
        while low < high:
            pivot = self._scratch[(low + high) // 2]
            left = low
            right = high
            while left <= right:
                while self._scratch[left] < pivot:
                    left += 1
                while self._scratch[right] > pivot:
                    right -= 1
                if left <= right:
                    swapped = self._scratch[left]
                    self._scratch[left] = self._scratch[right]
                    self._scratch[right] = swapped
                    left += 1
                    right -= 1
            if rank <= right:
                high = right
            elif rank >= left:
                low = left
            else:
                break
        return self._scratch[rank]  # type: ignore[no-any-return]

    def _remember(self, ended: Any, now_ms: int, remember_ms: int) -> None:
        """Free these operations; keep in mind the ids of which reuse is not long past."""
        for n in range(len(ended)):
            node = ended[n]
            id = self._ids[node]
            at_ms = self._ends.times_ms[node]
            self._ops[id] = 0
            self._free_operation(node)
            until_ms = _MOST_MS
            if at_ms <= _MOST_MS - remember_ms:
                until_ms = at_ms + remember_ms
            if until_ms > now_ms:
                self._has_until[id] = 1
                self._until_ms[id] = until_ms
                self._memorise(id, until_ms)
            else:
                self._release_id(id)

    def _memorise(self, id: int, until_ms: int) -> None:
        if self._memory_last == len(self._memory_ms):
            count = self._memory_last - self._memory_first
            if 2 * count > self._memory_last:
                self._memory_ms = grown(self._memory_ms, self._memory_last + 1, "q")
                self._memory_ids = grown(self._memory_ids, len(self._memory_ms), "i")
            else:  # half of it is behind us
                for n in range(count):
                    self._memory_ms[n] = self._memory_ms[self._memory_first + n]
                    self._memory_ids[n] = self._memory_ids[self._memory_first + n]
                self._memory_first = 0
                self._memory_last = count
        self._memory_ms[self._memory_last] = until_ms
        self._memory_ids[self._memory_last] = id
        self._memory_last += 1

    def _forget(self, now_ms: int) -> None:
        """Forget the ids whose time is up."""
        while (
            self._memory_first < self._memory_last and self._memory_ms[self._memory_first] <= now_ms
        ):
            id = self._memory_ids[self._memory_first]
            if self._has_until[id] and self._until_ms[id] <= now_ms:
                self._has_until[id] = 0
                self._release_id(id)
            self._memory_first += 1

    def _pass(self, cancels: Any) -> None:
        """These cancels are past, and mean nobody who may still come."""
        for n in range(len(cancels)):
            node = cancels[n]
            id = self._cancel_ids[node]
            if self._cancels[id] == node:
                self._cancels[id] = self._cancel_next[node]
            else:
                before = self._cancels[id]
                while self._cancel_next[before] != node:
                    before = self._cancel_next[before]
                self._cancel_next[before] = self._cancel_next[node]
            self._cancel_ids[node] = -1
            self._cancel_next[node] = self._cancel_free
            self._cancel_free = node
            self._cancel_free_count += 1
            self._release_id(id)

    def _free_operations(self, nodes: Any) -> None:
        for n in range(len(nodes)):
            self._free_operation(nodes[n])

    def _free_operation(self, node: int) -> None:
        if self._cells[node]:
            self._free_cells(self._cells[node], self._counts[node])
        self._payloads.drop(node)
        self._touched[node] = 0
        self._ids[node] = -1
        self._cells[node] = self._op_free
        self._op_free = node
        self._op_free_count += 1

    def _new_cells(self, count: int) -> int:
        if count >= len(self._cell_free):
            self._cell_free = grown(self._cell_free, count + 1, "q")
        first = self._cell_free[count]
        if first:
            self._cell_free[count] = self._cell_moments[first]
        else:
            first = self._cell_top + 1
            self._cell_top += count
            if self._cell_top >= len(self._cell_moments):
                self._cell_moments = grown(self._cell_moments, self._cell_top + 1, "q")
                self._cell_keys.reserve(len(self._cell_moments))
        return first  # type: ignore[no-any-return]

    def _free_cells(self, first: int, count: int) -> None:
        for cell in range(first, first + count):
            self._cell_keys.drop(cell)
        self._cell_moments[first] = self._cell_free[count]
        self._cell_free[count] = first

    def _release_ids(self, ids: Any) -> None:
        for n in range(len(ids)):
            if self._names.texts.holds(ids[n]):
                self._release_id(ids[n])

    def _release_id(self, id: int) -> None:
        """Let go of the id if there is nothing to know of it."""
        if not (self._ops[id] or self._cancels[id] or self._has_until[id]):
            self._names.remove(id)

    def _plant_cells(
        self, operations: Any, indexes: Any, key_starts: Any, key_data: Any, moments_ms: Any
    ) -> None:
        for n in range(len(operations)):
            node = operations[n] + 1
            if self._cells[node] == 0:
                self._cells[node] = self._new_cells(self._counts[node])
            cell = self._cells[node] + indexes[n]
            self._cell_moments[cell] = moments_ms[n]
            self._cell_keys.put(cell, key_data, key_starts[n], key_starts[n + 1])

    def _plant_memory(self, ids: Any, until_ms: Any) -> None:
        for n in range(len(ids)):
            self._has_until[ids[n]] = 1
            self._until_ms[ids[n]] = until_ms[n]
            self._memorise(ids[n], until_ms[n])
