"""Sources: folders of files and Kafka topics, as the DataFrames that `resolve_stream` takes.

Lines of JSON files and values of Kafka messages are parsed in the same way, by the columns of their
table. Text that does not fit is kept in the column `_corrupt_record`, which `resolve_stream` turns
into a rejected row. So no input is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.errors import BadTable, OutOfRange, SojournError
from sojourn.replay import rows
from sojourn.replay.columns import Columns
from sojourn.replay.formats import NOT_UNICODE
from sojourn.replay.rows import CORRUPT, CORRUPT_REASON
from sojourn.spark.columns import apply_columns
from sojourn.spark.ddl import ddl
from sojourn.spark.session import quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"

_TEXT = "_sojourn_text"

_COLUMNS = {name: ddl(schema) for name, schema in rows.TABLES.items()}
_COLUMNS[rows.OPERATIONS] = _COLUMNS[rows.OPERATIONS].replace("needed long", "needed int")
# In JSON a number may be text, and a time a number or text: what it means, rows.py says.
_REQUIRES = "array<struct<key: string, offset: string>>"


def read_files(
    spark: SparkSession,
    format: str,
    path: str,
    table: str,
    *,
    extras: str = "",
    files_per_batch: int | None = None,
    columns: Columns | None = None,
) -> DataFrame:
    """Read a folder as it fills: `format` is "parquet" or "json" (an object a line).

    `table` is "operations", "signals" or "cancels"; `extras` are further columns of it as in SQL,
    e.g. "shop string, amount decimal(10, 2)". Parquet files that are there already tell the columns
    by themselves. Files must appear whole, by a rename. A damaged Parquet file stops the query with
    an error that names it; a damaged line of JSON becomes a rejected row. `columns` says where our
    columns come from, as `as_operations` and its siblings make it.
    """
    schema = _columns(table, extras)
    reader = spark.readStream
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    if format == "json":
        return parse_json(reader.text(path), table, extras=extras, columns=columns)
    if format != "parquet":
        raise OutOfRange(f'format must be "parquet" or "json", got {format!r}')
    if not extras or not is_plain(columns):
        schema = _columns_of_files(spark, path) or schema
    return _mapped(reader.schema(schema).parquet(path), columns)


def from_kafka(
    spark: SparkSession,
    servers: str,
    topic: str,
    table: str,
    *,
    extras: str = "",
    starting: str = "earliest",
    options: dict[str, str] | None = None,
    columns: Columns | None = None,
) -> DataFrame:
    """Read a topic whose values are JSON objects, one row each.

    The session needs Spark's Kafka connector: `spark.jars.packages` set to `KAFKA_PACKAGE` when it
    is started. `options` go to the connector as they are, e.g. "kafka.security.protocol". `columns`
    says where our columns come from.
    """
    reader = spark.readStream.format("kafka").options(**(options or {}))
    reader = reader.option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    reader = reader.option("startingOffsets", starting)
    try:
        messages = reader.load()
    except Exception as error:
        raise _without_connector(error) from error
    return parse_json(messages, table, extras=extras, columns=columns)


def parse_json(
    messages: DataFrame, table: str, *, extras: str = "", columns: Columns | None = None
) -> DataFrame:
    """Turn a column `value` of JSON texts, or bytes of them, into the columns of a table.

    Values of ours are text, as they stand in the JSON. What does not fit the columns comes out in
    `_corrupt_record`, the other columns null. Empty lines are passed over; a message without a
    value, as Kafka has it for deletions, is an empty line too.
    """
    from pyspark.sql import functions as F

    _columns(table, extras)
    names = (columns or Columns(table)).reads()
    texts = (f"`{n}` {_REQUIRES if n == 'requires' else 'string'}" for n in names)
    schema = ", ".join([*texts, *([extras] if extras else []), f"{CORRUPT} string"])
    with quiet_pyspark():
        lines = messages.select(F.col("value").cast("string").alias(_TEXT))
        lines = lines.where(F.trim(_TEXT) != "")
        how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        parsed = lines.select(_TEXT, F.from_json(_TEXT, schema, how).alias("row"))
        parsed = parsed.select(_TEXT, "row.*")
        # Bytes that are no UTF-8 can still look like JSON to Spark, and end up in a key.
        broken = F.when(F.is_valid_utf8(_TEXT), F.col(CORRUPT))
        broken = broken.otherwise(F.make_valid_utf8(_TEXT))
        why = F.when(F.col(CORRUPT).isNull(), None).otherwise(
            F.when(F.is_valid_utf8(_TEXT), rows.BROKEN).otherwise(NOT_UNICODE)
        )
        parsed = parsed.withColumn(CORRUPT, broken).withColumn(CORRUPT_REASON, why).drop(_TEXT)
        return _mapped(parsed, columns)


def is_plain(columns: Columns | None) -> bool:
    """Say whether our columns are there by name."""
    return columns is None or columns == Columns(columns.table)


def _mapped(df: DataFrame, columns: Columns | None) -> DataFrame:
    return df if columns is None or is_plain(columns) else apply_columns(columns, df)


def _columns(table: str, extras: str) -> str:
    if table not in _COLUMNS:
        raise OutOfRange(f"table must be one of {', '.join(_COLUMNS)}, got {table!r}")
    if extras and table != rows.OPERATIONS:
        raise BadTable(
            f"{table} have no extra columns, got {extras!r}; only operations pass them on"
        )
    return _COLUMNS[table] + (f", {extras}" if extras else "")


def _columns_of_files(spark: SparkSession, path: str) -> str | None:
    """Return the columns of the Parquet files that are there, if any."""
    from pyspark.errors import AnalysisException

    try:
        schema = spark.read.parquet(path).schema
    except AnalysisException:  # no folder yet, or nothing in it
        return None
    return schema.toDDL()


def _without_connector(error: Exception) -> SojournError:
    if "kafka" in str(error).lower() and "find" in str(error).lower():
        return SojournError(
            "this session has no Kafka connector; start it with spark.jars.packages set to "
            f"{KAFKA_PACKAGE} (it comes from Maven Central), or put its jars on the class path"
        )
    return SojournError(f"Kafka cannot be read: {error}")
