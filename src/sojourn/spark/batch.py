"""Resolve DataFrames: operations, signals and cancels in, outcomes out.

The work is done where the data is, in three stages with a shuffle between them; see stages.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from sojourn.errors import OutOfRange, WrongType
from sojourn.replay import rows
from sojourn.replay.local import checked_until_ms
from sojourn.spark import hot_keys, parcels, stages
from sojourn.spark.session import quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Of what Spark knows of the input's size, this much makes a partition; files are smaller than what
# is in them, and a task needs several times that to work.
_PARTITION_BYTES = 16 << 20
# Less than this is done before a sample would be.
_LEAST_BYTES_TO_SAMPLE = 16 << 20
_SAMPLED_SHARE = 0.01
_MOST_PARTITIONS = 60_000
# Spark says something like 8 EiB where it does not know.
_UNKNOWN_BYTES = 1 << 50


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of the operations, and the rows that meant nothing, as DataFrames.

    All three are read from `rows`, which has all of them with a column `kind`: "outcome",
    "pending" or "rejected". Nothing is kept: each action on one of them does the whole work. To use
    several, `persist` first, or write `rows`, partitioned by `kind`, and read that.
    """

    outcomes: DataFrame
    pending: DataFrame
    rejected: DataFrame
    rows: DataFrame

    def persist(self) -> Resolution:
        """Keep the rows once they are computed, in memory or else on disk; return this."""
        self.rows.persist()
        return self

    def unpersist(self) -> None:
        """Let go of the rows that were kept."""
        self.rows.unpersist()

    def __enter__(self) -> Resolution:
        return self.persist()

    def __exit__(self, *_: object) -> None:
        self.unpersist()


def resolve(
    operations_df: DataFrame,
    signals_df: DataFrame,
    cancels_df: DataFrame | None = None,
    until_ms: int | None = None,
    *,
    partitions: int | None = None,
    split_hot_keys: bool = True,
) -> Resolution:
    """Say of every operation how and when it ended: completed, expired or cancelled.

    The same answer as `replay.resolve` gives, in no particular order. With `until_ms` only what
    happened up to then is looked at, and operations that had not ended are pending.

    `partitions` is how many each of the two shuffles makes; by default it follows the size of the
    input, or `spark.sql.shuffle.partitions` where Spark cannot tell that. With `split_hot_keys`
    a sample of the keys is looked at now, which reads the input's keys once; everything else is
    done when the result is used.

    Raises BadTable for a missing column or one of the wrong type, before anything is done.
    """
    until_ms = checked_until_ms(until_ms)
    columns = {
        rows.OPERATIONS: _checked(operations_df, rows.OPERATIONS),
        rows.SIGNALS: _checked(signals_df, rows.SIGNALS),
    }
    if cancels_df is not None:
        columns[rows.CANCELS] = _checked(cancels_df, rows.CANCELS)
    inputs = [operations_df, signals_df]
    size = _known_bytes(inputs)
    partitions = _checked_partitions(partitions) or _partitions(operations_df, size)
    hot = hot_keys.HotKeys()
    if split_hot_keys and partitions > 1 and (size is None or size >= _LEAST_BYTES_TO_SAMPLE):
        hot = hot_keys.hot_keys(_sample(operations_df, signals_df), partitions)
    extras = [f for f in operations_df.schema if f.name not in rows.OPERATION_COLUMNS]
    output = _output_schema(extras)
    job = stages.Job(
        partitions,
        until_ms,
        columns,
        tuple(f.name for f in extras),
        _arrow_schema(output),
        hot,
    )
    with quiet_pyspark():
        packed = (
            _nameless(operations_df)
            .mapInArrow(job.pack_operations, parcels.SPARK_SCHEMA)
            .union(_nameless(signals_df).mapInArrow(job.pack_signals, parcels.SPARK_SCHEMA))
        )
        found = packed.repartitionById(partitions, "partition").mapInArrow(
            job.find_moments, parcels.SPARK_SCHEMA
        )
        if cancels_df is not None:
            found = found.union(
                _nameless(cancels_df).mapInArrow(job.pack_cancels, parcels.SPARK_SCHEMA)
            )
        ended = found.repartitionById(partitions, "partition").mapInArrow(
            job.end_operations, output
        )
    return _resolution(ended, [f.name for f in extras])


def _resolution(ended: DataFrame, extras: list[str]) -> Resolution:
    passed_on = [sf.col("extras").getField(name).alias(name) for name in extras]

    def of_kind(kind: str, columns: tuple[str, ...], *more: Any) -> DataFrame:
        return ended.where(sf.col("kind") == kind).select(*columns, *more)

    return Resolution(
        of_kind(stages.OUTCOME, rows.OUTCOME_COLUMNS, *passed_on),
        of_kind(stages.PENDING_KIND, rows.PENDING_COLUMNS, *passed_on),
        of_kind(stages.REJECTED, tuple(rows.REJECTED.names)),
        ended,
    )


def _output_schema(extras: list[StructField]) -> StructType:
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


def _checked(df: DataFrame, name: str) -> pa.Schema:
    """Return the DataFrame's Arrow schema, or say what is wrong with it, as `replay` would."""
    if not hasattr(df, "mapInArrow"):
        raise WrongType(
            f"{name} must be a Spark DataFrame, got {type(df).__name__}; "
            "spark.createDataFrame(...) makes one, and sojourn.replay.resolve takes Arrow tables"
        )
    if df.isStreaming:
        raise WrongType(f"{name} is a streaming DataFrame; use resolve_stream for those")
    schema = _arrow_schema(df.schema)
    _CHECKS[name](schema.empty_table())
    return schema


def _nameless(df: DataFrame) -> DataFrame:
    """PySpark's mapInArrow cannot find columns with a dot in their names; the job knows them."""
    return df.toDF(*(f"column_{n}" for n in range(len(df.columns))))


def _arrow_schema(schema: StructType) -> pa.Schema:
    with quiet_pyspark():
        return to_arrow_schema(schema, timezone="UTC")


def _checked_partitions(partitions: Any) -> int | None:
    if partitions is None:
        return None
    if not isinstance(partitions, int) or not 1 <= partitions <= _MOST_PARTITIONS:
        raise OutOfRange(
            f"partitions must be an integer from 1 to {_MOST_PARTITIONS}, got {partitions!r}; "
            "None chooses by the size of the input"
        )
    return partitions


def _partitions(df: DataFrame, size: int | None) -> int:
    session = df.sparkSession
    if size is None:
        asked = int(session.conf.get("spark.sql.shuffle.partitions") or 200)
        return max(1, min(asked, _MOST_PARTITIONS))
    cores = max(1, session.sparkContext.defaultParallelism)
    rounds = max(1, -(-size // (_PARTITION_BYTES * cores)))
    return int(min(rounds * cores, _MOST_PARTITIONS))


def _known_bytes(dfs: list[DataFrame]) -> int | None:
    """How large Spark thinks the inputs are; None if it cannot say, or is asked from afar."""
    total = 0
    for df in dfs:
        plan = getattr(df, "_jdf", None)
        if plan is None:
            return None
        total += int(str(plan.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return total if total < _UNKNOWN_BYTES else None


def _sample(operations_df: DataFrame, signals_df: DataFrame) -> pa.Table:
    pair = (sf.col("key").cast("string"), sf.col("offset").try_cast("long"))
    pairs = signals_df.sample(fraction=_SAMPLED_SHARE, seed=0).select(*pair)
    if isinstance(operations_df.schema["requires"].dataType, ArrayType):
        wanted = operations_df.select("requires").sample(fraction=_SAMPLED_SHARE, seed=0)
        pairs = pairs.union(wanted.select(sf.inline("requires")).select(*pair))
    with quiet_pyspark():
        return pairs.mapInArrow(hot_keys.keep_some, hot_keys.SAMPLE_SCHEMA).toArrow()


_CHECKS: dict[str, Any] = {
    rows.OPERATIONS: rows.check_operations,
    rows.SIGNALS: rows.check_signals,
    rows.CANCELS: rows.check_cancels,
}
