"""The intake: rows as users have them go in, bundles for the shards come out.

Runs in Spark's Python workers, a partition of a table at a time. Rows that mean nothing become
rejected ones; the others are laid out for the engines and sent to the shard of their key or id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.replay import rows
from sojourn.spark import bundles
from sojourn.spark.hashing import Hashes, hashes, mixed, shard_of
from sojourn.spark.pace import later
from sojourn.spark.parcels import gathered
from sojourn.spark.payload import PayloadFormat, pack_requirements

BUNDLES = pa.schema(
    [
        ("shard", pa.int32()),
        ("kind", pa.int8()),
        ("least_ms", pa.int64()),
        ("most_ms", pa.int64()),
        ("wall_ms", pa.int64()),
        ("body", pa.binary()),
    ]
)
BUNDLES_DDL = "shard int, kind byte, least_ms long, most_ms long, wall_ms long, body binary"

WALL = "_sojourn_wall_ms"  # a column with the time on the wall that Spark wrote down for the batch

Row = dict[str, Any]

_KIND = {
    rows.OPERATIONS: bundles.OPERATIONS,
    rows.SIGNALS: bundles.SIGNALS,
    rows.CANCELS: bundles.CANCELS,
}


@dataclass(frozen=True)
class Intake:
    """Turns the rows of one table into bundles; called by `mapInArrow`."""

    table: str
    shards: int
    columns: bytes = b""  # of operations: the schema of what the payload carries
    ahead_ms: int | None = None  # how far beyond the wall clock a row may be; None: as far as any

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        take = {
            rows.OPERATIONS: self._operations,
            rows.SIGNALS: self._signals,
            rows.CANCELS: self._cancels,
        }[self.table]
        latest_ms: int | None = None
        wall_ms: int | None = None
        for round_number, table in enumerate(gathered(batches)):
            out: list[Row] = []
            wall_ms, table = _wall_ms(table)
            rejected, piece_latest_ms = take(table, self._limit_ms(wall_ms), out)
            if piece_latest_ms is not None:
                latest_ms = later(latest_ms, piece_latest_ms)
            if len(rejected):
                shard = (round_number + len(rejected)) % self.shards
                batch = rejected.combine_chunks().to_batches()[0]
                out.append(_bundle(shard, bundles.REJECTED, batch, None))
            yield pa.RecordBatch.from_pylist(out, BUNDLES)
        if wall_ms is not None:  # there were rows
            yield ticks(self.shards, _KIND[self.table], latest_ms, wall_ms)

    def _limit_ms(self, wall_ms: int) -> int:
        return rows.MOST if self.ahead_ms is None else wall_ms + self.ahead_ms

    def _come(
        self, table: pa.Table, clean: Any, times_ms: Any, limit_ms: int
    ) -> tuple[Any, pa.Table]:
        """Say which rows are not from the future, None if all; return all that are rejected."""
        come = times_ms <= limit_ms
        if come.all():
            return None, clean.rejected
        reason = f"from the future: its time is more than {self.ahead_ms} ms after it arrived"
        numbers = clean.numbers[~come]
        return come, pa.concat_tables(
            [clean.rejected, rows.reject(table, self.table, numbers, reason)]
        )

    def _operations(
        self, table: pa.Table, limit_ms: int, out: list[Row]
    ) -> tuple[pa.Table, int | None]:
        clean = rows.check_operations(table)
        come, rejected = self._come(table, clean, clean.submitted_ms, limit_ms)
        if come is not None:
            clean = clean.keep(come)
        if not len(clean):
            return rejected, None
        counts = np.diff(clean.starts)
        deadline_ms = clean.submitted_ms + clean.timeout_ms
        key_hashes = hashes(clean.keys)
        tags = _tags(clean, key_hashes, counts)
        id_shards = shard_of(hashes(clean.ids), self.shards)
        form = PayloadFormat(pa.ipc.read_schema(pa.py_buffer(self.columns)))
        carried = table.select(form.columns.names)
        if len(clean) < len(table):
            carried = carried.take(pa.array(clean.numbers))
        payload = form.encode(carried, pack_requirements(clean.keys, clean.offsets, clean.starts))
        batch = pa.record_batch(
            [
                clean.ids,
                tags,
                clean.submitted_ms,
                deadline_ms,
                clean.needed.astype(np.int32),
                counts.astype(np.int32),
                payload,
            ],
            schema=bundles.SCHEMAS[bundles.OPERATIONS],
        )
        self._send(out, bundles.OPERATIONS, batch, id_shards, "submitted_ms")
        owners = np.repeat(np.arange(len(clean)), counts)
        requirements = pa.record_batch(
            [
                clean.ids.take(pa.array(owners)),
                tags[owners],
                (np.arange(len(owners)) - np.repeat(clean.starts[:-1], counts)).astype(np.int32),
                clean.keys,
                clean.offsets,
                clean.submitted_ms[owners],
                deadline_ms[owners],
            ],
            schema=bundles.SCHEMAS[bundles.REQUIREMENTS],
        )
        key_shards = shard_of(key_hashes, self.shards)
        self._send(out, bundles.REQUIREMENTS, requirements, key_shards, "submitted_ms")
        return rejected, int(clean.submitted_ms.max())

    def _signals(
        self, table: pa.Table, limit_ms: int, out: list[Row]
    ) -> tuple[pa.Table, int | None]:
        clean = rows.check_signals(table)
        come, rejected = self._come(table, clean, clean.at_ms, limit_ms)
        batch = pa.record_batch(
            [clean.keys, clean.offsets, clean.at_ms], schema=bundles.SCHEMAS[bundles.SIGNALS]
        )
        return rejected, self._send_by(out, bundles.SIGNALS, "key", batch, come)

    def _cancels(
        self, table: pa.Table, limit_ms: int, out: list[Row]
    ) -> tuple[pa.Table, int | None]:
        clean = rows.check_cancels(table)
        come, rejected = self._come(table, clean, clean.at_ms, limit_ms)
        batch = pa.record_batch([clean.ids, clean.at_ms], schema=bundles.SCHEMAS[bundles.CANCELS])
        return rejected, self._send_by(out, bundles.CANCELS, "id", batch, come)

    def _send_by(
        self, out: list[Row], kind: int, name: str, batch: pa.RecordBatch, come: Any
    ) -> int | None:
        """Send the rows that have come to the shard of their key or id; return the latest time."""
        if come is not None:
            batch = batch.filter(pa.array(come))
        if not batch.num_rows:
            return None
        shard = shard_of(hashes(batch.column(name)), self.shards)
        self._send(out, kind, batch, shard, "at_ms")
        return int(batch.column("at_ms").to_numpy().max())

    def _send(
        self, out: list[Row], kind: int, batch: pa.RecordBatch, shard: Any, time_column: str
    ) -> None:
        for n, part in bundles.split(batch, shard, self.shards):
            out.append(_bundle(n, kind, part, time_column))


@dataclass(frozen=True)
class Heartbeat:
    """Turns whatever rows arrive into one tick for every shard; called by `mapInArrow`."""

    shards: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        walls = [_wall_ms(pa.Table.from_batches([b]))[0] for b in batches if b.num_rows]
        if walls:
            yield ticks(self.shards, bundles.TICK, None, walls[0])


def ticks(shards: int, kind: int, latest_ms: int | None, wall_ms: int) -> pa.RecordBatch:
    """Return a bundle without a body for every shard: the latest time of a partition's rows."""
    return pa.record_batch(
        [
            pa.array(range(shards), pa.int32()),
            pa.array([kind] * shards, pa.int8()),
            pa.nulls(shards, pa.int64()),
            pa.array([latest_ms] * shards, pa.int64()),
            pa.array([wall_ms] * shards, pa.int64()),
            pa.nulls(shards, pa.binary()),
        ],
        schema=BUNDLES,
    )


def _wall_ms(table: pa.Table) -> tuple[int, pa.Table]:
    """Take the time of the batch out of its rows; 0 where it is not asked for."""
    if WALL not in table.column_names:
        return 0, table
    return table.column(WALL)[0].as_py(), table.drop_columns([WALL])


def _bundle(shard: int, kind: int, batch: pa.RecordBatch, time_column: str | None) -> Row:
    least_ms = most_ms = None
    if time_column is not None:
        times = batch.column(time_column).to_numpy()
        least_ms, most_ms = int(times.min()), int(times.max())
    return {
        "shard": shard,
        "kind": kind,
        "least_ms": least_ms,
        "most_ms": most_ms,
        "wall_ms": None,
        "body": bundles.seal(batch),
    }


def _tags(clean: rows.CleanOperations, key_hashes: Hashes, counts: Any) -> Any:
    """Tell operations of one id apart by what they wait for and how long.

    From the row alone: a task that runs again must come to the same tags.
    """
    place = np.arange(len(key_hashes)) - np.repeat(clean.starts[:-1], counts)
    each = mixed(key_hashes ^ mixed(clean.offsets.view(np.uint64) + place.astype(np.uint64)))
    tags: Hashes = np.add.reduceat(each, clean.starts[:-1])
    tags = mixed(tags ^ clean.submitted_ms.view(np.uint64))
    tags = mixed(tags ^ clean.timeout_ms.view(np.uint64))
    return mixed(tags ^ clean.needed.view(np.uint64)).view(np.int64)
