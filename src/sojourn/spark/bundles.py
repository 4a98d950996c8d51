"""Bundles: many rows of one kind for one shard, in one row of Spark.

Spark charges by the row: each is converted, hashed, sorted and handed to Python on its own. So rows
travel between the stages as record batches in a binary column, some thousands in one:

    shard | kind    | least_ms, most_ms        | wall_ms        | body
    ------+---------+--------------------------+----------------+--------------------------
      3   | SIGNALS | the times of its rows    |                | a record batch, Arrow IPC
      3   | SIGNALS | the latest of its source | of the batch   | none: it is a tick

Every shard gets a tick for every partition of a source that had rows, so all shards know what time
each source has shown. The heartbeat's ticks are of the kind TICK, and show none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.replay import rows
from sojourn.replay.progress import CANDIDATES as CANDIDATE_ROWS
from sojourn.replay.progress import REQUIREMENTS as REQUIREMENT_ROWS
from sojourn.replay.progress import SIGNALS as SIGNAL_ROWS
from sojourn.replay.waiting import CANCELS as CANCEL_ROWS
from sojourn.replay.waiting import OPERATIONS as OPERATION_ROWS
from sojourn.replay.waiting import OUTCOMES as OUTCOME_ROWS

Shards = npt.NDArray[np.int64]

TICK = 0  # no rows; says to a shard that there is a batch
REQUIREMENTS = 1
SIGNALS = 2
OPERATIONS = 3
CANCELS = 4
CANDIDATES = 5
OUTCOMES = 6
REJECTED = 7
HELD = 8  # no rows; says how much a shard holds

STATUSES = ("completed", "expired", "cancelled", "rejected")  # counted in every bundle of ends
HOLDINGS = ("keys", "ids", "operations")  # counted once for each shard and batch

SCHEMAS: dict[int, pa.Schema] = {
    REQUIREMENTS: REQUIREMENT_ROWS,
    SIGNALS: SIGNAL_ROWS,
    OPERATIONS: OPERATION_ROWS,
    CANCELS: CANCEL_ROWS,
    CANDIDATES: CANDIDATE_ROWS,
    OUTCOMES: OUTCOME_ROWS,
    REJECTED: rows.REJECTED,
}


def split(batch: pa.RecordBatch, shard: Shards, shards: int) -> Iterator[tuple[int, Any]]:
    """Give each shard's rows, in the order they have in the batch."""
    if not len(shard):
        return
    order = np.argsort(shard.astype(np.uint16), kind="stable")
    bounds = np.searchsorted(shard[order], np.arange(shards + 1))
    ordered = batch.take(pa.array(order))
    for n in np.flatnonzero(np.diff(bounds)).tolist():
        yield n, ordered.slice(bounds[n], bounds[n + 1] - bounds[n])


def seal(batch: pa.RecordBatch) -> bytes:
    """Return the rows as bytes."""
    return bytes(batch.serialize())


def unseal(kind: int, body: bytes) -> pa.RecordBatch:
    """Return the rows of a bundle of this kind."""
    return pa.ipc.read_record_batch(pa.py_buffer(body), SCHEMAS[kind])


def joined(kind: int, bodies: list[bytes]) -> pa.RecordBatch | None:
    """Return the rows of several bundles as one batch; None if there are no bundles."""
    if not bodies:
        return None
    if len(bodies) == 1:
        return unseal(kind, bodies[0])
    return pa.concat_batches([unseal(kind, body) for body in bodies])
