"""Driver files: the driver writes a small batch as a Parquet file, without a Spark job.

For Spark, writing a folder is a job: Spark plans it, its tasks write a file each, and renames
commit them. For the few thousand rows of a live batch that takes longer than the rest of the sink.
Small parcels come to the driver with the batch's numbers anyway. The driver makes a file of them
with Arrow, with the same columns and types as Spark's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

MOST_BYTES = 16 << 20  # of a batch's parcels that come to the driver, if each has its full share

_CODECS = {"snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "none": "none"}
_CODECS["uncompressed"] = "none"


@dataclass(frozen=True)
class DriverFiles:
    """Makes Parquet files as a session's settings have them."""

    codec: str
    old_timestamps: bool  # Spark's default: in 96 bits, as Impala had them

    @classmethod
    def of(cls, spark: SparkSession, columns: DataType) -> DriverFiles | None:
        """Return what makes files of such columns; None if Arrow's would not be like Spark's."""
        codec = _CODECS.get(str(spark.conf.get("spark.sql.parquet.compression.codec")).lower())
        times = spark.conf.get("spark.sql.parquet.outputTimestampType")
        legacy = spark.conf.get("spark.sql.parquet.writeLegacyFormat")
        if codec is None or legacy == "true" or times not in ("INT96", "TIMESTAMP_MICROS"):
            return None
        return cls(codec, times == "INT96") if _is_plain(columns) else None

    def file(self, table: pa.Table) -> bytes:
        """Return the rows as the bytes of a file."""
        sink = pa.BufferOutputStream()
        pq.write_table(
            table,
            sink,
            compression=self.codec,
            use_deprecated_int96_timestamps=self.old_timestamps,
            store_schema=False,  # as in Spark's files: what is in it is told by Parquet's types
        )
        return bytes(sink.getvalue())


def _is_plain(columns: DataType) -> bool:
    """Say whether Arrow and Spark write it alike.

    Not so are times without a zone beside times of 96 bits, intervals, variants and types of users.
    """
    from pyspark.sql import types as T

    parts: list[Any]
    match columns:
        case T.StructType():
            parts = [field.dataType for field in columns]
        case T.ArrayType():
            parts = [columns.elementType]
        case T.MapType():
            parts = [columns.keyType, columns.valueType]
        case _:
            return type(columns) in (
                T.StringType, T.BinaryType, T.BooleanType, T.ByteType, T.ShortType, T.IntegerType,
                T.LongType, T.FloatType, T.DoubleType, T.DecimalType, T.DateType, T.TimestampType,
            )  # fmt: skip
    return all(map(_is_plain, parts))
