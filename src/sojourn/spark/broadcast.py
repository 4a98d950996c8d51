"""The broadcast path: every machine has all signals, and operations stay where they are.

    signals ── find_steps ───────┬─ driver ── index, on every machine
    cancels ── find_cancel_steps ┘                       │
    ids ────── pack_hashes ──────── driver ─┐            │
                                            │ suspects   │
                                            ├── others ── end_operations ─────────────── rows
    operations ─────────────────────────────┴── suspects ── pack ─ by id ─ end_firsts ── rows

1. Two jobs run at once. One reduces signals and cancels to steps (replay/steps.py), part by part;
   the driver merges them into the index, which is broadcast. The other job hashes the ids, and the
   driver looks for hashes that occur twice: their ids are suspects. Nearly all are duplicates.
2. Operations look up their moments in the index, and end where they are, a few at a time. They are
   not shuffled, and a hot key is like any other.
3. Only suspects are shuffled, by id, so that one task sees all operations of an id.

A task that finds too many steps stops, and so does the driver: then rows are shuffled. Ids are read
twice, to be hashed and to be looked up. Both times the id alone decides whether it is a suspect, so
no row is lost. But if the rows differ when they are read again, a duplicate may be missed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from sojourn.errors import SojournError
from sojourn.replay import rows
from sojourn.replay.arrays import repeated
from sojourn.replay.local import Index, steps_of, without_duplicates
from sojourn.replay.steps import Steps
from sojourn.replay.string_hashes import hashes
from sojourn.spark import parcels
from sojourn.spark.answers import REJECTED
from sojourn.spark.beside import Beside, planned
from sojourn.spark.ddl import ddl
from sojourn.spark.frames import HASHES, Hashes, Source, Stage, Tables
from sojourn.spark.stages import Job, sent_by_id

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Batches = Iterable[pa.RecordBatch]

# A task finds the steps of so many signals at a time; most tasks have fewer.
_SIGNALS_AT_ONCE = {"most_rows": 1 << 22, "most_bytes": 128 << 20}
# So many parts of a task's steps are kept before they are merged.
_PARTS = 16


class Limits(NamedTuple):
    """Above these limits rows are shuffled instead of broadcast."""

    steps: int = 1 << 24  # about 300 MB
    rejected: int = 100_000  # signals and cancels; they go over the driver
    suspects_share: float = 0.1  # of the operations
    hashes_bytes: int = 2 << 30  # of operations; beyond, hashes are grouped by Spark


LIMITS = Limits()
NO_LIMITS = Limits(rows.MOST, rows.MOST, 1.0)


class TooMany(SojournError, RuntimeError):
    """The input is too large for a broadcast; `strategy="shuffle"` takes any number."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The first jobs: what their tasks find, and what the driver makes of it."""

    job: Job
    limits: Limits

    def find_steps(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from self._find(batches, rows.SIGNALS, parcels.STEPS)

    def find_cancel_steps(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from self._find(batches, rows.CANCELS, parcels.CANCEL_STEPS)

    def pack_hashes(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in parcels.numbered(batches, HASHES):
            body = pa.py_buffer(table["hash"].to_numpy())
            yield parcels.as_row(parcels.Parcel(parcels.HASHES, place, body), 0)

    def findings(self, batches: Batches) -> Findings:
        """Put together what the tasks found; raises TooMany."""
        findings = Findings()
        for _, parcel in parcels.unpack(batches):
            if parcel.kind == parcels.TOO_MANY:
                raise TooMany(_TOO_MANY)
            if parcel.kind == parcels.REJECTED:
                findings.rejected.append(parcel)
            else:
                findings.steps[parcel.kind].append(pickle.loads(parcel.body))
        steps = sum(len(part) for parts in findings.steps.values() for part in parts)
        if steps > self.limits.steps:
            raise TooMany(_TOO_MANY)
        return findings

    def _find(self, batches: Batches, name: str, kind: int) -> Iterator[pa.RecordBatch]:
        parts: list[Steps] = []
        count = rejected_rows = 0
        columns = self.job.columns[name]
        for place, table in parcels.numbered(batches, columns, **_SIGNALS_AT_ONCE):
            clean = rows.CHECKS[name](table)
            if len(clean.rejected):
                yield parcels.pack(clean.rejected, 0, parcels.REJECTED, place)
            rejected_rows += len(clean.rejected)
            parts.append(steps_of(clean.until(self.job.until_ms), threads=1))
            count += len(parts[-1])
            if len(parts) > _PARTS or count > self.limits.steps:
                parts = [Steps.merged(parts, threads=1)]
                count = len(parts[0])
            if count > self.limits.steps or rejected_rows > self.limits.rejected:
                yield parcels.as_row(parcels.Parcel(parcels.TOO_MANY, place, _NOTHING), 0)
                return
        if count:
            steps = Steps.merged(parts, threads=1)
            body = pa.py_buffer(pickle.dumps(steps, protocol=pickle.HIGHEST_PROTOCOL))
            yield parcels.as_row(parcels.Parcel(kind, 0, body), 0)


@dataclass(slots=True)
class Findings:
    """What the job on signals and cancels found."""

    rejected: list[parcels.Parcel] = field(default_factory=list)
    steps: dict[int, list[Steps]] = field(
        default_factory=lambda: {parcels.STEPS: [], parcels.CANCEL_STEPS: []}
    )

    def index(self) -> Index:
        cancels = self.steps[parcels.CANCEL_STEPS]
        return Index(
            Steps.merged(self.steps[parcels.STEPS]), Steps.merged(cancels) if cancels else None
        )

    def rejected_rows(self) -> pa.Table:
        """The signals and cancels that are rejected."""
        rejected = parcels.opened(self.rejected)
        return rows.REJECTED.empty_table() if rejected is None else rejected


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What the first jobs found: the index, the hashes of the ids, and rejected rows."""

    index: Index
    suspects: Hashes
    rejected: pa.Table


def suspects(batches: Batches, limits: Limits) -> Hashes:
    """The hashes that are there more than once; raises TooMany."""
    parts = [np.frombuffer(p.body, dtype=np.int64) for _, p in parcels.unpack(batches)]
    if not parts:
        return np.zeros(0, dtype=np.int64)
    every = np.concatenate(parts)
    again = repeated(every)
    if len(again) > limits.suspects_share * len(every) + 1000:
        raise TooMany("a large part of the ids are duplicates")
    return np.unique(again)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The last job: operations look up when they end."""

    job: Job
    index: Any  # an Index that is broadcast: its `value`

    def end_operations(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for _, table in parcels.numbered(batches, self.job.columns[rows.OPERATIONS]):
            clean = rows.check_operations(table)
            yield from self.job.answers.rejected(clean.rejected)
            yield from self._ended(clean)

    def pack_operations(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for place, table in parcels.numbered(batches, self.job.columns[rows.OPERATIONS]):
            clean = rows.check_operations(table)
            yield from self.job.rejected(clean.rejected, place)
            if len(clean):
                yield from sent_by_id(table, clean, hashes(clean.ids), self.job.partitions, place)

    def end_firsts(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        by_kind: dict[int, list[parcels.Parcel]] = {parcels.OPERATIONS: []}
        yield from self.job.sort_parcels(batches, by_kind)
        table = parcels.opened(by_kind[parcels.OPERATIONS])
        if table is not None:
            clean = rows.check_operations(table)
            clean, duplicates = without_duplicates(table, clean, threads=1)
            yield from self.job.answers.rejected(duplicates)
            yield from self._ended(clean)

    def _ended(self, clean: rows.CleanOperations) -> Iterator[pa.RecordBatch]:
        endings = self.index.value.end(clean, self.job.until_ms, threads=1)
        yield from self.job.answers.ended(clean, endings)


def resolved(
    tables: Tables,
    job: Job,
    limits: Limits,
    output: StructType | str,
    last: Callable[[Stage], Stage] = lambda stage: stage,
) -> tuple[DataFrame, pa.Table]:
    """Run the first jobs; return the rows of the last one, and the rejected signals.

    `last` may do something with the rows where they are made; `output` is what it makes of them.
    Raises TooMany.
    """
    operations = tables.operations
    survey = surveyed(operations, tables.signals, tables.cancels, job, limits)
    lookup = Lookup(job, operations.session.sparkContext.broadcast(survey.index))
    if not len(survey.suspects):
        return operations.mapped(last(lookup.end_operations), output), survey.rejected
    others, these = operations.split(survey.suspects)
    packed = these.mapped(lookup.pack_operations, parcels.SPARK_SCHEMA)
    firsts = packed.repartitionById(job.partitions, "partition").mapInArrow(
        last(lookup.end_firsts), output
    )
    return others.mapped(last(lookup.end_operations), output).union(firsts), survey.rejected


def surveyed(
    operations: Source, signals: Source | None, cancels: Source | None, job: Job, limits: Limits
) -> Surveyed:
    """Run the first jobs, one beside the other. Raises TooMany."""
    survey = Survey(job, limits)
    parts = []
    if signals is not None:
        parts.append(signals.mapped(survey.find_steps, parcels.SPARK_SCHEMA))
    if cancels is not None:
        parts.append(cancels.mapped(survey.find_cancel_steps, parcels.SPARK_SCHEMA))
    events = planned(reduce(DataFrame.union, parts)) if parts else None
    with Beside(operations.session, partial(_suspects_of, operations, survey)) as hashed:
        batches = [] if events is None else _collected(events).to_batches()
        findings = survey.findings(batches)
        index, rejected = findings.index(), findings.rejected_rows()
    return Surveyed(index, hashed.result(), rejected)


def _suspects_of(operations: Source, survey: Survey) -> Hashes:
    size = operations.known_bytes
    if size is None or size > survey.limits.hashes_bytes:
        return _repeated(operations)
    hashed = _collected(operations.hashed(survey.pack_hashes, parcels.SPARK_SCHEMA))
    return suspects(hashed.to_batches(), survey.limits)


def with_rejected(ended: DataFrame, rejected: pa.Table) -> DataFrame:
    """Add rows of the first jobs to those of the last."""
    if not len(rejected):
        return ended
    rejected_rows = ended.sparkSession.createDataFrame(rejected).withColumn(
        "kind", sf.lit(REJECTED)
    )
    return ended.union(
        rejected_rows.select(
            *(
                sf.col(f.name)
                if f.name in rejected_rows.columns
                else sf.lit(None).cast(f.dataType).alias(f.name)
                for f in ended.schema
            )
        )
    )


def _collected(first: DataFrame) -> pa.Table:
    try:
        return first.toArrow()
    except Exception as error:
        if "spark.driver.maxResultSize" in str(error):
            raise TooMany(
                "the signals are more than spark.driver.maxResultSize lets through to the driver"
            ) from error
        raise


def _repeated(operations: Source) -> Hashes:
    """The hashes that are there more than once, where they are too many for the driver."""
    every = operations.hashed(_as_they_are, ddl(HASHES))
    again = every.groupBy("hash").count().where("count > 1").select("hash").toArrow()
    suspects: Hashes = again["hash"].to_numpy()
    return suspects


def _as_they_are(batches: Batches) -> Iterator[pa.RecordBatch]:
    yield from batches


_TOO_MANY = "there are too many signals, cancels, or bad ones among them"
_NOTHING = pa.py_buffer(b"")
