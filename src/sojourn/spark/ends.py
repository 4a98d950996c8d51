"""The ends: outcomes and rejected rows, in parcels as the second stage gives them, and unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sojourn.replay import schemas
from sojourn.replay.arrays import one_piece
from sojourn.spark import parcels
from sojourn.spark.ddl import ddl
from sojourn.spark.payload import PayloadFormat
from sojourn.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Ends:
    """What the second stage gives: outcomes and rejected rows, still in parcels."""

    parcels: DataFrame
    columns: bytes
    operations: StructType  # as they came

    def rows(self, batch: DataFrame) -> DataFrame:
        """Return outcomes and rejected rows of a batch of the parcels."""
        return self._unpacked(batch, (parcels.ENDED, parcels.REJECTED))

    def outcomes(self, batch: DataFrame) -> DataFrame:
        """Return the outcomes of a batch of the parcels."""
        return self._unpacked(batch, (parcels.ENDED,))

    def rejected(self, batch: DataFrame) -> DataFrame:
        """Return the rejected rows of a batch of the parcels."""
        return self._unpacked(batch, (parcels.REJECTED,))

    def _unpacked(self, batch: DataFrame, kinds: tuple[int, ...]) -> DataFrame:
        columns = []
        if parcels.ENDED in kinds:
            names = pa.ipc.read_schema(pa.py_buffer(self.columns)).names
            types = {field.name: field.dataType.simpleString() for field in self.operations}
            columns = [ddl(schemas.STREAM_OUTCOMES)]
            columns += [f"`{n.replace('`', '``')}` {types[n]}" for n in names if n != "needed"]
        if parcels.REJECTED in kinds:
            columns.append(ddl(schemas.REJECTED))
        return batch.mapInArrow(Unpack(self.columns, kinds), ", ".join(columns))


@dataclass(frozen=True)
class Unpack:
    """Turns parcels of these kinds into rows, passing others over; called by `mapInArrow`.

    Of outcomes and rejected rows together, each has nulls in the columns of the other, and the
    status of a rejected row is "rejected".
    """

    columns: bytes
    kinds: tuple[int, ...] = (parcels.ENDED, parcels.REJECTED)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        form = PayloadFormat(pa.ipc.read_schema(pa.py_buffer(self.columns)))
        schema = self._schema(form)
        for batch in batches:
            kinds, bodies = batch.column("kind").to_pylist(), batch.column("body").to_pylist()
            for kind, body in zip(kinds, bodies, strict=True):
                if kind in self.kinds:
                    columns = _unpacked(kind, parcels.unseal_batch(kind, body), form)
                    count = len(next(iter(columns.values())))
                    arrays = [columns.get(f.name, pa.nulls(count, f.type)) for f in schema]
                    yield pa.record_batch(arrays, schema=schema)

    def _schema(self, form: PayloadFormat) -> pa.Schema:
        fields: list[pa.Field] = []
        if parcels.ENDED in self.kinds:
            fields += [*schemas.STREAM_OUTCOMES, *(f for f in form.columns if f.name != "needed")]
        if parcels.REJECTED in self.kinds:
            fields += schemas.REJECTED
        return pa.schema(fields)


def _unpacked(kind: int, batch: pa.RecordBatch, form: PayloadFormat) -> dict[str, pa.Array]:
    """Return the columns of outcomes, with those that their payloads carry, or of rejected rows."""
    if kind == parcels.REJECTED:
        status = pa.repeat(pa.scalar("rejected"), len(batch))
        return {"status": status, **dict(zip(batch.schema.names, batch.columns, strict=True))}
    columns = {name: batch.column(name) for name in schemas.STREAM_OUTCOMES.names}
    carried = form.decode(batch.column("payload"))
    return columns | {name: one_piece(carried.column(name)) for name in carried.column_names}
