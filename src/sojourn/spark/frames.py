"""The frames: the tables of a batch job as DataFrames, and their sizes as Spark knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType

from sojourn.spark.columns import text_of_bytes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Hashes = npt.NDArray[np.int64]

HASHES = pa.schema([("hash", pa.int64())])
# Spark says something like 8 EiB where it does not know.
_UNKNOWN_BYTES = 1 << 50


class Source(Protocol):
    """A table in parts, each of them a task's; `known_bytes` is its size, None if not known."""

    @property
    def session(self) -> SparkSession: ...

    @property
    def known_bytes(self) -> int | None: ...

    def mapped(self, stage: Stage, schema: StructType | str) -> DataFrame:
        """What a stage makes of the rows of each part."""

    def hashed(self, stage: Stage, schema: StructType | str) -> DataFrame:
        """What a stage makes of the hashes of the ids, a column `hash` without nulls."""

    def split(self, hashes: Hashes) -> tuple[Source, Source]:
        """The rows whose ids have none of these hashes, and those whose ids have."""


class Tables(NamedTuple):
    """Operations, signals and cancels."""

    operations: Source
    signals: Source
    cancels: Source | None


@dataclass(frozen=True, slots=True)
class Frame:
    """A DataFrame of Spark's."""

    df: DataFrame  # column n is `column_n`: PySpark's mapInArrow fails on names with a dot
    id: str | None  # which of them is the id
    known_bytes: int | None

    @classmethod
    def of(cls, df: DataFrame) -> Frame:
        names = [f"column_{n}" for n in range(len(df.columns))]
        id = names[df.columns.index("id")] if "id" in df.columns else None
        return cls(df.toDF(*names), id, known_bytes(df))

    @property
    def session(self) -> SparkSession:
        return self.df.sparkSession

    def mapped(self, stage: Stage, schema: StructType | str) -> DataFrame:
        return self.df.mapInArrow(stage, schema)

    def hashed(self, stage: Stage, schema: StructType | str) -> DataFrame:
        ids = self.df.where(sf.col(self._id).isNotNull())
        return ids.select(self._hash().alias("hash")).mapInArrow(stage, schema)

    def split(self, hashes: Hashes) -> tuple[Frame, Frame]:
        some = sf.broadcast(self.session.createDataFrame(pa.table([hashes], schema=HASHES)))
        others, these = (
            Frame(self.df.join(some, self._hash() == some["hash"], how), self.id, None)
            for how in ("left_anti", "left_semi")
        )
        return others, these

    @property
    def _id(self) -> str:
        assert self.id is not None, "signals have no ids"
        return self.id

    def _hash(self) -> Column:
        id = sf.col(self._id)
        is_bytes = isinstance(self.df.schema[self._id].dataType, BinaryType)
        return sf.xxhash64(text_of_bytes(id) if is_bytes else id)


def known_bytes(df: DataFrame) -> int | None:
    """How large Spark thinks it is; None if it cannot say, or is asked from afar."""
    if is_remote(df):
        return None
    plan = df._jdf.queryExecution().optimizedPlan()
    if "MapInArrow" in plan.toString() and "Range (" in plan.toString():
        return None  # a Python function made the rows of numbers, which say nothing of their size
    size = int(str(plan.stats().sizeInBytes()))
    return size if size < _UNKNOWN_BYTES else None


def is_remote(df: DataFrame) -> bool:
    """Whether it belongs to a session of Spark Connect."""
    return getattr(df, "_jdf", None) is None
