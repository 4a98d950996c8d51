"""The stages of the batch job run here, one after the other, with the parcels carried by hand."""

from __future__ import annotations

import itertools
import pickle
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.replay import rows
from sojourn.replay.local import Index
from sojourn.replay.string_hashes import hashes
from sojourn.spark import direct
from sojourn.spark.answers import KINDS, Answers, arrow_schema, spark_schema
from sojourn.spark.broadcast import NO_LIMITS, Lookup, Survey
from sojourn.spark.broadcast import suspects as suspects_in
from sojourn.spark.hot_keys import HotKeys
from sojourn.spark.single import Single
from sojourn.spark.stages import Job
from tests.rows.oracle import Answer
from tests.rows.traces import Trace

# Only their names matter here.
COLUMNS = {
    rows.SIGNALS: pa.schema([(name, pa.int64()) for name in rows.SIGNAL_COLUMNS]),
    rows.CANCELS: pa.schema([(name, pa.int64()) for name in rows.CANCEL_COLUMNS]),
}

Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def job_for(
    operations: pa.Table, partitions: int, until_ms: int | None = None, hot: HotKeys | None = None
) -> Job:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(operations.schema)
    extras = [field for field in schema if field.name not in rows.OPERATION_COLUMNS]
    return Job(
        partitions,
        until_ms,
        COLUMNS | {rows.OPERATIONS: operations.schema},
        Answers(arrow_schema(spark_schema(extras))),
        hot or HotKeys(),
    )


def run(
    job: Job,
    operations: Iterable[pa.Table],
    signals: Iterable[pa.Table],
    cancels: Iterable[pa.Table] = (),
) -> pa.Table:
    """Each table is a partition of the input; returns the rows."""
    packed = [*mapped(job.pack_operations, operations), *mapped(job.pack_signals, signals)]
    found = [batch for piece in delivered(packed) for batch in job.find_moments(piece)]
    found += mapped(job.pack_cancels, cancels)
    ended = [batch for piece in delivered(found) for batch in job.end_operations(piece)]
    return pa.Table.from_batches(ended, job.answers.schema)


@dataclass(frozen=True)
class OnEveryMachine:
    """An index that is broadcast: it comes to the workers as bytes."""

    sent: bytes

    @property
    def value(self) -> Index:
        index: Index = pickle.loads(self.sent)
        return index


def run_broadcast(
    job: Job,
    operations: Iterable[pa.Table],
    signals: Iterable[pa.Table],
    cancels: Iterable[pa.Table] = (),
) -> pa.Table:
    """The same by the broadcast path; some ids are taken for suspects that are none."""
    survey = Survey(job, NO_LIMITS)
    found = mapped(survey.find_steps, signals) + mapped(survey.find_cancel_steps, cancels)
    hashed = [pa.table({"hash": _hashes(table)}) for table in operations]
    findings = survey.findings(found)
    suspects = suspects_in(mapped(survey.pack_hashes, hashed), NO_LIMITS)
    lookup = Lookup(job, OnEveryMachine(pickle.dumps(findings.index())))
    others, packed = [], []
    for table, of_ids in zip(operations, hashed, strict=True):
        is_suspect = pa.array(np.isin(of_ids["hash"].to_numpy(), suspects))
        others.append(table.filter(pa.compute.invert(is_suspect)))
        packed += mapped(lookup.pack_operations, [table.filter(is_suspect)])
    ended = mapped(lookup.end_operations, others)
    ended += [batch for piece in delivered(packed) for batch in lookup.end_firsts(piece)]
    for parcel in findings.rejected:
        ended += job.answers.rejected(parcel.open())
    return pa.Table.from_batches(ended, job.answers.schema)


def run_single(
    job: Job,
    operations: list[pa.Table],
    signals: Iterable[pa.Table],
    cancels: Iterable[pa.Table] = (),
) -> pa.Table:
    """The same in one shuffle; operations have one requirement each."""
    survey = Survey(job, NO_LIMITS)
    hashed = [pa.table({"hash": _hashes(table)}) for table in operations]
    findings = survey.findings(mapped(survey.find_cancel_steps, cancels))
    suspects = suspects_in(mapped(survey.pack_hashes, hashed), NO_LIMITS)
    index = OnEveryMachine(pickle.dumps(findings.index()))
    lookup, single = Lookup(job, index), Single(job, index)
    packed, by_id = mapped(job.pack_signals, signals), []
    for table, of_ids in zip(operations, hashed, strict=True):
        is_suspect = pa.array(np.isin(of_ids["hash"].to_numpy(), suspects))
        packed += mapped(single.pack_operations, [table.filter(pa.compute.invert(is_suspect))])
        by_id += mapped(lookup.pack_operations, [table.filter(is_suspect)])
    packed += [batch for piece in delivered(by_id) for batch in single.send_firsts(piece)]
    ended = [batch for piece in delivered(packed) for batch in single.end_operations(piece)]
    for parcel in findings.rejected:
        ended += job.answers.rejected(parcel.open())
    return pa.Table.from_batches(ended, job.answers.schema)


def resolve_direct(
    trace: Trace, answer: Callable[[pa.Table, pa.Table, pa.Table], Answer]
) -> Answer:
    """Resolve a trace by the direct way: rows are read and written by those who work on them."""
    random = Random(trace.name)
    operations, signals, cancels = (parts_of(table, random) for table in trace.tables())
    job = job_for(operations[0], random.choice((1, 7)), trace.until_ms)
    survey = Survey(job, NO_LIMITS)
    found = mapped(survey.find_steps, signals) + mapped(survey.find_cancel_steps, cancels)
    ids = [table.select(["id"]) for table in operations]
    findings = survey.findings(found)
    hashed = mapped(direct.then(direct._hashed, survey.pack_hashes), ids)
    some = [direct._hashes(table["id"].combine_chunks().drop_null())[:3] for table in ids]
    suspects = np.union1d(suspects_in(hashed, NO_LIMITS), np.concatenate(some))  # or are not
    lookup = Lookup(job, OnEveryMachine(pickle.dumps(findings.index())))
    others, these = (partial(direct._chosen, suspects, are_these) for are_these in (False, True))
    packed = mapped(direct.then(these, lookup.pack_operations), operations)
    ended = mapped(direct.then(others, lookup.end_operations), operations)
    ended += [batch for piece in delivered(packed) for batch in lookup.end_firsts(piece)]
    with TemporaryDirectory() as name:
        folder = direct.Folder(Path(name), job.answers)
        assert len(list(folder.write(ended))) == 1
        folder.complete(findings.rejected_rows())
        return answer(*(pq.read_table(Path(name, kind.folder)) for kind in KINDS.values()))


def _hashes(operations: pa.Table) -> pa.Array:
    """Of few bits, so that hashes meet."""
    ids = operations["id"].combine_chunks()
    return pa.array([hash_of_text(id or "") for id in ids.to_pylist()], pa.int64())


def hash_of_text(text: str) -> int:
    return zlib.crc32(text.encode()) % 1_000_003


def mapped(stage: Stage, tables: Iterable[pa.Table]) -> list[pa.RecordBatch]:
    return [batch for table in tables for batch in stage(table.to_batches(max_chunksize=100))]


def delivered(sent: list[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """The parcels by partition, as a shuffle would deliver them."""
    mail = defaultdict(list)
    for batch in sent:
        for n, partition in enumerate(batch["partition"].to_pylist()):
            mail[partition].append(batch.slice(n, 1))
    return list(mail.values())


def parts_of(table: pa.Table, random: Random) -> list[pa.Table]:
    """The table in up to three parts, one after the other."""
    at = sorted(random.randrange(len(table) + 1) for _ in range(random.randrange(3)))
    return [table.slice(a, b - a) for a, b in itertools.pairwise([0, *at, len(table)])]


def of_kind(ended: pa.Table, kind: str, columns: Iterable[str]) -> pa.Table:
    chosen = ended.filter(pa.compute.equal(ended["kind"], kind))
    table = chosen.select(list(columns))
    if kind != "rejected" and "extras" in ended.column_names:
        extras = chosen["extras"].combine_chunks()
        for n, field in enumerate(extras.type):
            table = table.append_column(field, extras.field(n))
    return table


def resolve(
    trace: Trace,
    answer: Callable[[pa.Table, pa.Table, pa.Table], Answer],
    run: Callable[..., pa.Table] = run,
) -> Answer:
    """Resolve a trace with partitions and cuts left to chance."""
    random = Random(trace.name)
    operations, signals, cancels = trace.tables()
    hot = HotKeys()
    if random.random() < 0.7:
        names = sorted({row["key"] for row in trace.signals if row["key"] is not None})
        cut = pa.array(random.sample(names, min(3, len(names))), pa.string())
        words = hashes(cut)
        hot = HotKeys(
            {int(w): np.unique(np.random.default_rng(0).integers(-1, 22, 3)) for w in words}
        )
    job = job_for(operations, random.choice((1, 2, 7, 50)), trace.until_ms, hot)
    ended = run(job, *(parts_of(table, random) for table in (operations, signals, cancels)))
    return answer(
        of_kind(ended, "outcome", rows.OUTCOME_COLUMNS),
        of_kind(ended, "pending", rows.OPERATION_COLUMNS),
        of_kind(ended, "rejected", rows.REJECTED.names),
    )
