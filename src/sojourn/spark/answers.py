"""The answers: the rows that come out of a batch, outcomes, pending and rejected, in one schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sojourn.replay import rows
from sojourn.replay.endings import PENDING, STATUS, Endings

OUTCOME = "outcome"
REJECTED = "rejected"
PENDING_KIND = "pending"

# Rows go back to the JVM in pieces of this many, or fewer if they are large.
_PIECE_ROWS = 1 << 16


def spark_schema(extras: list[StructField]) -> StructType:
    """Every column that one of the three results has; extras apart, whatever their names."""
    text, number = StringType(), LongType()
    fields = [
        StructField("kind", text),
        StructField("id", text),
        StructField("status", text),
        StructField("at_ms", number),
        StructField("by_key", text),
        StructField("waited_ms", number),
        StructField("condition_ms", number),
        StructField("submitted_ms", number),
        StructField("timeout_ms", number),
        StructField("table", text),
        StructField("reason", text),
        StructField("row", text),
    ]
    if extras:
        passed_on = [StructField(f.name, f.dataType, True, f.metadata) for f in extras]
        fields.append(StructField("extras", StructType(passed_on)))
    return StructType(fields)


@dataclass(frozen=True, slots=True)
class Answers:
    """Makes the rows, as Arrow; `schema` is that of `spark_schema`."""

    schema: pa.Schema

    def rejected(self, rejected: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of a table as `rows.reject` makes it."""
        columns = dict(zip(rows.REJECTED.names, rejected.columns, strict=True))
        columns["kind"] = pa.repeat(pa.scalar(REJECTED), len(rejected))
        yield from self._pieces(columns, len(rejected))

    def ended(self, wanted: rows.CleanOperations, endings: Endings) -> Iterator[pa.RecordBatch]:
        """A row for each operation."""
        ended = endings.status != PENDING
        nothing = ~ended
        columns = {
            "kind": pa.array([PENDING_KIND, OUTCOME]).take(pa.array(ended.astype(np.int8))),
            "id": wanted.ids,
            "status": pa.array([None, *STATUS[1:]]).take(pa.array(endings.status)),
            "at_ms": pa.array(endings.at_ms, mask=nothing),
            "by_key": wanted.keys.take(pa.array(endings.by, mask=endings.by < 0)),
            "waited_ms": pa.array(endings.at_ms - wanted.submitted_ms, mask=nothing),
            "condition_ms": pa.array(endings.condition_ms, mask=~endings.has_condition),
            "submitted_ms": pa.array(wanted.submitted_ms),
            "timeout_ms": pa.array(wanted.timeout_ms),
        }
        if "extras" in self.schema.names:
            columns["extras"] = wanted.extras
        yield from self._pieces(columns, len(wanted))

    def _pieces(self, columns: dict[str, Any], count: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, count, _PIECE_ROWS):
            yield from self._piece(columns, start, min(_PIECE_ROWS, count - start))

    def _piece(self, columns: dict[str, Any], start: int, count: int) -> Iterator[pa.RecordBatch]:
        """A partition may have more text than one array of strings can hold, a piece has less."""
        try:
            arrays = [
                _cut(columns[field.name], start, count, field.type)
                if field.name in columns
                else pa.nulls(count, field.type)
                for field in self.schema
            ]
        except pa.ArrowInvalid:
            if count == 1:
                raise
            yield from self._piece(columns, start, count // 2)
            yield from self._piece(columns, start + count // 2, count - count // 2)
        else:
            yield pa.record_batch(arrays, schema=self.schema)


def _cut(column: Any, start: int, count: int, kind: pa.DataType) -> pa.Array:
    """These rows of a column; of a table, as structs."""
    piece = column.slice(start, count)
    if isinstance(piece, pa.Table):
        parts = [
            _cut(part, 0, count, field.type)
            for part, field in zip(piece.columns, kind, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    if piece.type != kind:
        piece = piece.cast(kind)
    if isinstance(piece, pa.ChunkedArray):
        piece = piece.chunk(0) if piece.num_chunks == 1 else pa.concat_arrays(piece.chunks)
    return piece
