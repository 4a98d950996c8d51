"""The stages of the batch job: what the workers do with their partitions.

    operations ── pack_operations ──┐                                ┌── pack_cancels ── cancels
                                    ├─ by key ─ find_moments ─ by id ┤
    signals ───── pack_signals ─────┘                                └── end_operations ── rows

1. `pack_operations` checks operations, sends each requirement to the partition of its key, and the
   operation itself to that of its id. `pack_signals` sends each signal to its key.
2. `find_moments` has all requirements and all signals of its keys. It finds when each
   requirement begins to hold, and sends that to the partition of the operation's id.
3. `end_operations` has all operations, moments and cancels of its ids, and decides how each ends.

Each is a function from record batches to record batches, as `mapInArrow` requires, and has its
settings in a `Job`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sojourn.errors import SojournError
from sojourn.replay import rows, schemas
from sojourn.replay.arrays import one_piece, within
from sojourn.replay.local import without_duplicates
from sojourn.replay.steps import Moments, Steps
from sojourn.replay.string_hashes import Hashes, hashes
from sojourn.spark import parcels, references
from sojourn.spark.answers import Answers
from sojourn.spark.hot_keys import HotKeys

Batches = Iterable[pa.RecordBatch]


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
            clean = rows.check_operations(table)
            yield from self.rejected(clean.rejected, place)
            if not len(clean):
                continue
            ids, keys = hashes(clean.ids), hashes(clean.keys)
            operations, checks = references.of_operations(clean, ids, keys)
            questions = pa.table(
                [
                    np.repeat(operations, clean.counts),
                    np.repeat(checks, clean.counts),
                    within(clean.starts).astype(np.int32),
                    clean.keys,
                    clean.offsets,
                ],
                schema=parcels.SCHEMAS[parcels.QUESTIONS],
            )
            by_key = self.hot_keys.partitions(keys, clean.offsets, self.partitions)
            yield from parcels.pack_by_partition(questions, by_key, parcels.QUESTIONS, place)
            yield from sent_by_id(table, clean, ids, self.partitions, place)

    def pack_signals(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in parcels.numbered(batches, self.columns[rows.SIGNALS]):
            clean = rows.check_signals(table)
            yield from self.rejected(clean.rejected, place)
            clean = clean.until(self.until_ms)
            if not len(clean):
                continue
            words = hashes(clean.names)
            by_key = self.hot_keys.partitions(words, clean.offsets, self.partitions)
            signals = clean.batch(schemas.SIGNALS)
            yield from parcels.pack_by_partition(signals, by_key, parcels.SIGNALS, place)
            for partition, later in self.hot_keys.later(words, clean, self.partitions):
                yield parcels.pack(later, partition, parcels.SIGNALS, place)

    def pack_cancels(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in parcels.numbered(batches, self.columns[rows.CANCELS]):
            clean = rows.check_cancels(table)
            yield from self.rejected(clean.rejected, place)
            if len(clean):
                words = hashes(clean.names)
                by_id = references.partitions(words, self.partitions)
                cancels = clean.batch(schemas.CANCELS)
                yield from parcels.pack_by_partition(cancels, by_id, parcels.CANCELS, place)

    def find_moments(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        by_kind: dict[int, list[parcels.Parcel]] = {parcels.QUESTIONS: [], parcels.SIGNALS: []}
        for partition, parcel in parcels.unpack(batches):
            if parcel.kind in by_kind:
                by_kind[parcel.kind].append(parcel)
            else:
                yield parcels.as_row(parcel, partition)
        questions = parcels.opened(by_kind.pop(parcels.QUESTIONS))
        if questions is None:
            return
        steps = steps_in(by_kind.pop(parcels.SIGNALS))
        moments, holds = steps.held_ms(
            one_piece(questions["key"]), questions["offset"].to_numpy(), threads=1
        )
        operations = questions["reference"].to_numpy()
        table = pa.table(
            [operations, questions["check"], questions["index"], moments, holds],
            schema=parcels.SCHEMAS[parcels.MOMENTS],
        )
        by_id = references.partitions(operations, self.partitions)
        yield from parcels.pack_by_partition(table, by_id, parcels.MOMENTS, 0)

    def end_operations(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        kinds = (parcels.OPERATIONS, parcels.MOMENTS, parcels.CANCELS)
        by_kind: dict[int, list[parcels.Parcel]] = {kind: [] for kind in kinds}
        yield from self.sort_parcels(batches, by_kind)
        table = parcels.opened(by_kind.pop(parcels.OPERATIONS))
        if table is None:
            return
        clean, duplicates = without_duplicates(table, rows.check_operations(table), threads=1)
        yield from self.answers.rejected(duplicates)
        del table
        held = _placed(clean, parcels.opened(by_kind.pop(parcels.MOMENTS)))
        cancelled = None
        if by_kind[parcels.CANCELS]:  # ids for keys, and times for offsets
            steps = steps_in(by_kind.pop(parcels.CANCELS))
            cancelled = steps.held_ms(clean.ids, clean.submitted_ms, threads=1)
        endings = clean.end(held, cancelled, self.until_ms, threads=1)
        yield from self.answers.ended(clean, endings)

    def sort_parcels(
        self, batches: Batches, by_kind: dict[int, list[parcels.Parcel]]
    ) -> Iterator[pa.RecordBatch]:
        """Put parcels into the lists of their kinds; yield the answers of rejected rows."""
        for _, parcel in parcels.unpack(batches):
            if parcel.kind == parcels.REJECTED:
                yield from self.answers.rejected(parcel.open())
            else:
                by_kind[parcel.kind].append(parcel)

    def rejected(self, rejected: pa.Table, place: int) -> Iterator[pa.RecordBatch]:
        """Send rejected rows to some partition, where they come out."""
        if len(rejected):
            yield parcels.pack(rejected, place % self.partitions, parcels.REJECTED, place)


def sent_by_id(
    table: pa.Table,
    clean: rows.CleanOperations,
    ids: Hashes,
    partitions: int,
    place: int,
) -> Iterator[pa.RecordBatch]:
    """Send the valid rows of a table to the partitions of their ids."""
    if len(clean) < len(table):
        table = parcels.taken(table, clean.numbers)
    by_id = references.partitions(ids, partitions)
    yield from parcels.pack_by_partition(table, by_id, parcels.OPERATIONS, place)


def steps_in(received: list[parcels.Parcel]) -> Steps:
    """Return the steps of the signals, or of the cancels, in these parcels."""
    events = parcels.opened(received)
    if events is None:
        return Steps.merged([])
    at_ms = events["at_ms"].to_numpy()
    offsets = events["offset"].to_numpy() if "offset" in events.column_names else at_ms
    return Steps(one_piece(events.column(0)), offsets, at_ms, threads=1)


def _placed(clean: rows.CleanOperations, table: pa.Table | None) -> Moments:
    """Put each moment beside the requirement it was found for."""
    if table is None:
        table = parcels.SCHEMAS[parcels.MOMENTS].empty_table()
    operations, checks = references.of_operations(clean, hashes(clean.ids), hashes(clean.keys))
    places = references.places(
        operations, checks, table["reference"].to_numpy(), table["check"].to_numpy()
    )
    ours = places >= 0  # the others belong to operations that were duplicates
    slots = (clean.starts[places] + table["index"].to_numpy())[ours]
    moments = np.zeros(len(clean.offsets), dtype=np.int64)
    holds = np.zeros(len(clean.offsets), dtype=np.bool_)
    placed = np.zeros(len(clean.offsets), dtype=np.bool_)
    moments[slots] = table["moment_ms"].to_numpy()[ours]
    holds[slots] = table["holds"].to_numpy()[ours]
    placed[slots] = True
    if not placed.all():
        raise RowsChanged(
            f"{int((~placed).sum())} requirements of {len(placed)} did not arrive: the "
            "rows of operations were not the same when Spark read them again; persist or write "
            "them first if they are made with rand(), uuid() or the like"
        )
    return moments, holds
