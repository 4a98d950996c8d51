"""The answers: the rows that a batch job returns, outcomes, pending and rejected, in one schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from sojourn.replay import rows, schemas
from sojourn.replay.endings import PENDING, STATUS, Endings
from sojourn.spark.session import quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql import Column

OUTCOME = "outcome"
REJECTED = "rejected"
PENDING_KIND = "pending"

_ENDED = from_arrow_schema(schemas.OUTCOMES).fields
_REJECTED = from_arrow_schema(schemas.REJECTED).fields
_WAITING = [f for f in from_arrow_schema(schemas.OPERATIONS) if f.name in ("requires", "needed")]

# Rows go back to the JVM in pieces of this many, or fewer if they are large.
_PIECE_ROWS = 1 << 16


def spark_schema(extras: list[StructField], *, may_wait: bool = True) -> StructType:
    """Every column that one of the three results has; extras apart, whatever their names.

    What only pending ones have is left out where there cannot be any.
    """
    fields = [StructField("kind", StringType()), *_ENDED, *_REJECTED]
    if may_wait:
        fields += _WAITING
    if extras:
        passed_on = [StructField(f.name, f.dataType, True, f.metadata) for f in extras]
        fields.append(StructField("extras", StructType(passed_on)))
    return StructType(fields)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same in Arrow."""
    with quiet_pyspark():
        return to_arrow_schema(schema, timezone="UTC")


def nothing(name: str) -> Column:
    """A column that was left out."""
    kinds = {field.name: field.dataType for field in _WAITING}
    return sf.lit(None).cast(kinds[name]).alias(name)


@dataclass(frozen=True, slots=True)
class Answers:
    """Makes the rows, as Arrow; `schema` is that of `spark_schema`."""

    schema: pa.Schema

    def rejected(self, rejected: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of a table as `rows.reject` makes it."""
        columns = dict(zip(rows.REJECTED.names, rejected.columns, strict=True))
        columns["kind"] = pa.repeat(pa.scalar(REJECTED), len(rejected))
        yield from self._pieces(columns, len(rejected))

    def ended(self, operations: rows.CleanOperations, endings: Endings) -> Iterator[pa.RecordBatch]:
        """A row for each operation."""
        ended = endings.status != PENDING
        nothing = ~ended
        columns = {
            "kind": pa.array([PENDING_KIND, OUTCOME]).take(pa.array(ended.astype(np.int8))),
            "id": operations.ids,
            "status": pa.array([None, *STATUS[1:]]).take(pa.array(endings.status)),
            "at_ms": pa.array(endings.at_ms, mask=nothing),
            "by_key": operations.keys.take(pa.array(endings.by, mask=endings.by < 0)),
            "waited_ms": pa.array(endings.at_ms - operations.submitted_ms, mask=nothing),
            "condition_ms": pa.array(endings.condition_ms, mask=~endings.has_condition),
            "submitted_ms": pa.array(operations.submitted_ms),
            "timeout_ms": pa.array(operations.timeout_ms),
        }
        if "requires" in self.schema.names:
            columns |= _waiting(operations, nothing)
        if "extras" in self.schema.names:
            columns["extras"] = operations.extras
        yield from self._pieces(columns, len(operations))

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


class Kind(NamedTuple):
    """One of the three results: its folder and its columns."""

    folder: str
    columns: tuple[str, ...]
    has_extras: bool = True

    def table(self, batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        """Its columns, of rows that are all of this kind."""
        whole = pa.Table.from_batches(batches, schema)
        for name in self.columns:
            if name not in schema.names:  # left out, where nothing can be pending
                kind = schemas.OPERATIONS.field(name)
                whole = whole.append_column(kind, pa.nulls(len(whole), kind.type))
        table = whole.select(self.columns)
        if self.has_extras and "extras" in schema.names:
            for n, field in enumerate(schema.field("extras").type):
                table = table.append_column(field, pc.struct_field(whole["extras"], n))
        return table


KINDS = {
    OUTCOME: Kind("outcomes", rows.OUTCOME_COLUMNS),
    PENDING_KIND: Kind("pending", rows.OPERATION_COLUMNS),
    REJECTED: Kind("rejected", tuple(rows.REJECTED.names), has_extras=False),
}


def _waiting(operations: rows.CleanOperations, pending: Any) -> dict[str, pa.Array]:
    """The columns with which pending operations can be submitted again; null for the others."""
    order = pa.array(np.where(pending, np.cumsum(pending) - 1, 0), mask=~pending)
    waiting = operations.keep(pending)
    requires, needed = waiting.requires(), pa.array(waiting.needed)
    return {"requires": requires.take(order), "needed": needed.take(order)}


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
        if pa.types.is_large_string(piece.type):
            # Arrow goes by where in the whole column the piece is, so it has to be a copy.
            piece = piece.take(pa.array(np.arange(count)))
        piece = piece.cast(kind)
    if isinstance(piece, pa.ChunkedArray):
        piece = piece.chunk(0) if piece.num_chunks == 1 else pa.concat_arrays(piece.chunks)
    return piece
