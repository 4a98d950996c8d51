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
from tests.rows import oracle
from tests.rows.traces import random_trace
from tests.seeds import seed
from tests.spark import older_checkpoint
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


def test_a_checkpoint_from_before_labels_is_forked_and_every_operation_ends(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = older_checkpoint.unpack(tmp_path)
    assert main(["state", str(tmp_path / "checkpoint"), "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert [shard["shard"] for shard in state["shards"]] == [0, 1, 2, 3]
    waiting = state["held"]["operations"]
    assert waiting > 0
    assert any(shard["log_entries"] for shard in state["shards"])

    command = ["stream", "--format", "json", "--extras", older_checkpoint.EXTRAS]
    for name in ("operations", "signals", "cancels"):
        command += [f"--{name}", str(tmp_path / name)]
    command += ["--from-checkpoint", str(tmp_path / "checkpoint")]
    command += ["--checkpoint", str(tmp_path / "new"), "--shards", "5"]
    command += ["--out", str(tmp_path / "more"), "--out-format", "json"]
    command += ["--delay", f"{older_checkpoint.DELAY_MS}ms", "--idle", "event"]
    command += ["--follow", "slowest", "--available-now", "--files-per-batch", "1", "--quiet"]
    assert main(command) == 0

    expected = oracle.resolve(trace.operations, trace.signals, trace.cancels)
    before, after = (written(tmp_path / out) for out in ("out", "more"))
    found = oracle.Answer(before.outcomes + after.outcomes, [], before.rejected + after.rejected)
    assert differs(trace, expected, found, tells_condition=False) is None
    assert len(found.outcomes) == len(expected.outcomes)
    assert len(after.outcomes) >= waiting


def written(out: Path) -> oracle.Answer:
    """Read what a stream wrote as JSON, where a null is not written."""
    rows = {
        name: [
            json.loads(line)
            for path in sorted((out / name).glob("batch=*/*.json"))
            for line in path.read_text().splitlines()
        ]
        for name in ("outcomes", "rejected")
    }
    rejected = [(row["table"], row["reason"], json.loads(row["row"])) for row in rows["rejected"]]
    may_be_null = dict.fromkeys(("by_key", "kind", "weight"))
    return oracle.Answer([may_be_null | row for row in rows["outcomes"]], [], rejected)
