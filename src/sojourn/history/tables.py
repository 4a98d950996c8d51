"""The tables of a history: their columns, and rows on their way from the journal to a file.

    operations  id, submitted_ms, timeout_ms, requires, needed  class, payload, traceparent
    signals     key, offset, at_ms
    cancels     id, at_ms
    outcomes    id, status, at_ms, by_key, waited_ms,           number, told_ms, class
                submitted_ms, timeout_ms
    forgotten   key, at_ms

The columns on the left are those of `sojourn.replay`; the others pass through it. A payload that
is bytes is in `payload_bytes`, any other in `payload`, as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sojourn.durable import JournalBatch, Operation
from sojourn.durable.submissions import read_submission

OPERATIONS, SIGNALS, CANCELS = "operations", "signals", "cancels"
OUTCOMES, FORGOTTEN = "outcomes", "forgotten"

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

REQUIREMENT = pa.struct([("key", pa.string()), ("offset", pa.int64())])

SCHEMAS = {
    OPERATIONS: pa.schema(
        [
            ("id", pa.string()),
            ("submitted_ms", pa.int64()),
            ("timeout_ms", pa.int64()),
            ("requires", pa.list_(REQUIREMENT)),
            ("needed", pa.int32()),
            ("class", pa.string()),
            ("payload", pa.string()),
            ("payload_bytes", pa.binary()),
            ("traceparent", pa.string()),
        ]
    ),
    SIGNALS: pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())]),
    CANCELS: pa.schema([("id", pa.string()), ("at_ms", pa.int64())]),
    OUTCOMES: pa.schema(
        [
            ("id", pa.string()),
            ("status", pa.string()),
            ("at_ms", pa.int64()),
            ("by_key", pa.string()),
            ("waited_ms", pa.int64()),
            ("number", pa.int64()),
            ("submitted_ms", pa.int64()),
            ("told_ms", pa.int64()),
            ("class", pa.string()),
            ("timeout_ms", pa.int64()),
        ]
    ),
    FORGOTTEN: pa.schema([("key", pa.string()), ("at_ms", pa.int64())]),
}
TABLES = tuple(SCHEMAS)

# The column that says when a row was taken or told: the time of its batch.
TIME = {
    OPERATIONS: "submitted_ms",
    SIGNALS: "at_ms",
    CANCELS: "at_ms",
    OUTCOMES: "told_ms",
    FORGOTTEN: "at_ms",
}


class RowBuffer:
    """The rows of some batches, by column, until they are made tables."""

    def __init__(self) -> None:
        self._columns: dict[str, list[list[Any]]] = {
            name: [[] for _ in schema] for name, schema in SCHEMAS.items()
        }
        self._counts: list[int] = [0]  # where each operation's requirements begin
        self._keys: list[str] = []
        self._offsets: list[int] = []
        self.payload_bytes = 0

    def __len__(self) -> int:
        return sum(len(columns[0]) for columns in self._columns.values())

    def add(self, batch: JournalBatch) -> None:
        """Take in a batch."""
        time_ms = batch.time_ms
        columns = self._columns
        if batch.signals:
            keys, offsets, at = columns[SIGNALS]
            keys += [signal[0] for signal in batch.signals]
            offsets += [signal[1] for signal in batch.signals]
            at += [time_ms] * len(batch.signals)
        if batch.operations:
            self._add_operations(batch.operations)
        if batch.outcomes:
            self._add_outcomes(batch.outcomes, time_ms)
        if batch.forgotten:
            keys, at = columns[FORGOTTEN]
            keys += batch.forgotten
            at += [time_ms] * len(batch.forgotten)

    def _add_operations(self, operations: Sequence[Operation]) -> None:
        ids, submitted, timeouts, _, needed, classes, payloads, blobs, traces = self._columns[
            OPERATIONS
        ]
        counts, keys, offsets = self._counts, self._keys, self._offsets
        for operation in operations:
            submission = read_submission(operation.content)  # all of it at once
            ids.append(submission.id)
            timeouts.append(submission.timeout_ms)
            needed.append(submission.needed)
            keys += submission.requires[::2]
            offsets += submission.requires[1::2]
            counts.append(len(keys))
        submitted += [operation.submitted_ms for operation in operations]
        classes += [operation.class_ for operation in operations]
        traces += [operation.traceparent for operation in operations]
        for payload in [operation.payload for operation in operations]:
            text = blob = None
            if payload is not None:
                if isinstance(payload, bytes):
                    blob = payload
                    self.payload_bytes += len(blob)
                else:
                    text = _json(payload)
                    self.payload_bytes += len(text)
            payloads.append(text)
            blobs.append(blob)

    def _add_outcomes(self, outcomes: Sequence[Operation], told_ms: int) -> None:
        (ids, statuses, at, by_keys, waited, numbers, submitted, told, classes, timeouts) = (
            self._columns[OUTCOMES]
        )
        ids += [outcome.id for outcome in outcomes]
        statuses += [outcome.status for outcome in outcomes]
        at += [outcome.at_ms for outcome in outcomes]
        by_keys += [outcome.by_key for outcome in outcomes]
        waited += [outcome.waited_ms for outcome in outcomes]
        numbers += [outcome.number for outcome in outcomes]
        submitted += [outcome.submitted_ms for outcome in outcomes]
        told += [told_ms] * len(outcomes)
        classes += [outcome.class_ for outcome in outcomes]
        timeouts += [outcome.timeout_ms for outcome in outcomes]
        cancelled = [outcome for outcome in outcomes if outcome.status == "cancelled"]
        ids, at = self._columns[CANCELS]
        ids += [outcome.id for outcome in cancelled]
        at += [outcome.at_ms for outcome in cancelled]

    def tables(self) -> dict[str, pa.Table]:
        """The rows as tables, by name."""
        tables = {}
        for name, schema in SCHEMAS.items():
            arrays = []
            for field, values in zip(schema, self._columns[name], strict=True):
                if field.name == "requires":
                    arrays.append(self._requires())
                else:
                    arrays.append(pa.array(values, field.type))
            tables[name] = pa.table(arrays, schema=schema)
        return tables

    def _requires(self) -> pa.Array:
        items = pa.StructArray.from_arrays(
            [pa.array(self._keys, pa.string()), pa.array(self._offsets, pa.int64())],
            fields=list(REQUIREMENT),
        )
        return pa.ListArray.from_arrays(pa.array(self._counts, pa.int32()), items)
