"""One requirement each: an operation goes to its key and ends there, in one shuffle.

    cancels, ids ── first job ── driver: cancels for every machine, and suspects

    operations ─┬ others ── pack ─────────────────────────────┐
                └ suspects ── pack by id ── (by id) ── firsts ┼── (by key) ── end ── rows
    signals ──────────────── pack ────────────────────────────┘

An operation with several requirements needs moments from several tasks. One with a single
requirement has all it needs in the task of its key, if duplicates are removed before. They are
found as on the broadcast path: by hashes of the ids, and only suspects are shuffled by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sojourn.replay import rows
from sojourn.replay.local import Index, without_duplicates
from sojourn.replay.string_hashes import hashes
from sojourn.spark import broadcast, parcels
from sojourn.spark.broadcast import Limits, Lookup
from sojourn.spark.frames import Tables
from sojourn.spark.stages import Job, RowsChanged, steps_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Single:
    """What the tasks do."""

    job: Job
    cancels: Any  # an Index that is broadcast, of cancels only: its `value`

    def pack_operations(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in parcels.numbered(batches, self.job.columns[rows.OPERATIONS]):
            clean = rows.check_operations(table)
            yield from self.job.rejected(clean.rejected, place)
            if len(clean):
                yield from self._sent_by_key(table, clean, place)

    def send_firsts(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Of operations with one id send the first to its key."""
        operations: list[parcels.Parcel] = []
        for partition, parcel in parcels.unpack(batches):
            if parcel.kind == parcels.OPERATIONS:
                operations.append(parcel)
            else:
                yield parcels.as_row(parcel, partition)
        table = parcels.opened(operations)
        if table is not None:
            clean = rows.check_operations(table)
            clean, duplicates = without_duplicates(table, clean, threads=1)
            yield from self.job.rejected(duplicates, 0)
            yield from self._sent_by_key(table, clean, 0)

    def end_operations(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        by_kind: dict[int, list[parcels.Parcel]] = {parcels.OPERATIONS: [], parcels.SIGNALS: []}
        yield from self.job.sort_parcels(batches, by_kind)
        table = parcels.opened(by_kind.pop(parcels.OPERATIONS))
        if table is None:
            return
        clean = rows.check_operations(table)
        del table
        index = Index(steps_in(by_kind.pop(parcels.SIGNALS)), self.cancels.value.cancels)
        endings = index.end(clean, self.job.until_ms, threads=1)
        yield from self.job.answers.ended(clean, endings)

    def _sent_by_key(
        self, table: pa.Table, clean: rows.CleanOperations, place: int
    ) -> Iterator[pa.RecordBatch]:
        if len(clean.keys) != len(clean):
            raise RowsChanged(
                "an operation with several requirements came, where all had one before: the rows "
                "of operations were not the same when Spark read them again; persist or write "
                "them first"
            )
        if len(clean) < len(table):
            table = parcels.taken(table, clean.numbers)
        by_key = self.job.hot_keys.partitions(
            hashes(clean.keys), clean.offsets, self.job.partitions
        )
        yield from parcels.pack_by_partition(table, by_key, parcels.OPERATIONS, place)


def resolved(
    tables: Tables, job: Job, limits: Limits, output: StructType
) -> tuple[DataFrame, pa.Table]:
    """Run the first jobs; return the rows, and the rejected cancels.

    The caller knows that no operation has several requirements. Raises TooMany.
    """
    operations = tables.operations
    survey = broadcast.surveyed(operations, None, tables.cancels, job, limits)
    index = operations.session.sparkContext.broadcast(survey.index)
    single = Single(job, index)
    packed = tables.signals.mapped(job.pack_signals, parcels.SPARK_SCHEMA)
    if len(survey.suspects):
        operations, these = operations.split(survey.suspects)
        by_id = these.mapped(Lookup(job, index).pack_operations, parcels.SPARK_SCHEMA)
        packed = packed.union(
            by_id.repartitionById(job.partitions, "partition").mapInArrow(
                single.send_firsts, parcels.SPARK_SCHEMA
            )
        )
    packed = packed.union(operations.mapped(single.pack_operations, parcels.SPARK_SCHEMA))
    by_key = packed.repartitionById(job.partitions, "partition")
    return by_key.mapInArrow(single.end_operations, output), survey.rejected
