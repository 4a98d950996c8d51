"""The parcels: many rows, packed into one row of Spark's.

Spark handles rows one by one between Python and the JVM, and in a shuffle: it converts, hashes,
sorts and passes on each of them. Our rows are small, and there are many of them. So a task sorts
its rows by destination, and packs those of one destination together in Arrow's format; for Spark
that is one row. In a batch job:

    partition int   the destination
    kind      byte  what is in it
    place     long  which task packed it, and as which of its parcels: the order of arrival
    body      binary

In a stream the destination is a shard, and the parcel has the times of its rows too (intake.py).

Rows of a kind in `SCHEMAS` are packed without their schema, which the kind tells; others have it
with them. A parcel is made of a few megabytes of input: small enough to be moved, and large enough
that its own cost does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from sojourn.replay import journal, schemas
from sojourn.replay.endings import COMPLETED, STATUS
from sojourn.spark.ddl import ddl
from sojourn.spark.workers import settle

_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("kind", pa.int8()),
        ("place", pa.int64()),
        ("body", pa.binary()),
    ]
)
SPARK_SCHEMA = ddl(_SCHEMA)

# What a parcel holds.
TICK = 0  # no rows; says to a shard that there is a batch
OPERATIONS = 1  # with the columns that the user gave them, checked
SUBMISSIONS = 2
REQUIREMENTS = 3
SIGNALS = 4
CANCELS = 5
CANDIDATES = 6
ENDED = 7
REJECTED = 8
HELD = 9  # no rows; says how much a shard holds
QUESTIONS = 10  # from when on does a requirement hold? Asked by fingerprint of the operation
MOMENTS = 11  # the answers
STEPS = 12  # of signals
CANCEL_STEPS = 13
HASHES = 14  # of ids
TOO_MANY = 15  # no rows: the task found more than a broadcast takes

_REFERENCE = [("reference", pa.uint64()), ("check", pa.uint32()), ("index", pa.int32())]

SCHEMAS: dict[int, pa.Schema] = {
    SUBMISSIONS: schemas.SUBMISSIONS,
    REQUIREMENTS: schemas.REQUIREMENTS,
    SIGNALS: schemas.SIGNALS,
    CANCELS: schemas.CANCELS,
    CANDIDATES: schemas.CANDIDATES,
    ENDED: schemas.ENDED,
    REJECTED: schemas.REJECTED,
    QUESTIONS: pa.schema([*_REFERENCE, ("key", pa.string()), ("offset", pa.int64())]),
    MOMENTS: pa.schema([*_REFERENCE, ("moment_ms", pa.int64()), ("holds", pa.bool_())]),
}

# Counted in every parcel of a stream's ends.
COUNTS = (*STATUS[COMPLETED:], "rejected")
HOLDINGS = ("keys", "ids", "operations")  # counted once for each shard and batch

# Input is gathered up to this much before it is packed; a parcel is a partition's share of it.
GATHERED_BYTES = 32 << 20
GATHERED_ROWS = 1 << 18


class Parcel(NamedTuple):
    kind: int
    place: int
    body: pa.Buffer

    def open(self) -> pa.Table:
        return unseal(self.kind, self.body)


def seal(kind: int, rows: Any) -> pa.Buffer:
    """Return rows of this kind, a table or a batch, as bytes; there is at least one."""
    if kind in SCHEMAS:
        if isinstance(rows, pa.Table):
            rows = rows.combine_chunks().to_batches()[0]
        fitting: Any = journal.in_schema(rows, SCHEMAS[kind])
        return fitting.serialize()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    return sink.getvalue()


def unseal(kind: int, body: Any) -> pa.Table:
    """Return the rows of a parcel of this kind."""
    if kind in SCHEMAS:
        return pa.Table.from_batches([unseal_batch(kind, body)])
    return pa.ipc.open_stream(body).read_all()


def unseal_batch(kind: int, body: Any) -> pa.RecordBatch:
    """Return the rows of a parcel, of a kind whose schema is known."""
    return pa.ipc.read_record_batch(pa.py_buffer(body), SCHEMAS[kind])


def joined(kind: int, bodies: list[bytes]) -> pa.RecordBatch | None:
    """Return the rows of several parcels as one batch; None if there are no parcels."""
    if len(bodies) <= 1:
        return unseal_batch(kind, bodies[0]) if bodies else None
    return pa.concat_batches([unseal_batch(kind, body) for body in bodies])


def opened(parcels: list[Parcel]) -> pa.Table | None:
    """Open parcels in the order in which they arrived, as one table; None if there are none."""
    if not parcels:
        return None
    ordered = sorted(parcels, key=lambda parcel: parcel.place)
    return pa.concat_tables([parcel.open() for parcel in ordered])


def split(rows: Any, places: npt.NDArray[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the rows that go to each place; among themselves they stay in order."""
    order = np.argsort(places.astype(np.uint16, copy=False), kind="stable")
    ordered = taken(rows, order)
    counts = np.bincount(places)
    ends = np.cumsum(counts)
    for place in np.flatnonzero(counts).tolist():
        count = int(counts[place])
        yield place, ordered.slice(int(ends[place]) - count, count)


def taken(rows: Any, order: npt.NDArray[np.int64]) -> Any:
    """Rearrange the rows; what Arrow cannot take is put together slice by slice."""
    if isinstance(rows, pa.RecordBatch):
        return rows.take(pa.array(order))
    rows = rows.combine_chunks()
    try:
        return rows.take(pa.array(order))
    except pa.ArrowNotImplementedError:
        return pa.concat_tables([rows.slice(n, 1) for n in order.tolist()])


def gathered(
    batches: Iterable[pa.RecordBatch],
    *,
    most_rows: int = GATHERED_ROWS,
    most_bytes: int = GATHERED_BYTES,
) -> Iterator[pa.Table]:
    """Join small batches to tables that are large enough to pack."""
    settle()
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def numbered(
    batches: Iterable[pa.RecordBatch], columns: pa.Schema, **limits: int
) -> Iterator[tuple[int, pa.Table]]:
    """Gather a task's input; give each piece its place, and columns the names the user knows.

    `limits` are those of `gathered`.
    """
    context = TaskContext.get()
    first = (context.partitionId() if context else 0) << 32
    for n, table in enumerate(gathered(batches, **limits)):
        yield first + n, table.rename_columns(columns.names)


def pack_by_partition(
    rows: Any, partitions: npt.NDArray[np.uint16], kind: int, place: int
) -> Iterator[pa.RecordBatch]:
    """Pack each partition's rows."""
    for partition, some in split(rows, partitions):
        yield pack(some, partition, kind, place)


def pack(rows: Any, partition: int, kind: int, place: int) -> pa.RecordBatch:
    return as_row(Parcel(kind, place, seal(kind, rows)), partition)


def as_row(parcel: Parcel, partition: int) -> pa.RecordBatch:
    """Make a row of a parcel without copying its body."""
    ends = pa.py_buffer(np.array([0, parcel.body.size], dtype=np.int32))
    return pa.record_batch(
        [
            pa.array([partition], pa.int32()),
            pa.array([parcel.kind], pa.int8()),
            pa.array([parcel.place], pa.int64()),
            pa.Array.from_buffers(pa.binary(), 1, [None, ends, parcel.body]),
        ],
        schema=_SCHEMA,
    )


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Parcel]]:
    """Take parcels from rows, without copying: where each was sent, and the parcel."""
    settle()
    for batch in batches:
        rows: Any = zip(
            batch.column("partition").to_pylist(),
            batch.column("kind").to_pylist(),
            batch.column("place").to_pylist(),
            batch.column("body"),
            strict=True,
        )
        for partition, kind, place, body in rows:
            yield partition, Parcel(kind, place, body.as_buffer())
