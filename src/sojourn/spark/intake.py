"""The intake: users' rows go in, parcels for the shards come out.

Runs in Spark's Python workers, one partition of a table at a time. Invalid rows become rejected
rows; the others are encoded for the engines and sent to the shard of their key or id:

    shard | kind    | least_ms, most_ms        | wall_ms        | body
    ------+---------+--------------------------+----------------+--------------------------
      3   | SIGNALS | the times of its rows    |                | rows, see parcels.py
      3   | SIGNALS | the latest of its source | of the batch   | none: it is a tick

Every shard gets a tick for every partition of a source that had rows, so all shards know the latest
time of each source. The heartbeat's ticks are of the kind TICK, and have no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.replay import rows
from sojourn.replay.arrays import Integers
from sojourn.replay.string_hashes import Hashes, hashes, shard_of
from sojourn.spark import parcels, references
from sojourn.spark.ddl import ddl
from sojourn.spark.labels import labels
from sojourn.spark.pace import later
from sojourn.spark.payload import PayloadFormat, pack_requirements

_TAKEN = pa.schema(
    [
        ("shard", pa.int64()),  # its label
        ("kind", pa.int8()),
        ("least_ms", pa.int64()),
        ("most_ms", pa.int64()),
        ("wall_ms", pa.int64()),
        ("body", pa.binary()),
    ]
)
TAKEN_DDL = ddl(_TAKEN)

WALL = "_sojourn_wall_ms"  # a column with the time on the wall that Spark wrote down for the batch

# The kind of a source's ticks, and of what goes in by id or by key.
KIND = {
    rows.OPERATIONS: parcels.SUBMISSIONS,
    rows.SIGNALS: parcels.SIGNALS,
    rows.CANCELS: parcels.CANCELS,
}

Row = dict[str, Any]


@dataclass(frozen=True)
class Intake:
    """Turns the rows of one table into parcels; called by `mapInArrow`."""

    table: str
    shards: int
    columns: bytes = b""  # of operations: the schema of what the payload carries
    ahead_ms: int | None = None  # how far beyond the wall clock a row may be; None: as far as any

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        latest_ms: int | None = None
        wall_ms: int | None = None
        for round_number, table in enumerate(parcels.gathered(batches)):
            wall_ms, table = _wall_ms(table)
            clean = rows.CHECKS[self.table](table)
            times_ms = clean.submitted_ms if self.table == rows.OPERATIONS else clean.at_ms
            clean, rejected = self._without_future(table, clean, times_ms, wall_ms)
            out: list[Row] = []
            if len(clean):
                send = self._operations if self.table == rows.OPERATIONS else self._events
                latest_ms = later(latest_ms, send(table, clean, out))
            if len(rejected):
                shard = (round_number + len(rejected)) % self.shards
                out.append(_row(labels(self.shards)[shard], parcels.REJECTED, rejected))
            yield pa.RecordBatch.from_pylist(out, _TAKEN)
        if wall_ms is not None:  # there were rows
            yield ticks(self.shards, KIND[self.table], latest_ms, wall_ms)

    def _without_future(
        self, table: pa.Table, clean: Any, times_ms: Integers, wall_ms: int
    ) -> tuple[Any, pa.Table]:
        """Return the rows that are not from the future, and all that are rejected."""
        limit_ms = rows.MOST if self.ahead_ms is None else wall_ms + self.ahead_ms
        have_come = times_ms <= limit_ms
        if have_come.all():
            return clean, clean.rejected
        reason = f"from the future: its time is more than {self.ahead_ms} ms after it arrived"
        future = rows.reject(table, self.table, clean.numbers[~have_come], reason)
        return clean.keep(have_come), pa.concat_tables([clean.rejected, future])

    def _operations(self, table: pa.Table, clean: rows.CleanOperations, out: list[Row]) -> int:
        """Send operations to the shards of their ids, and requirements to those of their keys."""
        key_hashes = hashes(clean.keys)
        tags = references.tags(clean, key_hashes).view(np.int64)
        form = PayloadFormat.of(self.columns)
        carried = table.select(form.columns.names)
        if len(clean) < len(table):
            carried = carried.take(pa.array(clean.numbers))
        payload = form.encode(carried, pack_requirements(clean.keys, clean.offsets, clean.starts))
        operations, requirements = clean.submissions(tags, payload), clean.requirements(tags)
        self._send(out, parcels.SUBMISSIONS, operations, hashes(clean.ids), "submitted_ms")
        self._send(out, parcels.REQUIREMENTS, requirements, key_hashes, "submitted_ms")
        return int(clean.submitted_ms.max())

    def _events(self, table: pa.Table, clean: rows.CleanEvents, out: list[Row]) -> int:
        """Send signals to the shards of their keys, or cancels to those of their ids."""
        batch = clean.batch(rows.TABLES[self.table])
        self._send(out, KIND[self.table], batch, hashes(clean.names), "at_ms")
        return int(clean.at_ms.max())

    def _send(
        self, out: list[Row], kind: int, batch: pa.RecordBatch, by: Hashes, time_column: str
    ) -> None:
        for shard, part in parcels.split(batch, shard_of(by, self.shards)):
            out.append(_row(labels(self.shards)[shard], kind, part, time_column))


@dataclass(frozen=True)
class Heartbeat:
    """Turns whatever rows arrive into one tick for every shard; called by `mapInArrow`."""

    shards: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        walls = [_wall_ms(pa.Table.from_batches([b]))[0] for b in batches if b.num_rows]
        if walls:
            yield ticks(self.shards, parcels.TICK, None, walls[0])


def ticks(shards: int, kind: int, latest_ms: int | None, wall_ms: int) -> pa.RecordBatch:
    """Return a parcel without a body for every shard: the latest time of a partition's rows."""
    return pa.record_batch(
        [
            pa.array(labels(shards), pa.int64()),
            pa.array([kind] * shards, pa.int8()),
            pa.nulls(shards, pa.int64()),
            pa.array([latest_ms] * shards, pa.int64()),
            pa.array([wall_ms] * shards, pa.int64()),
            pa.nulls(shards, pa.binary()),
        ],
        schema=_TAKEN,
    )


def _wall_ms(table: pa.Table) -> tuple[int, pa.Table]:
    """Take the time of the batch out of its rows; 0 where it is not asked for."""
    if WALL not in table.column_names:
        return 0, table
    return table.column(WALL)[0].as_py(), table.drop_columns([WALL])


def _row(label: int, kind: int, part: Any, time_column: str | None = None) -> Row:
    row: Row = {"shard": label, "kind": kind, "body": parcels.seal(kind, part).to_pybytes()}
    if time_column is not None:
        times_ms = part.column(time_column).to_numpy()
        row |= {"least_ms": int(times_ms.min()), "most_ms": int(times_ms.max())}
    return row
