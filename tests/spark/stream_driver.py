"""A driver of a stream, to be killed; or it ends when all is read.

    python -m tests.spark.stream_driver FOLDER

FOLDER/{operations,signals,cancels} are read a file a batch; FOLDER/out is written. FOLDER/started
says that the query runs. If there is FOLDER/endless, it does not end, and waits for more files.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from sojourn.spark import local_session, read_files, resolve_stream, stream_settings

STARTED, ENDLESS = "started", "endless"


def session(master: str, settings: dict[str, str]) -> SparkSession:
    return local_session(master, driver_memory="1g", shuffle_partitions=2, settings=settings)


def stream(spark: SparkSession, folder: Path) -> None:
    stream_settings(spark)
    tables = [
        read_files(spark, "parquet", str(folder / name), name, files_per_batch=1)
        for name in ("operations", "signals", "cancels")
    ]
    # Snapshots come often, so that a start finds a snapshot, or a log, or both. A kill can put the
    # folders a file out of step, since Spark's source notes what it will read before the batch is
    # written down, and adds the next file after a restart: so time follows the slowest of them.
    out = resolve_stream(
        *tables, delay_ms=200, shards=3, idle="event", follow="slowest", snapshot_every=2
    )
    trigger = "0 seconds" if (folder / ENDLESS).exists() else None
    query = out.write(str(folder / "out"), str(folder / "checkpoint"), trigger=trigger)
    (folder / STARTED).touch()
    query.awaitTermination()


if __name__ == "__main__":
    spark = session("local[2]", {})
    stream(spark, Path(sys.argv[1]))
    spark.stop()
