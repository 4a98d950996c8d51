"""The same jobs on a real cluster give the same answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq
import pytest

from sojourn import replay
from tests.rows.traces import Trace, random_trace
from tests.spark.stream_traces import arrivals, write_arrivals, write_batch
from tests.spark.test_stream_kill import compare

if TYPE_CHECKING:
    from tests.spark.spark_cluster import SparkCluster


class Done(NamedTuple):
    """What was given to the cluster, and where its answers are."""

    batch: Trace
    stream: Trace
    folder: Path
    processes: int


@pytest.fixture(scope="module")
def done(spark_cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A batch and a stream, run by one driver: it is the JVMs that take long to start."""
    folder = tmp_path_factory.mktemp("jobs")
    batch = random_trace(7, 5000, extremes=False, ties_by_arrival=False, until=True)
    write_batch(folder / "batch", batch)
    stream = random_trace(11, 2000, extremes=False, ties_by_arrival=False, until=False)
    write_arrivals(folder / "stream", arrivals(stream, 3, 190))
    return Done(
        batch, stream, folder, int(spark_cluster.run("tests.spark.spark_cluster_driver", folder))
    )


@pytest.mark.parametrize("strategy", ["broadcast", "shuffle"])
def test_a_batch_on_a_cluster_gives_the_answer_of_one_process(done: Done, strategy: str) -> None:
    expected = replay.resolve(*done.batch.tables(), done.batch.until_ms)
    for name in ("outcomes", "pending", "rejected"):
        right = getattr(expected, name)
        found = pq.read_table(done.folder / "batch" / strategy / name)
        assert rows_of(found) == rows_of(right)
        assert len(right) > 0


def test_a_stream_on_a_cluster_gives_the_answer_of_one_process(done: Done) -> None:
    compare(done.folder / "stream", done.stream)


def test_every_worker_of_the_cluster_has_worked(done: Done, spark_cluster: SparkCluster) -> None:
    assert done.processes == spark_cluster.workers


def rows_of(table: object) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())  # type: ignore[attr-defined]
