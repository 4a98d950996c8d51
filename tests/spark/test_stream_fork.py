"""A checkpoint seen from outside, and forked: another number of shards, and nothing lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sojourn.spark as sp
from sojourn import replay
from sojourn.cli import main
from sojourn.errors import SojournError
from tests.rows.traces import random_trace
from tests.seeds import seed
from tests.spark.stream_traces import arrivals, write_arrivals
from tests.test_one_answer import answer_of_tables, differs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BATCHES = 4


def stream(spark: SparkSession, folder: Path, checkpoint: str, shards: int, fork: bool) -> None:
    """Take what is there, from the beginning or from where the checkpoint `old` stands."""
    tables = [
        sp.read_files(spark, "parquet", str(folder / name), name)
        for name in ("operations", "signals", "cancels")
    ]
    begin = None
    if fork:
        begin = sp.fork_checkpoint(spark, str(folder / "old"), str(folder / checkpoint))
    out = sp.resolve_stream(
        *tables, delay_ms=200, shards=shards, idle="event", follow="slowest", fork=begin
    )
    query = out.write(str(folder / f"out-{checkpoint}"), str(folder / checkpoint), trigger=None)
    query.awaitTermination()


def test_a_fork_goes_on_where_the_checkpoint_stands_with_other_shards(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sp.stream_settings(spark)
    trace = random_trace(seed(), 600, extremes=False, ties_by_arrival=False, until=False)
    write_arrivals(tmp_path / "all", arrivals(trace, BATCHES, 190, seed()))
    for half in (range(BATCHES // 2), range(BATCHES // 2, BATCHES + 1)):
        for name in ("operations", "signals", "cancels"):
            (tmp_path / name).mkdir(exist_ok=True)
            for n in half:
                path = tmp_path / "all" / name / f"{n:04}.parquet"
                path.rename(tmp_path / name / path.name)
        if half.start == 0:
            stream(spark, tmp_path, "old", 4, fork=False)
        else:
            stream(spark, tmp_path, "new", 7, fork=True)
    parts = []
    for name in ("outcomes", "rejected"):
        tables = [pq.read_table(tmp_path / f"out-{c}" / name) for c in ("old", "new")]
        parts.append(pa.concat_tables([table.drop_columns(["batch"]) for table in tables]))
    found = answer_of_tables(parts[0], pa.table({}), parts[1])
    r = replay.resolve(*trace.tables())
    expected = answer_of_tables(r.outcomes, pa.table({}), r.rejected)
    assert differs(trace, expected, found, tells_condition=False) is None

    # A restart of the fork does not begin again; and a checkpoint that is none is told from one.
    assert sp.fork_checkpoint(spark, str(tmp_path / "old"), str(tmp_path / "new")).origin is None
    with pytest.raises(SojournError, match="is no checkpoint of a stream"):
        sp.fork_checkpoint(spark, str(tmp_path / "all"), str(tmp_path / "other"))
    with pytest.raises(SojournError, match="neither empty nor a fork"):
        sp.fork_checkpoint(spark, str(tmp_path / "old"), str(tmp_path / "all"))

    # What the old one holds can be looked at.
    assert main(["state", str(tmp_path / "old"), "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert [shard["shard"] for shard in state["shards"]] == [0, 1, 2, 3]
    waiting = {row["id"] for row in r.outcomes.to_pylist()} - {
        row["id"] for row in pq.read_table(tmp_path / "out-old" / "outcomes").to_pylist()
    }
    assert 0 < state["held"]["operations"] <= len(waiting)
    assert state["time_ms"] == min(s["latest_ms"] for s in state["sources"].values()) - 200
    assert main(["state", str(tmp_path / "old")]) == 0
    assert f"{state['held']['operations']:,} operations wait" in capsys.readouterr().out
