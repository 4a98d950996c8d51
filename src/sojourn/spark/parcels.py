"""The parcels: many rows travel as one.

Between Python and the JVM, and through a shuffle, Spark handles rows one by one; our rows are
small and there are many of them. So a task sorts its rows by the partition they have to go to,
packs those for one partition together, as Arrow writes them, and for Spark that is one row:

    partition int   where it has to go
    kind      byte  what is in it
    place     long  which task packed it, and as which of its parcels: the order of arrival
    parcel    binary

A parcel is small enough to be moved about (it is made of a few megabytes of input at a time), and
large enough for its own cost not to matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from sojourn.spark.workers import settle

SPARK_SCHEMA = "partition int, kind byte, place long, parcel binary"
_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("kind", pa.int8()),
        ("place", pa.int64()),
        ("parcel", pa.binary()),
    ]
)

# What a parcel holds.
OPERATIONS = 0  # rows as they came in, checked
REQUIREMENTS = 1
SIGNALS = 2
CANCELS = 3
MOMENTS = 4
REJECTED = 5
STEPS = 6  # of signals
CANCEL_STEPS = 7
HASHES = 8  # of ids
TOO_MANY = 9  # nothing: the task gave up

# Input is gathered up to this much before it is packed; a parcel is a partition's share of it.
GATHERED_BYTES = 32 << 20
GATHERED_ROWS = 1 << 18


class Parcel(NamedTuple):
    kind: int
    place: int
    contents: pa.Buffer

    def open(self) -> pa.Table:
        return pa.ipc.open_stream(self.contents).read_all()


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join small batches to tables that are worth the while."""
    settle()
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= GATHERED_ROWS or size >= GATHERED_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def numbered(
    batches: Iterable[pa.RecordBatch], columns: pa.Schema
) -> Iterator[tuple[int, pa.Table]]:
    """Gather a task's input; give each piece its place, and columns the names the user knows."""
    context = TaskContext.get()
    first = (context.partitionId() if context else 0) << 32
    for n, table in enumerate(gathered(batches)):
        yield first + n, table.rename_columns(columns.names)


def sent(
    table: pa.Table, partitions: npt.NDArray[np.uint16], kind: int, place: int
) -> Iterator[pa.RecordBatch]:
    """Pack each partition's rows; among themselves they stay in order."""
    order = np.argsort(partitions, kind="stable")
    table = taken(table, order)
    counts = np.bincount(partitions)
    ends = np.cumsum(counts)
    for partition in np.flatnonzero(counts).tolist():
        count = int(counts[partition])
        yield packed(table.slice(int(ends[partition]) - count, count), partition, kind, place)


def taken(table: pa.Table, order: npt.NDArray[np.int64]) -> pa.Table:
    """Rearrange the rows; what Arrow cannot take is put together slice by slice."""
    table = table.combine_chunks()
    try:
        return table.take(pa.array(order))
    except pa.ArrowNotImplementedError:
        return pa.concat_tables([table.slice(n, 1) for n in order.tolist()])


def packed(table: pa.Table, partition: int, kind: int, place: int) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return forwarded(Parcel(kind, place, sink.getvalue()), partition)


def forwarded(parcel: Parcel, partition: int) -> pa.RecordBatch:
    """Make a row of a parcel without copying its contents."""
    ends = pa.py_buffer(np.array([0, parcel.contents.size], dtype=np.int32))
    return pa.record_batch(
        [
            pa.array([partition], pa.int32()),
            pa.array([parcel.kind], pa.int8()),
            pa.array([parcel.place], pa.int64()),
            pa.Array.from_buffers(pa.binary(), 1, [None, ends, parcel.contents]),
        ],
        schema=_SCHEMA,
    )


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Parcel]]:
    """Take parcels from rows, without copying: where each was sent, and the parcel."""
    settle()
    for batch in batches:
        rows: Any = zip(
            batch.column("partition").to_pylist(),
            batch.column("kind").to_pylist(),
            batch.column("place").to_pylist(),
            batch.column("parcel"),
            strict=True,
        )
        for partition, kind, place, contents in rows:
            yield partition, Parcel(kind, place, contents.as_buffer())


def opened(parcels: list[Parcel], schema: pa.Schema) -> pa.Table:
    """Open parcels in the order in which they arrived, as one table."""
    ordered = sorted(parcels, key=lambda parcel: parcel.place)
    tables = [parcel.open() for parcel in ordered]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def one_piece(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece, of wide strings if narrow ones cannot hold it."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_string(column.type) and column.nbytes >= 1 << 31:
        column = column.cast(pa.large_string())
    return column.combine_chunks()
