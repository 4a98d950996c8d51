"""The stages of the batch job run here, one after the other, with the parcels carried by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random

import numpy as np
import pyarrow as pa
from rows_oracle import Answer
from rows_traces import Trace

from sojourn.replay import rows
from sojourn.spark import fingerprints
from sojourn.spark.batch import _arrow_schema, _output_schema
from sojourn.spark.hot_keys import HotKeys
from sojourn.spark.stages import Job

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
        tuple(field.name for field in extras),
        _arrow_schema(_output_schema(extras)),
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
    return pa.Table.from_batches(ended, job.output)


def mapped(stage: Stage, tables: Iterable[pa.Table]) -> list[pa.RecordBatch]:
    return [batch for table in tables for batch in stage(table.to_batches(max_chunksize=100))]


def delivered(sent: list[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """The parcels by partition, as a shuffle would deliver them."""
    mail = defaultdict(list)
    for batch in sent:
        for n, partition in enumerate(batch["partition"].to_pylist()):
            mail[partition].append(batch.slice(n, 1))
    return list(mail.values())


def of_kind(ended: pa.Table, kind: str, columns: Iterable[str]) -> pa.Table:
    chosen = ended.filter(pa.compute.equal(ended["kind"], kind))
    table = chosen.select(list(columns))
    if kind != "rejected" and "extras" in ended.column_names:
        extras = chosen["extras"].combine_chunks()
        for n, field in enumerate(extras.type):
            table = table.append_column(field, extras.field(n))
    return table


def resolve(trace: Trace, answer: Callable[[pa.Table, pa.Table, pa.Table], Answer]) -> Answer:
    """Resolve a trace with partitions and cuts left to chance."""
    random = Random(trace.name)
    operations, signals, cancels = trace.tables()
    hot = HotKeys()
    if random.random() < 0.7:
        names = sorted({row["key"] for row in trace.signals if row["key"] is not None})
        cut = pa.array(random.sample(names, min(3, len(names))), pa.string())
        words = fingerprints.of_texts(cut)[0]
        hot = HotKeys(
            {int(w): np.unique(np.random.default_rng(0).integers(-1, 22, 3)) for w in words}
        )
    job = job_for(operations, random.choice((1, 2, 7, 50)), trace.until_ms, hot)
    ended = run(job, *([table] for table in (operations, signals, cancels)))
    return answer(
        of_kind(ended, "outcome", rows.OUTCOME_COLUMNS),
        of_kind(ended, "pending", rows.PENDING_COLUMNS),
        of_kind(ended, "rejected", rows.REJECTED.names),
    )
