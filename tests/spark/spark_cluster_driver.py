"""A batch, then a stream, on the Spark cluster SPARK_MASTER.

    python -m tests.spark.spark_cluster_driver FOLDER

FOLDER/batch/{operations,signals,cancels}.parquet are resolved, FOLDER/batch/until_ms says when the
rows end; the answers go to FOLDER/batch/broadcast and FOLDER/batch/shuffle. FOLDER/stream is read
and written as by stream_driver.py. Prints in how many processes the executors ran.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from sojourn.spark import resolve
from tests.spark import home, stream_driver


def main(folder: Path) -> None:
    spark = stream_driver.session(
        os.environ["SPARK_MASTER"],
        {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.defaultJavaOptions": home.java_options(),
        },
    )
    batch(spark, folder / "batch")
    stream_driver.stream(spark, folder / "stream")
    print(processes(spark, 2))
    spark.stop()


def batch(spark: SparkSession, folder: Path) -> None:
    operations, signals, cancels = (
        spark.read.parquet(str(folder / f"{name}.parquet")).repartition(4)
        for name in ("operations", "signals", "cancels")
    )
    until_ms = int((folder / "until_ms").read_text())
    for strategy in ("broadcast", "shuffle"):
        tables = (operations, signals, cancels)
        with resolve(*tables, until_ms=until_ms, strategy=strategy, partitions=4) as r:
            for name in ("outcomes", "pending", "rejected"):
                getattr(r, name).write.parquet(str(folder / strategy / name))


def processes(spark: SparkSession, cores: int) -> int:
    """In how many processes so many tasks run that run at the same time, on so many cores."""

    def own(_: object) -> list[int]:
        BarrierTaskContext.get().barrier()  # or the first to be there would do all the work
        return [os.getppid()]

    rows = spark.range(0, 1000, 1, cores).rdd
    return len(set(rows.barrier().mapPartitions(own).collect()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
