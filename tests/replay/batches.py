"""Batches of rows for either side of the engine, and what a side holds, out of its snapshot."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sojourn.replay import journal, progress, waiting
from sojourn.replay.progress import Progress
from sojourn.replay.schemas import CANCELS, CANDIDATES, REQUIREMENTS, SIGNALS, SUBMISSIONS
from sojourn.replay.waiting import Waiting

TAG = 7
LEAST_MS, MOST_MS = -(2**63), 2**63 - 1


def batch(schema: pa.Schema, rows: Any) -> pa.RecordBatch:
    """Return rows, each of them its columns in order, as a batch."""
    return pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema
    )


def requirements(*rows: tuple[str, str, int, int, int]) -> pa.RecordBatch:
    """Id, key, offset, submitted_ms and deadline_ms; the first and only one of each operation."""
    return batch(REQUIREMENTS, ((id, TAG, 0, *rest) for id, *rest in rows))


def signals(*rows: tuple[str, int, int]) -> pa.RecordBatch:
    """Key, offset and at_ms."""
    return batch(SIGNALS, rows)


def submissions(*rows: tuple[str, int, int], needed: int = 1, count: int = 1) -> pa.RecordBatch:
    """Id, submitted_ms and deadline_ms, all with so many requirements."""
    return batch(SUBMISSIONS, ((id, TAG, *times, needed, count, b"") for id, *times in rows))


def candidates(*rows: tuple[str, int, str, int]) -> pa.RecordBatch:
    """Id, index, key and moment_ms."""
    return batch(CANDIDATES, ((id, TAG, *rest) for id, *rest in rows))


def cancels(*rows: tuple[str, int]) -> pa.RecordBatch:
    """Id and at_ms."""
    return batch(CANCELS, rows)


def held(side: Progress | Waiting) -> list[list[tuple[Any, ...]]]:
    """Return what a snapshot of the side holds.

    Of the key side: keys with what they reached and when they were busy, signals ahead,
    requirements. Of the id side: operations, candidates, cancels ahead, ids that have ended.
    """
    module = progress if isinstance(side, Progress) else waiting
    _, parts = journal.unpack(module.SNAPSHOT, side.snapshot(), module.SNAPSHOT_SCHEMAS)
    return [[tuple(row.values()) for row in part.to_pylist()] for part in parts]
