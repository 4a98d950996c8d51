"""A driver of a stream, to be killed: `python stream_driver.py FOLDER`; ends when all is read.

FOLDER/{operations,signals,cancels} are read a file a batch; FOLDER/out is written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sojourn.spark import local_session, read_files, resolve_stream, stream_settings, write_stream

# A JVM that lives for seconds has no use for its best compiler, nor for several collectors.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(folder: Path, master: str = "local[2]") -> None:
    spark = local_session(
        master,
        driver_memory="1g",
        shuffle_partitions=2,
        settings={"spark.driver.defaultJavaOptions": QUICK_JVM},
    )
    stream_settings(spark)
    tables = [
        read_files(spark, "parquet", str(folder / name), name, files_per_batch=1)
        for name in ("operations", "signals", "cancels")
    ]
    # Snapshots come often, so that a start finds a snapshot, or a log, or both.
    out = resolve_stream(*tables, delay_ms=200, shards=3, idle="event", snapshot_every=2)
    out_folder, checkpoint = str(folder / "out"), str(folder / "checkpoint")
    query = write_stream(out, out_folder, checkpoint, trigger=None)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
