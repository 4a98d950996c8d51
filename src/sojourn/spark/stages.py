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

from sojourn.errors import SojournError
from sojourn.replay import rows
from sojourn.replay.steps import held_ms
from sojourn.spark import fingerprints, parcels
from sojourn.spark.answers import Answers
from sojourn.spark.hot_keys import HotKeys

Batches = Iterable[pa.RecordBatch]
Integers = npt.NDArray[np.int64]

_REQUIREMENTS = pa.schema(
    [
        ("reference", pa.uint64()),
        ("check", pa.uint32()),
        ("index", pa.int32()),
        ("key", pa.string()),
        ("offset", pa.int64()),
    ]
)
SIGNALS = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())])
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
    answers: Answers
    hot_keys: HotKeys = field(default_factory=HotKeys)

    def pack_operations(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in parcels.numbered(batches, self.columns[rows.OPERATIONS]):
            wanted = rows.check_operations(table)
            yield from self.rejected(wanted.rejected, place)
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
            yield from sent_by_id(table, wanted, ids[0], self.partitions, place)

    def pack_signals(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in parcels.numbered(batches, self.columns[rows.SIGNALS]):
            seen = rows.check_signals(table)
            yield from self.rejected(seen.rejected, place)
            keys, offsets, at_ms = seen.keys, seen.offsets, seen.at_ms
            if self.until_ms is not None:
                known = at_ms <= self.until_ms
                keys, offsets, at_ms = keys.filter(pa.array(known)), offsets[known], at_ms[known]
            if not len(at_ms):
                continue
            words, _ = fingerprints.of_texts(keys)
            by_key = self.hot_keys.partitions(words, offsets, self.partitions)
            signals = pa.table([keys, offsets, at_ms], schema=SIGNALS)
            yield from parcels.sent(signals, by_key, parcels.SIGNALS, place)
            for partition, later in self.hot_keys.later(
                words, keys, offsets, at_ms, self.partitions
            ):
                yield parcels.packed(
                    pa.table(later, schema=SIGNALS), partition, parcels.SIGNALS, place
                )

    def pack_cancels(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in parcels.numbered(batches, self.columns[rows.CANCELS]):
            seen = rows.check_cancels(table)
            yield from self.rejected(seen.rejected, place)
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
        seen = parcels.opened(kept.pop(parcels.SIGNALS), SIGNALS)
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
                yield from self.answers.rejected(parcel.open())
            else:
                kept[parcel.kind].append(parcel)
        table = parcels.opened(kept.pop(parcels.OPERATIONS), self.columns[rows.OPERATIONS])
        if not len(table):
            return
        wanted, duplicates = without_duplicates(table)
        yield from self.answers.rejected(duplicates)
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
        endings = wanted.end(moments, holds, cancel_ms, has_cancel, self.until_ms, threads=1)
        yield from self.answers.ended(wanted, endings)

    def rejected(self, rejected: pa.Table, place: int) -> Iterator[pa.RecordBatch]:
        """Send rows that mean nothing to some partition, where they come out."""
        if len(rejected):
            yield parcels.packed(rejected, place % self.partitions, parcels.REJECTED, place)


def sent_by_id(
    table: pa.Table,
    wanted: rows.CleanOperations,
    ids: fingerprints.Words,
    partitions: int,
    place: int,
) -> Iterator[pa.RecordBatch]:
    """Send the rows of a table that mean something to the partitions of their ids."""
    if len(wanted) < len(table):
        table = parcels.taken(table, wanted.numbers)
    by_id = fingerprints.partitions(ids, partitions)
    yield from parcels.sent(table, by_id, parcels.OPERATIONS, place)


def without_duplicates(table: pa.Table) -> tuple[rows.CleanOperations, pa.Table]:
    """Of operations that were checked before, those that stay, and the others as rejected."""
    wanted = rows.check_operations(table)
    first = rows.first_of_duplicates(wanted.ids, wanted.submitted_ms, threads=1)
    if first.all():
        return wanted, rows.REJECTED.empty_table()
    duplicates = rows.reject(table, rows.OPERATIONS, wanted.numbers[~first], rows.DUPLICATE)
    return wanted.keep(first), duplicates


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
