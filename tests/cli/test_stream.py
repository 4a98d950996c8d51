"""`sojourn stream` asks Spark for what the options say; Spark itself is another test's matter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn.cli import main

pytest.importorskip("pyspark", reason="streams need PySpark")

import sojourn.spark as on_spark
from sojourn.cli import stream
from sojourn.replay.columns import Columns, operation_columns

INPUTS = ["--operations", "in/o", "--signals", "in/s"]
NAMES = (
    "read_files",
    "from_kafka",
    "fork_checkpoint",
    "resolve_stream",
    "write_stream",
    "write_kafka",
)


class Query:
    """A query that has written one batch when it is waited for."""

    def __init__(self, interrupted: bool = False) -> None:
        self.stopped = False
        self.interrupted = interrupted

    def awaitTermination(self, timeout: int) -> bool:
        if self.interrupted:
            raise KeyboardInterrupt
        return True

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand-ins with the signatures of the real functions, by name; and Spark's settings."""
    fakes: dict[str, Any] = {name: create_autospec(getattr(on_spark, name)) for name in NAMES}
    for name, fake in fakes.items():
        monkeypatch.setattr(on_spark, name, fake)
    monkeypatch.setattr(on_spark, "stream_settings", lambda spark, shards: {})

    @contextmanager
    def session(args: Any, settings: dict[str, str]) -> Iterator[Any]:
        fakes["settings"] = settings
        yield SimpleNamespace()

    monkeypatch.setattr(stream, "session", session)
    return fakes


def batch(**counts: int) -> on_spark.StreamBatch:
    nothing = dict.fromkeys(
        ("number", "completed", "expired", "cancelled", "rejected", "keys", "ids", "operations"), 0
    )
    return on_spark.StreamBatch(time_ms=None, **(nothing | counts))


def write_batch(out: Path) -> Any:
    """What stands in for `write_stream`: it writes a batch with one outcome, and says so."""

    def write(frame: Any, path: str, checkpoint: str, **options: Any) -> Query:
        outcomes = {
            "id": ["a"],
            "status": ["completed"],
            "at_ms": [5],
            "by_key": ["k"],
            "waited_ms": [5],
        }
        rejected = {"table": ["signals"], "reason": ["late: it came behind"], "row": ["{}"]}
        for name, columns in (("outcomes", outcomes), ("rejected", rejected)):
            folder = out / name / "batch=0"
            folder.mkdir(parents=True)
            pq.write_table(pa.table(columns), folder / "part-0.parquet")
        options["on_batch"](batch(completed=1, rejected=1, operations=4))
        return Query()

    return write


def test_folders_are_read_resolved_and_written(
    asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    asked["write_stream"].side_effect = write_batch(out)
    more = ["--cancels", "in/c", "--out", str(out), "--checkpoint", "state", "--available-now"]
    how = ["--delay", "2min", "--idle", "event", "--shards", "4", "--files-per-batch", "1"]
    assert main(["stream", *INPUTS, *more, *how, "--quiet", "--json"]) == 0
    reads = [(call.args[1:], call.kwargs) for call in asked["read_files"].call_args_list]
    assert reads == [
        (
            ("parquet", place, table),
            {"extras": "", "files_per_batch": 1, "columns": Columns(table)},
        )
        for place, table in (("in/o", "operations"), ("in/s", "signals"), ("in/c", "cancels"))
    ]
    assert asked["resolve_stream"].call_args.kwargs == {
        "delay_ms": 120_000,
        "shards": 4,
        "idle": "event",
        "follow": None,
        "idle_after_ms": None,
        "ahead_ms": 60_000,
        "remember_ms": 86_400_000,
        "fork": None,
    }
    written = asked["write_stream"].call_args
    assert written.args[1:] == (str(out), "state")
    assert written.kwargs["trigger"] is None
    assert written.kwargs["format"] == "parquet"
    output = json.loads(capsys.readouterr().out)
    assert (output["completed"], output["rejected_rows"], output["pending"]) == (1, 1, 4)


def test_json_without_a_rejected_row_is_no_error(
    asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    row = {"id": "a", "status": "expired", "at_ms": 5, "waited_ms": 5}

    def write(*_: Any, **options: Any) -> Query:
        for name, text in (("outcomes", f"{json.dumps(row)}\n"), ("rejected", "")):
            (out / name / "batch=0").mkdir(parents=True)
            (out / name / "batch=0" / "part-0.json").write_text(text)
        return Query()

    asked["write_stream"].side_effect = write
    more = ["--out", str(out), "--checkpoint", "state", "--once", "--out-format", "json"]
    assert main(["stream", *INPUTS, *more, "--quiet", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["expired"], output["rejected_rows"]) == (1, 0)
    (out / "outcomes" / "batch=0" / "part-0.json").write_text("")
    assert main(["report", str(out), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operations"] == 0


def test_rejected_rows_fail_a_stream_if_that_was_asked_for(
    asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked["write_stream"].side_effect = write_batch(tmp_path / "out")
    more = ["--out", str(tmp_path / "out"), "--checkpoint", "state", "--once"]
    assert main(["stream", *INPUTS, *more, "--fail-on-rejected"]) == 1
    output = capsys.readouterr()
    assert "late: it came behind" in output.out
    assert "starting Spark" in output.err


def test_topics_are_read_and_written(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    asked["write_kafka"].return_value = Query()
    kafka = ["--format", "kafka", "--bootstrap-servers", "broker:9092", "--extras", "class string"]
    kafka += ["--map", "id=order", "--timeout", "30min", "--require", "paid/{order}"]
    out = ["--out-topic", "outcomes", "--checkpoint", "state", "--trigger", "5 seconds"]
    assert main(["stream", *INPUTS, *kafka, *out]) == 0
    first, second = asked["from_kafka"].call_args_list
    assert first.args[1:] == ("broker:9092", "in/o", "operations")
    mapped = operation_columns(id="order", timeout=1_800_000, requires=["paid/{order}"])
    assert first.kwargs == {
        "extras": "class string",
        "starting": "earliest",
        "columns": mapped,
    }
    assert second.kwargs["extras"] == ""
    assert asked["write_kafka"].call_args.args[1:] == ("broker:9092", "outcomes", "state")
    assert asked["write_kafka"].call_args.kwargs["trigger"] == "5 seconds"
    assert asked["settings"]["spark.jars.packages"] == on_spark.KAFKA_PACKAGE
    assert "what waits is in state" in capsys.readouterr().out


def test_a_stream_goes_on_where_another_checkpoint_stands(asked: dict[str, Any]) -> None:
    asked["write_stream"].return_value = Query()
    more = ["--out", "s3://out", "--checkpoint", "new", "--from-checkpoint", "old", "--shards", "9"]
    how = ["--follow", "fastest", "--idle-after", "5s", "--ahead", "1h", "--remember", "7d"]
    assert main(["stream", *INPUTS, *more, *how]) == 0
    assert asked["fork_checkpoint"].call_args.args[1:] == ("old", "new")
    rules = asked["resolve_stream"].call_args.kwargs
    assert rules["fork"] is asked["fork_checkpoint"].return_value
    assert (rules["shards"], rules["follow"]) == (9, "fastest")
    assert (rules["idle_after_ms"], rules["ahead_ms"]) == (5000, 3_600_000)
    assert rules["remember_ms"] == 7 * 86_400_000


def test_ctrl_c_stops_the_query_and_says_how_far_it_came(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    query = Query(interrupted=True)
    asked["write_stream"].side_effect = lambda *_, **options: (
        options["on_batch"](batch(expired=7)) or query
    )
    assert main(["stream", *INPUTS, "--out", "out", "--checkpoint", "state"]) == 130
    assert query.stopped
    assert "1 batches" in (output := capsys.readouterr().err)
    assert "7 expired; what waits is in state (0 operations)" in output


def test_ctrl_c_is_an_interruption_although_the_query_cannot_be_stopped(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(interrupted=True)
    lost = ConnectionError("Answer from Java side is empty")
    monkeypatch.setattr(query, "stop", create_autospec(query.stop, side_effect=lost))
    asked["write_stream"].side_effect = lambda *_, **options: query
    assert main(["stream", *INPUTS, "--out", "out", "--checkpoint", "state"]) == 130


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ([], "either --out OUT or --out-topic TOPIC"),
        (["--out", "a", "--out-topic", "b"], "either --out OUT or --out-topic TOPIC"),
        (["--out", "a", "--format", "kafka"], "--bootstrap-servers"),
        (["--out-topic", "a"], "--bootstrap-servers"),
    ],
)
def test_what_is_missing_is_said_before_spark_is_started(
    arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stream", *INPUTS, "--checkpoint", "state", *arguments]) == 2
    assert output in capsys.readouterr().err


class Refused(Exception):
    """Looks like one of Spark's errors, which carry a traceback of the worker's."""

    __module__ = "pyspark.errors"


def test_errors_of_ours_inside_of_sparks_are_told_in_one_line(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    asked["resolve_stream"].side_effect = Refused(
        "[STREAM_FAILED] Query terminated with exception: An exception was raised:\n"
        "Traceback (most recent call last):\n"
        '  File "sinks.py", line 1, in write\n'
        "sojourn.errors.SojournError: out holds the results of query 7; use another folder\n"
    )
    arguments = ["stream", *INPUTS, "--out", "out", "--checkpoint", "state", "--quiet"]
    assert main(arguments) == 2
    output = capsys.readouterr().err
    assert output.startswith("sojourn: out holds the results of query 7; use another folder")
    assert output.count("\n") == 1
    with pytest.raises(Refused):
        main(["--traceback", *arguments])
