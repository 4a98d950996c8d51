"""The same job on a real cluster gives the same answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from rows_traces import random_trace

from sojourn import replay

if TYPE_CHECKING:
    from spark_cluster import Cluster

JOB = """
import os, sys
from sojourn.spark import local_session, resolve

folder = sys.argv[1]
session = local_session(
    os.environ["SPARK_MASTER"],
    driver_memory="512m",
    settings={"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"},
)
operations, signals, cancels = (
    session.read.parquet(f"{folder}/{name}.parquet").repartition(4)
    for name in ("operations", "signals", "cancels")
)
with resolve(operations, signals, cancels, int(sys.argv[2]), partitions=4) as r:
    for name in ("outcomes", "pending", "rejected"):
        getattr(r, name).write.parquet(f"{folder}/{name}")
hosts = session.range(0, 1000, 1, 8).rdd.mapPartitions(lambda _: [os.getppid()]).distinct().count()
print("processes", hosts)
session.stop()
"""


def test_batch_on_a_cluster_gives_the_answer_of_one_process(
    cluster: Cluster, tmp_path: Path
) -> None:
    trace = random_trace(7, 5000, extremes=False, ties_by_arrival=False, until=True)
    assert trace.until_ms is not None
    tables = trace.tables()
    for name, table in zip(("operations", "signals", "cancels"), tables, strict=True):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    said = cluster.run(JOB, tmp_path, str(trace.until_ms))
    expected = replay.resolve(*tables, trace.until_ms)
    for name in ("outcomes", "pending", "rejected"):
        right, found = getattr(expected, name), pq.read_table(tmp_path / name)
        assert rows_of(found) == rows_of(right)
        assert len(right) > 0
    assert said == f"processes {cluster.workers}\n"


def rows_of(table: object) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())  # type: ignore[attr-defined]
