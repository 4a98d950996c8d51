"""A stream from topic to topic whose last batch runs twice.

    python -m tests.spark.kafka_rerun_driver SERVERS JARS FOLDER

As after a kill between sending the batch and writing down that it is done.
"""

from __future__ import annotations

import sys
from pathlib import Path

import sojourn.spark as sp


def main(servers: str, jars: str, folder: Path) -> None:
    spark = sp.local_session(
        "local[2]", driver_memory="1g", shuffle_partitions=2, settings={"spark.jars": jars}
    )
    checkpoint = folder / "checkpoint"
    for _ in range(2):
        tables = [sp.from_kafka(spark, servers, name, name) for name in ("operations", "signals")]
        out = sp.resolve_stream(*tables, delay_ms=10_000, shards=2, idle="event")
        query = sp.write_kafka(out, servers, "outcomes", str(checkpoint), trigger=None)
        query.awaitTermination()
        forget_last_commit(checkpoint)
    spark.stop()


def forget_last_commit(checkpoint: Path) -> None:
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (last, last.with_name(f".{last.name}.crc")):
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
