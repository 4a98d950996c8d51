"""Resolve DataFrames: operations, signals and cancels in, outcomes out.

The job has one stage, with all signals broadcast (broadcast.py), or three stages with a shuffle
between them (stages.py). If each operation has one requirement, one shuffle is enough (single.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StructType

from sojourn.errors import BadTable, OutOfRange, WrongType
from sojourn.replay import rows
from sojourn.replay.local import checked_until_ms
from sojourn.spark import answers, broadcast, hot_keys, parcels, single, stages, strategies
from sojourn.spark.frames import Frame, Tables, is_remote
from sojourn.spark.session import quiet_pyspark
from sojourn.spark.strategies import AUTO, BROADCAST, SHUFFLE
from sojourn.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Input bytes of a partition, as Spark knows them. Files are smaller than what is in them, and a
# task needs several times that to work.
_PARTITION_BYTES = 16 << 20
# A smaller input is done sooner than a sample of it.
_LEAST_BYTES_TO_SAMPLE = 16 << 20
_SAMPLED_SHARE = 0.01
_MOST_PARTITIONS = 60_000


@dataclass(frozen=True, slots=True)
class Resolution:
    """How the operations ended, which are pending, and the rejected rows, as DataFrames.

    All three are read from `rows`, which has all of them with a column `kind`: "outcome",
    "pending" or "rejected". Nothing is kept: each action on one of them does the whole work. To use
    several, `persist` first, or write `rows`, partitioned by `kind`, and read that.
    """

    outcomes: DataFrame
    pending: DataFrame
    rejected: DataFrame
    rows: DataFrame
    strategy: str  # what was done: "broadcast" or "shuffle"

    def with_timestamps(self) -> Resolution:
        """Return the same with times as timestamps, too: `at` beside `at_ms`, and so on."""
        return replace(
            self,
            outcomes=_with_timestamps(self.outcomes),
            pending=_with_timestamps(self.pending),
        )

    def persist(self) -> Resolution:
        """Keep the rows once they are computed, in memory or else on disk; return this."""
        self.rows.persist()
        return self

    def unpersist(self) -> None:
        """Release the rows that were kept."""
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
    strategy: str = strategies.AUTO,
    partitions: int | None = None,
    split_hot_keys: bool = True,
) -> Resolution:
    """Say of every operation how and when it ended: completed, expired or cancelled.

    The same answer as `replay.resolve` gives, in no particular order. With `until_ms` only what
    happened up to then is looked at, and operations that had not ended are pending.

    `strategy` is "broadcast", for signals that fit every machine: they, the cancels and the ids
    are read now, and operations, which need no shuffle then, when the result is used. Or it is
    "shuffle", for signals of any number: everything is read when the result is used, twice
    shuffled; where each operation has one requirement once, and ids and cancels are read now.
    "auto" chooses by the sizes that Spark knows, and shuffles if a broadcast turns out to be too
    large.

    `partitions` is how many each shuffle makes; by default it follows the size of the
    input, or `spark.sql.shuffle.partitions` where Spark cannot tell that. With `split_hot_keys`
    a sample of the keys is looked at before a shuffle, now, which reads the input's keys once.

    Raises BadTable for a missing column or one of the wrong type, before anything is done.
    """
    until_ms = checked_until_ms(until_ms)
    frames = {rows.OPERATIONS: operations_df, rows.SIGNALS: signals_df}
    if cancels_df is not None:
        frames[rows.CANCELS] = cancels_df
    columns = {name: _checked(df, name) for name, df in frames.items()}
    strategy = strategies.checked_strategy(strategy, operations_df)
    check_workers(operations_df.sparkSession)
    tables = Tables(
        Frame.of(operations_df),
        Frame.of(signals_df),
        None if cancels_df is None else Frame.of(cancels_df),
    )
    size = _operation_and_signal_bytes(tables)
    names = set(rows.extra_names(operations_df.columns))
    extras = [f for f in operations_df.schema if f.name in names]
    output = answers.spark_schema(extras, may_wait=until_ms is not None)
    job = stages.Job(
        _checked_partitions(partitions) or partitions_for(operations_df, size),
        until_ms,
        columns,
        answers.Answers(answers.arrow_schema(output)),
    )
    if strategy == AUTO:
        strategy, limits = _suitable(operations_df, tables), broadcast.LIMITS
    else:
        limits = broadcast.NO_LIMITS
    with quiet_pyspark():
        if strategy == BROADCAST:
            try:
                ended, rejected = broadcast.resolved(tables, job, limits, output)
                ended = broadcast.with_rejected(ended, rejected)
            except broadcast.TooMany:
                if limits is broadcast.NO_LIMITS:
                    raise
                strategy = SHUFFLE
        if strategy == SHUFFLE:
            is_large = size is None or size >= _LEAST_BYTES_TO_SAMPLE
            if split_hot_keys and job.partitions > 1 and is_large:
                hot = hot_keys.hot_keys(_sample(operations_df, signals_df), job.partitions)
                job = replace(job, hot_keys=hot)
            if is_large and strategies.has_one_requirement_each(operations_df, tables):
                ended = _shuffled_once(tables, job, output)
            else:
                ended = _shuffled(tables, job, output)
    return _resolution(ended, [f.name for f in extras], strategy)


def _suitable(operations_df: DataFrame, tables: Tables) -> str:
    # The broadcast path reads operations twice.
    if (
        not is_remote(operations_df)
        and strategies.suits_broadcast(tables, _cores(operations_df))
        and strategies.is_the_same_again(operations_df)
    ):
        return BROADCAST
    return SHUFFLE


def _shuffled_once(tables: Tables, job: stages.Job, output: StructType) -> DataFrame:
    try:
        ended, rejected = single.resolved(tables, job, broadcast.LIMITS, output)
    except broadcast.TooMany:
        return _shuffled(tables, job, output)
    return broadcast.with_rejected(ended, rejected)


def _shuffled(tables: Tables, job: stages.Job, output: StructType) -> DataFrame:
    packed = tables.operations.mapped(job.pack_operations, parcels.SPARK_SCHEMA).union(
        tables.signals.mapped(job.pack_signals, parcels.SPARK_SCHEMA)
    )
    moments = packed.repartitionById(job.partitions, "partition").mapInArrow(
        job.find_moments, parcels.SPARK_SCHEMA
    )
    if tables.cancels is not None:
        moments = moments.union(tables.cancels.mapped(job.pack_cancels, parcels.SPARK_SCHEMA))
    by_id = moments.repartitionById(job.partitions, "partition")
    return by_id.mapInArrow(job.end_operations, output)


def _resolution(ended: DataFrame, extras: list[str], strategy: str) -> Resolution:
    passed_on = [sf.col("extras").getField(name).alias(name) for name in extras]

    results = {}
    for name, kind in answers.KINDS.items():
        columns = [sf.col(c) if c in ended.columns else answers.nothing(c) for c in kind.columns]
        columns += passed_on if kind.has_extras else []
        results[kind.folder] = ended.where(sf.col("kind") == name).select(*columns)
    return Resolution(**results, rows=ended, strategy=strategy)


def _with_timestamps(df: DataFrame) -> DataFrame:
    columns = []
    for column in df.columns:
        columns.append(sf.col(f"`{column}`"))
        name = rows.TIMESTAMPS.get(column)
        if name is not None:
            if name in df.columns:
                raise BadTable(rows.NAME_TAKEN.format(name=name))
            # Spark's timestamps are microseconds; what is beyond them is null.
            is_in_range = sf.abs(sf.col(column)) < rows.MOST // 1000
            columns.append(sf.when(is_in_range, sf.timestamp_millis(column)).alias(name))
    return df.select(*columns)


def _checked(df: DataFrame, name: str) -> pa.Schema:
    """Return the DataFrame's Arrow schema, or say what is wrong with it, as `replay` would."""
    if not hasattr(df, "mapInArrow"):
        raise WrongType(
            f"{name} must be a Spark DataFrame, got {type(df).__name__}; "
            "spark.createDataFrame(...) makes one, and sojourn.replay.resolve takes Arrow tables"
        )
    if df.isStreaming:
        raise WrongType(f"{name} is a streaming DataFrame; use resolve_stream for those")
    schema = answers.arrow_schema(df.schema)
    rows.CHECKS[name](schema.empty_table())
    return schema


def _checked_partitions(partitions: Any) -> int | None:
    if partitions is None:
        return None
    if not isinstance(partitions, int) or not 1 <= partitions <= _MOST_PARTITIONS:
        raise OutOfRange(
            f"partitions must be an integer from 1 to {_MOST_PARTITIONS}, got {partitions!r}; "
            "None chooses by the size of the input"
        )
    return partitions


def partitions_for(df: DataFrame, size: int | None) -> int:
    """How many partitions suit so many bytes of operations and signals; None: not known."""
    session = df.sparkSession
    if size is None:
        configured = int(session.conf.get("spark.sql.shuffle.partitions") or 200)
        return max(1, min(configured, _MOST_PARTITIONS))
    cores = _cores(df)
    rounds = max(1, -(-size // (_PARTITION_BYTES * cores)))
    return int(min(rounds * cores, _MOST_PARTITIONS))


def _cores(df: DataFrame) -> int:
    return max(1, df.sparkSession.sparkContext.defaultParallelism)


def _operation_and_signal_bytes(tables: Tables) -> int | None:
    sizes = (tables.operations.known_bytes, tables.signals.known_bytes)
    return None if None in sizes else sum(size or 0 for size in sizes)


def _sample(operations_df: DataFrame, signals_df: DataFrame) -> pa.Table:
    pair = (sf.col("key").cast("string"), sf.col("offset").try_cast("long"))
    pairs = signals_df.sample(fraction=_SAMPLED_SHARE, seed=0).select(*pair)
    if isinstance(operations_df.schema["requires"].dataType, ArrayType):
        required = operations_df.select("requires").sample(fraction=_SAMPLED_SHARE, seed=0)
        pairs = pairs.union(required.select(sf.inline("requires")).select(*pair))
    with quiet_pyspark():
        return pairs.mapInArrow(hot_keys.keep_some, hot_keys.SAMPLE_SCHEMA).toArrow()
