"""The stages of the batch job: what the workers do with their partitions.

    operations ── pack_operations ──┐                                ┌── pack_cancels ── cancels
                                    ├─ by key ─ find_moments ─ by id ┤
    signals ───── pack_signals ─────┘                                └── end_operations ── rows

1. `pack_operations` checks them and sends each requirement to the partition of its key; the
   operation itself comes along, for the ride. `pack_signals` sends each signal to its key.
2. `find_moments` has all requirements and all signals of its keys. It finds from when on each
   requirement holds, and sends that to the partition of the operation's id.
3. `end_operations` has all operations, moments and cancels of its ids, and says how each ends.

Each is a function from record batches to record batches, as `mapInArrow` wants it, and finds
what it needs to know in a `Job`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from sojourn.errors import SojournError
from sojourn.replay import rows
from sojourn.replay.endings import PENDING, STATUS, Endings, end_all
from sojourn.replay.moments import held_ms
from sojourn.spark import fingerprints, parcels
from sojourn.spark.hot_keys import HotKeys

Batches = Iterable[pa.RecordBatch]
Integers = npt.NDArray[np.int64]

OUTCOME = "outcome"
REJECTED = "rejected"
PENDING_KIND = "pending"

# Rows go back to the JVM in pieces of this many.
_PIECE_ROWS = 1 << 16

_REQUIREMENTS = pa.schema(
    [
        ("reference", pa.uint64()),
        ("check", pa.uint32()),
        ("index", pa.int32()),
        ("key", pa.string()),
        ("offset", pa.int64()),
    ]
)
_SIGNALS = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())])
_CANCELS = pa.schema([("id", pa.string()), ("at_ms", pa.int64())])
_MOMENTS = pa.schema(
    [
        ("reference", pa.uint64()),
        ("check", pa.uint32()),
        ("index", pa.int32()),
        ("moment_ms", pa.int64()),
        ("holds", pa.bool_()),
    ]
)


class RowsChanged(SojournError, RuntimeError):
    """An operation arrived without its requirements: the input was not the same twice."""


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of a job knows."""

    partitions: int
    until_ms: int | None
    columns: dict[str, pa.Schema]  # of each table
    extras: tuple[str, ...]
    output: pa.Schema
    hot_keys: HotKeys = field(default_factory=HotKeys)

    def pack_operations(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in self._numbered(rows.OPERATIONS, batches):
            wanted = rows.check_operations(table)
            yield from self._rejected(wanted.rejected, place)
            if not len(wanted):
                continue
            ids = fingerprints.of_texts(wanted.ids)
            keys = fingerprints.of_texts(wanted.keys)
            references, checks = _references(wanted, ids, keys)
            counts = np.diff(wanted.starts)
            requirements = pa.table(
                [
                    np.repeat(references, counts),
                    np.repeat(checks, counts),
                    _indices(wanted.starts),
                    wanted.keys,
                    wanted.offsets,
                ],
                schema=_REQUIREMENTS,
            )
            by_key = self.hot_keys.partitions(keys[0], wanted.offsets, self.partitions)
            yield from parcels.sent(requirements, by_key, parcels.REQUIREMENTS, place)
            by_id = fingerprints.partitions(ids[0], self.partitions)
            if len(wanted) < len(table):
                table = parcels.taken(table, wanted.numbers)
            yield from parcels.sent(table, by_id, parcels.OPERATIONS, place)

    def pack_signals(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in self._numbered(rows.SIGNALS, batches):
            seen = rows.check_signals(table)
            yield from self._rejected(seen.rejected, place)
            keys, offsets, at_ms = seen.keys, seen.offsets, seen.at_ms
            if self.until_ms is not None:
                known = at_ms <= self.until_ms
                keys, offsets, at_ms = keys.filter(pa.array(known)), offsets[known], at_ms[known]
            if not len(at_ms):
                continue
            words, _ = fingerprints.of_texts(keys)
            by_key = self.hot_keys.partitions(words, offsets, self.partitions)
            signals = pa.table([keys, offsets, at_ms], schema=_SIGNALS)
            yield from parcels.sent(signals, by_key, parcels.SIGNALS, place)
            for partition, later in self.hot_keys.later(
                words, keys, offsets, at_ms, self.partitions
            ):
                yield parcels.packed(
                    pa.table(later, schema=_SIGNALS), partition, parcels.SIGNALS, place
                )

    def pack_cancels(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in self._numbered(rows.CANCELS, batches):
            seen = rows.check_cancels(table)
            yield from self._rejected(seen.rejected, place)
            if not len(seen):
                continue
            cancels = pa.table([seen.ids, seen.at_ms], schema=_CANCELS)
            words, _ = fingerprints.of_texts(seen.ids)
            by_id = fingerprints.partitions(words, self.partitions)
            yield from parcels.sent(cancels, by_id, parcels.CANCELS, place)

    def find_moments(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        kept: dict[int, list[parcels.Parcel]] = {parcels.REQUIREMENTS: [], parcels.SIGNALS: []}
        for partition, parcel in parcels.received(batches):
            if parcel.kind in kept:
                kept[parcel.kind].append(parcel)
            else:
                yield parcels.forwarded(parcel, partition)
        wanted = parcels.opened(kept.pop(parcels.REQUIREMENTS), _REQUIREMENTS)
        if not len(wanted):
            return
        seen = parcels.opened(kept.pop(parcels.SIGNALS), _SIGNALS)
        moments, holds = held_ms(
            parcels.one_piece(seen["key"]),
            seen["offset"].to_numpy(),
            seen["at_ms"].to_numpy(),
            parcels.one_piece(wanted["key"]),
            wanted["offset"].to_numpy(),
            threads=1,
        )
        del seen
        references = wanted["reference"].to_numpy()
        found = pa.table(
            [references, wanted["check"], wanted["index"], moments, holds], schema=_MOMENTS
        )
        by_id = fingerprints.partitions(references, self.partitions)
        yield from parcels.sent(found, by_id, parcels.MOMENTS, 0)

    def end_operations(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        kept: dict[int, list[parcels.Parcel]] = {
            parcels.OPERATIONS: [],
            parcels.MOMENTS: [],
            parcels.CANCELS: [],
        }
        for _, parcel in parcels.received(batches):
            if parcel.kind == parcels.REJECTED:
                yield from self._output_rejected(parcel.open())
            else:
                kept[parcel.kind].append(parcel)
        table = parcels.opened(kept.pop(parcels.OPERATIONS), self.columns[rows.OPERATIONS])
        if not len(table):
            return
        wanted = rows.check_operations(table)
        first = rows.first_of_duplicates(wanted.ids, wanted.submitted_ms)
        if not first.all():
            duplicates = wanted.numbers[~first]
            yield from self._output_rejected(
                rows.reject(table, rows.OPERATIONS, duplicates, rows.DUPLICATE)
            )
            wanted = wanted.keep(first)
        del table
        moments, holds = _placed(wanted, parcels.opened(kept.pop(parcels.MOMENTS), _MOMENTS))
        cancel_ms = has_cancel = None
        if kept[parcels.CANCELS]:
            cancels = parcels.opened(kept.pop(parcels.CANCELS), _CANCELS)
            at_ms = cancels["at_ms"].to_numpy()
            # The earliest cancel at or after the submission: ids for keys, and times for offsets.
            cancel_ms, has_cancel = held_ms(
                parcels.one_piece(cancels["id"]),
                at_ms,
                at_ms,
                wanted.ids,
                wanted.submitted_ms,
                threads=1,
            )
        endings = end_all(
            wanted.submitted_ms,
            wanted.timeout_ms,
            wanted.needed,
            wanted.starts,
            moments,
            holds,
            wanted.keys,
            cancel_ms,
            has_cancel,
            self.until_ms,
            threads=1,
        )
        yield from self._output_ended(wanted, endings)

    def _numbered(self, name: str, batches: Batches) -> Iterator[tuple[int, pa.Table]]:
        """Gather the input, and give the columns the names that they have for the user."""
        context = TaskContext.get()
        first = (context.partitionId() if context else 0) << 32
        for n, table in enumerate(parcels.gathered(batches)):
            yield first + n, table.rename_columns(self.columns[name].names)

    def _rejected(self, rejected: pa.Table, place: int) -> Iterator[pa.RecordBatch]:
        if len(rejected):
            yield parcels.packed(rejected, place % self.partitions, parcels.REJECTED, place)

    def _output_rejected(self, rejected: pa.Table) -> Iterator[pa.RecordBatch]:
        yield from self._output(
            REJECTED, len(rejected), dict(zip(rows.REJECTED.names, rejected.columns, strict=True))
        )

    def _output_ended(
        self, wanted: rows.CleanOperations, endings: Endings
    ) -> Iterator[pa.RecordBatch]:
        ended = endings.status != PENDING
        kinds = pa.array([PENDING_KIND, OUTCOME]).take(pa.array(ended.astype(np.int8)))
        nothing = ~ended
        columns = {
            "kind": kinds,
            "id": wanted.ids,
            "status": pa.array([None, *STATUS[1:]]).take(pa.array(endings.status)),
            "at_ms": pa.array(endings.at_ms, mask=nothing),
            "by_key": wanted.keys.take(pa.array(endings.by, mask=endings.by < 0)),
            "waited_ms": pa.array(endings.at_ms - wanted.submitted_ms, mask=nothing),
            "condition_ms": pa.array(endings.condition_ms, mask=~endings.has_condition),
            "submitted_ms": pa.array(wanted.submitted_ms),
            "timeout_ms": pa.array(wanted.timeout_ms),
        }
        if self.extras:
            extras = wanted.extras.combine_chunks()
            columns["extras"] = pa.StructArray.from_arrays(
                [parcels.one_piece(extras.column(n)) for n in range(len(self.extras))],
                fields=list(self.output.field("extras").type),
            )
        yield from self._output(None, len(wanted), columns)

    def _output(
        self, kind: str | None, count: int, columns: dict[str, pa.Array]
    ) -> Iterator[pa.RecordBatch]:
        if kind is not None:
            columns["kind"] = pa.repeat(pa.scalar(kind), count)
        arrays = [
            columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in self.output
        ]
        yield from pa.table(arrays, schema=self.output).to_batches(_PIECE_ROWS)


def _references(
    wanted: rows.CleanOperations,
    ids: tuple[fingerprints.Words, fingerprints.Words],
    keys: tuple[fingerprints.Words, fingerprints.Words],
) -> tuple[fingerprints.Words, fingerprints.Checks]:
    return fingerprints.of_operations(
        ids,
        wanted.submitted_ms,
        wanted.timeout_ms,
        wanted.needed,
        wanted.starts,
        keys,
        wanted.offsets,
    )


def _indices(starts: Integers) -> npt.NDArray[np.int32]:
    """Number the requirements of each operation from 0."""
    counts = np.diff(starts)
    return (np.arange(starts[-1]) - np.repeat(starts[:-1], counts)).astype(np.int32)


def _placed(
    wanted: rows.CleanOperations, found: pa.Table
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Put each moment beside the requirement it was found for."""
    references, checks = _references(
        wanted, fingerprints.of_texts(wanted.ids), fingerprints.of_texts(wanted.keys)
    )
    places = fingerprints.places(
        references, checks, found["reference"].to_numpy(), found["check"].to_numpy()
    )
    ours = places >= 0  # the others belong to operations that were duplicates
    slots = (wanted.starts[places] + found["index"].to_numpy())[ours]
    moments = np.zeros(len(wanted.offsets), dtype=np.int64)
    holds = np.zeros(len(wanted.offsets), dtype=np.bool_)
    known = np.zeros(len(wanted.offsets), dtype=np.bool_)
    moments[slots] = found["moment_ms"].to_numpy()[ours]
    holds[slots] = found["holds"].to_numpy()[ours]
    known[slots] = True
    if not known.all():
        raise RowsChanged(
            f"{int((~known).sum())} requirements of {len(known)} were lost on their way: the rows "
            "of operations were not the same when Spark read them again; persist or write them "
            "first if they are made with rand(), uuid() or the like"
        )
    return moments, holds
