"""The same verification on Spark: rows stay where they are, and only counts come back.

Names are given by the code that gives them in process (names.py), a record batch at a time. For
that the driver gathers the keys and ids that came again, which are few; all others stay away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from sojourn import spark as on_spark
from sojourn.history.findings import (
    OUTCOME,
    TOLD_COLUMNS,
    WAITING,
    Findings,
    Kind,
    Reason,
    Step,
    add_rejected,
    difference,
)
from sojourn.history.names import Names
from sojourn.history.stretch import Stretch
from sojourn.history.tables import (
    CANCELS,
    FORGOTTEN,
    OPERATIONS,
    OUTCOMES,
    SCHEMAS,
    SIGNALS,
    TIME,
)
from sojourn.replay import rows
from sojourn.spark.session import quiet_pyspark

_PROVEN, _OPEN = "proven", "open"
_DIFFERENT = (
    Kind.CHANGED,
    Kind.STILL_WAITING,
    Kind.NOT_TOLD,
    Kind.NEVER_SUBMITTED,
    Kind.TOLD_TWICE,
)
_LEAST, _MOST = rows.LEAST, rows.MOST
_SCHEMAS = {  # said, so that Spark need not look for them in the files
    OPERATIONS: "id string, submitted_ms long, timeout_ms long, "
    "requires array<struct<key: string, offset: long>>, needed int",
    SIGNALS: "key string, offset long, at_ms long",
    CANCELS: "id string, at_ms long",
    OUTCOMES: "id string, status string, at_ms long, by_key string, waited_ms long, number long, "
    "submitted_ms long, told_ms long, timeout_ms long",
    FORGOTTEN: "key string, at_ms long",
}


def compare_on_spark(spark: SparkSession, stretch: Stretch, findings: Findings, step: Step) -> None:
    """Replay the stretch on Spark, and compare with its outcomes."""
    step("reading the history on Spark")
    with stretch.pinned() as paths, quiet_pyspark():

        def read(table: str, columns: list[str]) -> DataFrame:
            files = paths(table)
            frame = (
                spark.read.schema(_SCHEMAS[table]).parquet(*files)
                if files
                else spark.createDataFrame([], _SCHEMAS[table])
            )
            return frame.where(F.col(TIME[table]) <= stretch.last_ms).select(*columns)

        operations = read(OPERATIONS, list(rows.OPERATION_COLUMNS))
        signals = read(SIGNALS, list(rows.SIGNAL_COLUMNS))
        cancels = read(CANCELS, list(rows.CANCEL_COLUMNS))
        recorded = read(OUTCOMES, TOLD_COLUMNS)
        forgotten = read(FORGOTTEN, ["key", "at_ms"]) if stretch.rows(FORGOTTEN) else None
        names = _names(operations, signals, forgotten)
        if names:
            operations = _mapped(operations, names.operations)
            signals = _mapped(signals, names.signals)
            cancels = _mapped(cancels, names.cancels)
            recorded = _mapped(recorded, names.outcomes)
        many = f"{stretch.rows(OPERATIONS):,} operations and {stretch.rows(SIGNALS):,} signals"
        step(f"replaying {many} on Spark")
        with on_spark.resolve(operations, signals, cancels, stretch.last_ms) as resolution:
            some = resolution.rejected.limit(findings.show + 1).toArrow()
            count = len(some) if len(some) <= findings.show else resolution.rejected.count()
            add_rejected(findings, count, some)
            replayed = _as_one(resolution, names).withColumn("is_sure", F.lit(True))
            if stretch.is_cut:
                before = _most_progress(operations, signals, names, stretch.first_ms)
                other = on_spark.resolve(
                    operations, signals.unionByName(before), cancels, stretch.last_ms
                )
                replayed = _with_other(replayed, _as_one(other, names))
            step(f"comparing {stretch.rows(OUTCOMES):,} outcomes on Spark")
            _compare(stretch, findings, names, recorded, replayed)


def _names(operations: DataFrame, signals: DataFrame, forgotten: DataFrame | None) -> Names:
    """Those that matter: keys with a row after they were forgotten, ids that came again."""
    several = operations.groupBy("id").agg(
        F.count("*").alias("count"), F.collect_list("submitted_ms").alias("submissions")
    )
    repeated = several.where("count > 1").select(
        "id", F.explode("submissions").alias("submitted_ms")
    )
    if forgotten is None:
        return Names(SCHEMAS[FORGOTTEN].empty_table(), repeated.toArrow())
    requirements = operations.select(
        F.explode("requires.key").alias("key"), F.col("submitted_ms").alias("at_ms")
    )
    uses = signals.select("key", "at_ms").unionByName(requirements)
    last = uses.groupBy("key").agg(F.max("at_ms").alias("last_ms"))
    again = forgotten.join(last, "key").where("last_ms > at_ms").select("key", "at_ms")
    return Names(again.toArrow(), repeated.toArrow())


def _mapped(frame: DataFrame, give: Callable[[pa.Table], pa.Table]) -> DataFrame:
    """The rows with the names that `give` gives them."""

    def give_names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            named = give(pa.Table.from_batches([batch]))
            yield from named.cast(batch.schema).to_batches()

    return frame.mapInArrow(give_names, frame.schema)


def _as_one(resolution: on_spark.Resolution, names: Names) -> DataFrame:
    """Outcomes, and what is pending as waiting; keys as they were given."""
    ended = resolution.outcomes.select("id", *OUTCOME)
    if len(names.forgotten):

        def plain(table: pa.Table) -> pa.Table:
            return table.set_column(3, "by_key", names.plain_keys(table["by_key"]))

        ended = _mapped(ended, plain)
    nothing = F.lit(None)
    return ended.unionByName(
        resolution.pending.select(
            "id",
            F.lit(WAITING).alias("status"),
            nothing.cast("long").alias("at_ms"),
            nothing.cast("string").alias("by_key"),
            nothing.cast("long").alias("waited_ms"),
        )
    )


def _most_progress(
    operations: DataFrame, signals: DataFrame, names: Names, first_ms: int
) -> DataFrame:
    """As signals: the most progress that keys can have had before the stretch."""
    required = operations.select(F.explode("requires.key").alias("key")).distinct()
    lowest = signals.groupBy("key").agg(F.min("offset").alias("lowest"))
    below = F.greatest(F.col("lowest"), F.lit(_LEAST + 1)) - 1
    most = required.join(lowest, "key", "full_outer").select(
        "key",
        F.when(F.col("lowest").isNull(), F.lit(_MOST)).otherwise(below).alias("offset"),
        F.lit(first_ms - 1).cast("long").alias("at_ms"),
    )
    if len(names.forgotten):
        most = most.where(~F.contains(F.col("key"), F.lit("\0\0")))
    return most


def _with_other(replayed: DataFrame, other: DataFrame) -> DataFrame:
    """Whether both say the same."""
    other = other.select("id", *(F.col(column).alias(f"other_{column}") for column in OUTCOME))
    same = _all(F.col(column).eqNullSafe(F.col(f"other_{column}")) for column in OUTCOME)
    return replayed.join(other, "id").select("id", *OUTCOME, same.alias("is_sure"))


def _compare(
    stretch: Stretch, findings: Findings, names: Names, recorded: DataFrame, replayed: DataFrame
) -> None:
    if stretch.is_cut:
        is_before = F.col("submitted_ms") < stretch.first_ms
        findings.unproven[Reason.BEFORE] += recorded.where(is_before).count()
        recorded = recorded.where(~is_before)
    turn = F.row_number().over(Window.partitionBy("id").orderBy("number"))
    recorded = recorded.select(
        "id", turn.alias("turn"), *(F.col(column).alias(f"told_{column}") for column in OUTCOME)
    )
    both = recorded.join(replayed, "id", "full_outer").withColumn("kind", _kind(stretch.last_ms))
    both = both.persist()
    try:
        counts = {row["kind"]: row["count"] for row in both.groupBy("kind").count().collect()}
        findings.proven += counts.get(_PROVEN, 0)
        findings.waiting += counts.get(_OPEN, 0)
        findings.unproven[Reason.DEPENDS] += counts.get(Reason.DEPENDS, 0)
        for kind in _DIFFERENT:
            if count := counts.get(kind, 0):
                some = both.where(F.col("kind") == kind).limit(findings.show).toArrow()
                findings.add(count, _differences(kind, some.to_pylist(), names), kind)
    finally:
        both.unpersist()


def _kind(last_ms: int) -> Column:
    """What the comparison says of a row; the same cases as in process."""
    status = F.col("status")
    is_told = F.col("told_status").isNotNull()
    same = _all(F.col(f"told_{column}").eqNullSafe(F.col(column)) for column in OUTCOME)
    is_open = (status == WAITING) | ((status == "expired") & (F.col("at_ms") == last_ms))
    return (
        F.when(status.isNull(), Kind.NEVER_SUBMITTED)
        .when(F.col("turn") > 1, Kind.TOLD_TWICE)
        .when(is_told & ~F.col("is_sure"), Reason.DEPENDS)
        .when(is_told & same, _PROVEN)
        .when(is_told & (status == WAITING), Kind.STILL_WAITING)
        .when(is_told, Kind.CHANGED)
        .when(~is_open, Kind.NOT_TOLD)
        .when(F.col("is_sure"), _OPEN)
        .otherwise(Reason.DEPENDS)
    )


def _differences(kind: str, some: list[dict[str, Any]], names: Names) -> Iterator[Any]:
    for row in some:
        told = {column: row[f"told_{column}"] for column in OUTCOME}
        yield difference(
            kind,
            names.plain_ids(pa.array([row["id"]]))[0].as_py(),
            None if kind == Kind.NOT_TOLD else told,
            None if kind == Kind.NEVER_SUBMITTED else row,
        )


def _all(conditions: Iterator[Column]) -> Column:
    whole = F.lit(True)
    for condition in conditions:
        whole = whole & condition
    return whole
