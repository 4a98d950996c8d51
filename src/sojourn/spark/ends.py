"""The ends: outcomes and rejected rows, as parcels of the second stage, and unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
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
    shards: int

    def rows(self, batch: DataFrame) -> DataFrame:
        """Return outcomes and rejected rows of a batch of the parcels."""
        return self._unpacked(batch, (parcels.ENDED, parcels.REJECTED))

    def of_kind(self, kind: int, batch: DataFrame) -> DataFrame:
        """Return the rows of one kind of a batch of the parcels."""
        return self._unpacked(batch, (kind,))

    def table(self, kind: int, bodies: list[bytes]) -> pa.Table:
        """Return the rows of parcels of one kind that have come to the driver."""
        unpack = Unpack(self.columns, (kind,))
        packed = pa.record_batch(
            {"kind": [kind] * len(bodies), "body": pa.array(bodies, pa.binary())}
        )
        return pa.Table.from_batches(unpack([packed]), unpack.schema)

    def _unpacked(self, batch: DataFrame, kinds: tuple[int, ...]) -> DataFrame:
        columns = []
        if parcels.ENDED in kinds:
            names = PayloadFormat.of(self.columns).columns.names
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
        for batch in batches:
            kinds, bodies = batch.column("kind").to_pylist(), batch.column("body").to_pylist()
            for kind, body in zip(kinds, bodies, strict=True):
                if kind in self.kinds:
                    rows = parcels.unseal_batch(kind, body)
                    columns = _unpacked(kind, rows, self._form)
                    nulls = {f.name: pa.nulls(len(rows), f.type) for f in self.schema}
                    yield pa.record_batch(nulls | columns, schema=self.schema)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        fields: list[pa.Field] = []
        if parcels.ENDED in self.kinds:
            carried = self._form.columns
            fields += [*schemas.STREAM_OUTCOMES, *(f for f in carried if f.name != "needed")]
        if parcels.REJECTED in self.kinds:
            fields += schemas.REJECTED
        return pa.schema(fields)

    @cached_property
    def _form(self) -> PayloadFormat:
        return PayloadFormat.of(self.columns)


def _unpacked(kind: int, batch: pa.RecordBatch, form: PayloadFormat) -> dict[str, pa.Array]:
    """Return the columns of outcomes, with those that their payloads carry, or of rejected rows."""
    if kind == parcels.REJECTED:
        status = pa.repeat(pa.scalar("rejected"), len(batch))
        return {"status": status, **dict(zip(batch.schema.names, batch.columns, strict=True))}
    columns = {name: batch.column(name) for name in schemas.STREAM_OUTCOMES.names}
    carried = form.decode(batch.column("payload"))
    return columns | {name: one_piece(carried.column(name)) for name in carried.column_names}
