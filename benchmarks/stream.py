"""A stream of operations and signals: rows a second through all micro-batches.

Both read the same Parquet folders in time order, up to a minute out of order; outcomes go into a
sink that drops them. Each has the batches that suit it: ours is quick enough to take several files
at once. What a query reads a second is counted over the time of its batches, after queries over
the same files to warm up. State for each key and id is too slow to be waited for: it is stopped
when its time is up and counted by the batches it has done, the first ones, when it holds least.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rows import Peak, family_cpu_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.case import Row

DELAY_MS = 60_000


def measure(name: str, params: dict[str, Any]) -> Row:
    from sojourn.spark import local_session

    spark = local_session("local[2]", driver_memory="4g", shuffle_partitions=2)
    folder, files, limit_s = Path(params["trace"]), params["files_per_batch"], params["limit_s"]
    for _ in range(params["warmups"]):
        play(spark, name, folder, files, params["warmup_s"])
    with Peak() as peak:
        began_cpu_s = family_cpu_s()
        rows, seconds, batches = play(spark, name, folder, files, limit_s)
        cpu_s = family_cpu_s() - began_cpu_s
    return {
        "cpu_s": cpu_s,
        "seconds": seconds,
        "rows": rows,
        "batches": batches,
        "rows_per_s": rows / seconds,
        "peak_mb": peak.bytes / 1e6,
    }


def play(
    spark: SparkSession, name: str, folder: Path, files_per_batch: int, limit_s: int
) -> tuple[int, float, int]:
    """Run the query until all is read or time is up; return rows, seconds, batches."""
    frames = [
        spark.readStream.schema(spark.read.parquet(str(folder / table)).schema)
        .option("maxFilesPerTrigger", files_per_batch)
        .parquet(str(folder / table))
        for table in ("operations", "signals")
    ]
    with tempfile.TemporaryDirectory(
        prefix="sojourn-stream-", ignore_cleanup_errors=True
    ) as checkpoint:
        query = (
            _outcomes(name, *frames)
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(limit_s)
        finally:
            query.stop()
        done = [batch for batch in query.recentProgress if batch.numInputRows]
    rows = sum(batch.numInputRows for batch in done)
    seconds = sum(batch.durationMs["triggerExecution"] for batch in done) / 1e3
    return rows, seconds, len(done)


def _outcomes(name: str, operations: DataFrame, signals: DataFrame) -> DataFrame:
    if name == "textbook":
        from benchmarks.contenders import textbook

        return textbook.outcomes(operations, signals, DELAY_MS)
    from sojourn import spark as sp

    return sp.resolve_stream(operations, signals, delay_ms=DELAY_MS, idle="event").rows
