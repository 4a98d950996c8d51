"""The same stream on a real cluster gives the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rows_traces import random_trace
from stream_traces import arrivals, write_arrivals
from test_spark_stream_kill import DRIVER, compare

if TYPE_CHECKING:
    from pathlib import Path

    from spark_cluster import Cluster


def test_a_stream_on_a_cluster_gives_the_answer_of_one_process(
    cluster: Cluster, tmp_path: Path
) -> None:
    trace = random_trace(11, 2000, extremes=False, ties_by_arrival=False, until=False)
    write_arrivals(tmp_path, arrivals(trace, 3, 190))
    cluster.run(DRIVER.read_text(), tmp_path, cluster.master)
    compare(tmp_path, trace)
