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
        ("body", pa.binary()),
        ("moment", pa.timestamp("us", "UTC")),
    ]
)
BUNDLES_DDL = "shard int, kind byte, least_ms long, most_ms long, body binary, moment timestamp"
_MOST_MOMENT_MS = (2**63 - 1) // 1000  # Spark's timestamps are microseconds

Row = dict[str, Any]


@dataclass(frozen=True)
class Intake:
    """Turns the rows of one table into bundles; called by `mapInArrow`."""

    table: str
    shards: int
    columns: bytes = b""  # of operations: the schema of what the payload carries

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        take = {
            rows.OPERATIONS: self._operations,
            rows.SIGNALS: self._signals,
            rows.CANCELS: self._cancels,
        }[self.table]
        latest_ms: int | None = None
        for round_number, table in enumerate(gathered(batches)):
            out: list[Row] = []
            rejected, piece_latest_ms = take(table, out)
            if piece_latest_ms is not None:
                latest_ms = later(latest_ms, piece_latest_ms)
            if len(rejected):
                shard = (round_number + len(rejected)) % self.shards
                batch = rejected.combine_chunks().to_batches()[0]
                out.append(_bundle(shard, bundles.REJECTED, batch, None))
            yield pa.RecordBatch.from_pylist(out, BUNDLES)
        yield ticks(self.shards, latest_ms)

    def _operations(self, table: pa.Table, out: list[Row]) -> tuple[pa.Table, int | None]:
        clean = rows.check_operations(table)
        if not len(clean):
            return clean.rejected, None
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
        return clean.rejected, int(clean.submitted_ms.max())

    def _signals(self, table: pa.Table, out: list[Row]) -> tuple[pa.Table, int | None]:
        clean = rows.check_signals(table)
        if not len(clean):
            return clean.rejected, None
        batch = pa.record_batch(
            [clean.keys, clean.offsets, clean.at_ms], schema=bundles.SCHEMAS[bundles.SIGNALS]
        )
        shard = shard_of(hashes(clean.keys), self.shards)
        self._send(out, bundles.SIGNALS, batch, shard, "at_ms")
        return clean.rejected, int(clean.at_ms.max())

    def _cancels(self, table: pa.Table, out: list[Row]) -> tuple[pa.Table, int | None]:
        clean = rows.check_cancels(table)
        if not len(clean):
            return clean.rejected, None
        batch = pa.record_batch([clean.ids, clean.at_ms], schema=bundles.SCHEMAS[bundles.CANCELS])
        shard = shard_of(hashes(clean.ids), self.shards)
        self._send(out, bundles.CANCELS, batch, shard, "at_ms")
        return clean.rejected, int(clean.at_ms.max())

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
        if sum(batch.num_rows for batch in batches):
            yield ticks(self.shards, None)


def ticks(shards: int, latest_ms: int | None) -> pa.RecordBatch:
    """Return a bundle without rows for every shard.

    They carry the time that moves Spark's watermark: that of the latest row of the partition.
    """
    moment_us = 0  # the epoch moves nothing: a watermark starts there
    if latest_ms is not None:
        moment_us = 1000 * min(max(latest_ms, 0), _MOST_MOMENT_MS)
    return pa.record_batch(
        [
            pa.array(range(shards), pa.int32()),
            pa.array([bundles.TICK] * shards, pa.int8()),
            pa.array([None] * shards, pa.int64()),
            pa.array([latest_ms] * shards, pa.int64()),
            pa.array([None] * shards, pa.binary()),
            pa.array([moment_us] * shards, pa.timestamp("us", "UTC")),
        ],
        schema=BUNDLES,
    )


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
        "body": bundles.seal(batch),
        "moment": 0,
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
