"""The command line says what it does, and ends with a status that scripts can use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn.cli import main
from sojourn.cli.options import duration_ms, moment_ms
from sojourn.cli.progress import LineProgress
from sojourn.errors import SojournError

OPERATIONS = [
    {"id": "paid", "submitted_ms": 0, "timeout_ms": 10, "requires": [{"key": "a", "offset": 1}]},
    {"id": "late", "submitted_ms": 0, "timeout_ms": 2, "requires": [{"key": "a", "offset": 1}]},
    {"id": "gone", "submitted_ms": 0, "timeout_ms": 10, "requires": [{"key": "b", "offset": 1}]},
]
BROKEN = {"id": None, "submitted_ms": 0, "timeout_ms": 5, "requires": [{"key": "a", "offset": 1}]}
SIGNALS = [{"key": "a", "offset": 1, "at_ms": 5}]
CANCELS = [{"id": "gone", "at_ms": 3}]
KIND = pa.list_(pa.struct([("key", pa.string()), ("offset", pa.int64())]))
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("submitted_ms", pa.int64()),
        ("timeout_ms", pa.int64()),
        ("requires", KIND),
        ("class", pa.string()),
    ]
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_rows(tmp_path, OPERATIONS)
    return tmp_path


def write_rows(folder: Path, operations: list[dict[str, Any]]) -> None:
    rows = [{"class": "order", **row} for row in operations]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / "operations.parquet")
    pq.write_table(pa.Table.from_pylist(SIGNALS), folder / "signals.parquet")
    pq.write_table(pa.Table.from_pylist(CANCELS), folder / "cancels.parquet")


def replay(shop: Path, *more: str) -> int:
    inputs = [str(shop / "operations.parquet"), str(shop / "signals.parquet")]
    return main(["replay", *inputs, "--cancels", str(shop / "cancels.parquet"), *more])


def test_replay_says_how_operations_ended(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(shop) == 0
    output = capsys.readouterr()
    lines = [" ".join(line.split()) for line in output.out.splitlines()]
    assert lines[0].startswith("3 operations, ")
    assert "completed 1 33.3 % p50 5 ms, p99 5 ms" in lines
    assert "expired 1 33.3 % p50 2 ms, p99 2 ms" in lines
    assert "cancelled 1 33.3 % p50 3 ms, p99 3 ms" in lines
    assert "replaying 3 operations and 1 signals" in output.err


def test_replay_writes_its_answer_and_a_page(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shop / "answers"
    assert replay(shop, "--out", str(out), "--report", "--quiet") == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert str(out / "outcomes") in output.out
    assert str(out / "report.html") in output.out
    statuses = {row["id"]: row["status"] for row in pq.read_table(out / "outcomes").to_pylist()}
    assert statuses == {"paid": "completed", "late": "expired", "gone": "cancelled"}
    assert pq.read_table(out / "pending").num_rows == 0
    assert pq.read_table(out / "rejected").num_rows == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h3>order</h3>" in page


def test_the_summary_for_scripts_is_one_json_object(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(shop, [*OPERATIONS, BROKEN])
    assert replay(shop, "--json", "--until", "4") == 0
    output = json.loads(capsys.readouterr().out)
    counts = {name: output[name] for name in ("operations", "completed", "expired", "cancelled")}
    assert counts == {"operations": 4, "completed": 0, "expired": 1, "cancelled": 1}
    assert (output["pending"], output["rejected"], output["rejected_rows"]) == (1, 1, 1)
    assert output["reasons"] == {"operations": {"id is null": 1}}
    assert output["waited_ms"]["expired"] == {"median": 2, "p99": 2, "longest": 2}
    assert output["engine"] == "local"


def test_rejected_rows_fail_only_if_that_was_asked_for(shop: Path) -> None:
    assert replay(shop, "--fail-on-rejected") == 0
    write_rows(shop, [*OPERATIONS, BROKEN])
    assert replay(shop) == 0
    assert replay(shop, "--fail-on-rejected") == 1


def test_an_earlier_answer_is_replaced_only_if_that_was_asked_for(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(shop / "answers")
    assert replay(shop, "--out", out) == 0
    assert replay(shop, "--out", out) == 2
    assert "overwrite it (--overwrite)" in capsys.readouterr().err
    write_rows(shop, OPERATIONS[:1])
    assert replay(shop, "--out", out, "--overwrite") == 0
    assert pq.read_table(shop / "answers" / "outcomes").num_rows == 1


def test_an_earlier_answer_survives_bad_input(shop: Path) -> None:
    out = shop / "answers"
    assert replay(shop, "--out", str(out)) == 0
    (shop / "operations.parquet").write_bytes(b"PAR1 cut short")
    assert replay(shop, "--out", str(out), "--overwrite") == 2
    assert pq.read_table(out / "outcomes").num_rows == 3


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["--out", "x", "--class-column", "kind"], "no column 'kind'"),
        (["--report"], "--report needs a place"),
        (["--engine", "spark"], "--out OUT"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    shop: Path, arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(shop, "--quiet", *arguments) == 2
    told = capsys.readouterr().err
    assert output in told
    assert told.startswith("sojourn: ")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["replay"],
        ["replay", "a", "b", "--until", "soon"],
        ["sample"],
        ["sample", "x", "--operations", "many"],
        ["stream", "--out", "x"],
        ["report"],
    ],
)
def test_bad_usage_is_explained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "usage: sojourn" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["sample", "replay", "stream", "report"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    output = capsys.readouterr().out
    assert "examples:" in output
    assert f"sojourn {command} " in output.partition("examples:")[2]


ORDERS = """\
order_id,created_at,status
17,2026-01-05T12:00:00Z,new
18,2026-01-05T12:00:00Z,new
19,2026-01-05T12:00:00Z,draft
"""
EVENTS = """\
order_id,type,happened
17,paid,2026-01-05T12:12:00Z
18,cancelled,2026-01-05T12:05:00Z
19,packed,2026-01-05T12:05:00Z
"""
AS_THEY_ARE = [
    *("--map", "id=order_id", "--map", "submitted_ms=created_at", "--map", "state=status"),
    *("--timeout", "30min", "--require", "paid/{order_id}", "--where", "operations.status=new"),
    *("--map", "key={type}/{order_id}", "--map", "at_ms=happened"),
    *("--map", "cancels.id=order_id", "--map", "cancels.at_ms=happened"),
    *("--where", "cancels.type=cancelled"),
]


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    (tmp_path / "orders.csv").write_text(ORDERS)
    (tmp_path / "events.csv").write_text(EVENTS)
    events = str(tmp_path / "events.csv")
    return ["replay", str(tmp_path / "orders.csv"), events, "--cancels", events, "--quiet"]


def test_tables_as_they_are_need_no_python(
    tables: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main([*tables, *AS_THEY_ARE, "--out", str(out), "--timestamps", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["completed"], output["cancelled"], output["rejected_rows"]) == (1, 1, 0)
    rows = {row["id"]: row for row in pq.read_table(out / "outcomes").to_pylist()}
    assert rows["17"]["at"].isoformat() == "2026-01-05T12:12:00+00:00"
    assert rows["17"]["state"] == "new"
    assert rows["18"]["waited_ms"] == 300_000


@pytest.mark.parametrize(
    ("more", "output"),
    [
        ([], "there is no column 'id', only 'order_id', 'created_at', 'status'"),
        (["--map", "id"], "write NAME=VALUE"),
        (["--map", "id=order"], "there is no column 'order' for id"),
        (["--where", "type=paid"], "one of the tables operations, signals, cancels"),
        (["--require", "paid/{order}"], "there is no column 'order' for requires=paid/{order}"),
        (["--map", "signals.when=happened"], "signals have no 'when'"),
    ],
    ids=["nothing", "no source", "no column", "no table", "template", "no target"],
)
def test_a_mapping_that_cannot_be_is_told_in_one_line(
    tables: list[str], more: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*tables, *more]) == 2
    assert output in capsys.readouterr().err


def test_an_input_of_which_every_row_is_rejected_is_an_error(
    tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    swapped = [text.replace("at_ms=happened", "at_ms=type") for text in AS_THEY_ARE]
    assert main([*tables, *swapped]) == 2
    output = capsys.readouterr()
    assert (
        "every row of signals and of cancels was rejected (cancels: at_ms is not a time"
        in output.err
    )
    assert "expired" in output.out


def test_tables_that_are_swapped_are_recognised(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = [str(shop / "signals.parquet"), str(shop / "operations.parquet")]
    assert main(["replay", *inputs, "--quiet"]) == 2
    assert "are the two tables swapped?" in capsys.readouterr().err


def test_numbers_that_look_like_seconds_are_warned_of_once(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "submitted_ms": 1_767_614_400} for row in OPERATIONS]
    write_rows(shop, rows)
    assert replay(shop, "--quiet") == 0
    output = capsys.readouterr().err
    assert output.startswith("sojourn: warning: ")
    assert "operations: 'submitted_ms' looks like seconds in 3 of 3 rows" in output
    assert output.count("\n") == 1


def test_overwrite_takes_away_only_what_an_earlier_run_wrote(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shop / "out"
    assert replay(shop, "--out", str(out), "--quiet") == 0
    assert replay(shop, "--out", str(out), "--overwrite", "--quiet") == 0
    mine = out / "outcomes" / "mine.txt"
    mine.write_text("precious")
    capsys.readouterr()
    assert replay(shop, "--out", str(out), "--overwrite", "--quiet") == 2
    assert "mine.txt is not in" in capsys.readouterr().err
    assert mine.read_text() == "precious"
    assert len(pq.read_table(out / "outcomes" / "part-00000.parquet")) == 3


def test_a_folder_that_is_not_ours_is_never_overwritten(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = shop / "out" / "outcomes" / "part-00000.parquet"
    theirs.parent.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), theirs)
    assert replay(shop, "--out", str(shop / "out"), "--overwrite", "--quiet") == 2
    assert "is not overwritten" in capsys.readouterr().err
    assert theirs.exists()


def test_the_input_is_never_overwritten(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shop / "out"
    assert replay(shop, "--out", str(out), "--until", "1", "--quiet") == 0
    again = ["replay", str(out / "pending"), str(shop / "signals.parquet"), "--quiet"]
    assert main([*again, "--out", str(out), "--overwrite"]) == 2
    assert "is input" in capsys.readouterr().err
    assert main([*again, "--out", str(shop / "later")]) == 0
    assert len(pq.read_table(shop / "later" / "outcomes")) == 3


@pytest.mark.parametrize("name", ["operations.parquet", "signals.parquet", "cancels.parquet"])
def test_a_file_that_is_not_there_is_named(
    shop: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / name).unlink()
    assert replay(shop, "--quiet") == 2
    assert name in capsys.readouterr().err


def test_bad_input_is_one_line_and_a_traceback_only_if_asked_for(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"key": ["a"], "offset": [1]}), shop / "signals.parquet")
    assert replay(shop, "--quiet") == 2
    output = capsys.readouterr().err
    assert "at_ms" in output
    assert output.count("\n") == 1
    inputs = [str(shop / "operations.parquet"), str(shop / "signals.parquet")]
    with pytest.raises(SojournError, match="at_ms"):
        main(["--traceback", "replay", *inputs])


def test_sample_replay_report_work_hand_in_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "shop", tmp_path / "answers"
    assert main(["sample", str(trace), "--operations", "2000", "--files", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    inputs = [str(trace / "operations"), str(trace / "signals")]
    cancels = ["--cancels", str(trace / "cancels")]
    assert main(["replay", *inputs, *cancels, "--out", str(out), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["operations"] == rows["operations"]
    ended = output["completed"] + output["expired"] + output["cancelled"]
    assert ended + output["pending"] + output["rejected"] == rows["operations"]
    page = tmp_path / "pages" / "report.html"
    assert main(["report", str(out), "-o", str(page), "--class-column", "region"]) == 0
    assert str(page) in capsys.readouterr().out
    assert "<h3>north</h3>" in page.read_text(encoding="utf-8")
    assert main(["sample", str(trace)]) == 2
    assert "holds files already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "ms"),
    [("5", 5), ("500ms", 500), ("10s", 10_000), ("5 min", 300_000), ("2h", 7_200_000)],
)
def test_durations_are_read_as_people_write_them(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1767571200000", 1_767_571_200_000),
        ("2026-01-05", 1_767_571_200_000),
        ("2026-01-05T01:00", 1_767_574_800_000),
        ("2026-01-05T01:00+01:00", 1_767_571_200_000),
        ("2026-01-05T00:00:00.0009", 1_767_571_200_000),  # rounded down, as in tables
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, ms: int) -> None:
    assert moment_ms(text) == ms


def test_a_long_step_says_a_line_now_and_then() -> None:
    import io

    stream = io.StringIO()
    lines = LineProgress(stream, every_s=0)
    lines.step("counting")
    lines.update(1_000, None, "rows")
    lines.update(2_000, 4_000, "rows")
    assert stream.getvalue().splitlines() == [
        "counting …",
        "counting … 1,000 rows",
        "counting … 2,000 of 4,000 rows",
    ]


# As a process of its own.


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sojourn", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def test_the_exit_status_reaches_the_shell(shop: Path) -> None:
    write_rows(shop, [*OPERATIONS, BROKEN])
    inputs = [str(shop / "operations.parquet"), str(shop / "signals.parquet")]
    assert run("replay", *inputs).returncode == 0
    assert run("replay", *inputs, "--fail-on-rejected").returncode == 1
    missing = run("replay", "nowhere", *inputs[1:])
    assert missing.returncode == 2
    assert "Traceback" not in missing.stderr


def test_without_pyspark_the_local_parts_work_and_the_rest_says_what_to_install(
    shop: Path,
) -> None:
    (shop / "pyspark.py").write_text("raise ImportError('no', name='pyspark')\n")
    environment = {**os.environ, "PYTHONPATH": str(shop)}
    inputs = [str(shop / "operations.parquet"), str(shop / "signals.parquet")]
    assert run("replay", *inputs, env=environment).returncode == 0
    out = ["--out", str(shop / "out")]
    failed = run("replay", *inputs, "--engine", "spark", *out, env=environment)
    assert failed.returncode == 2
    assert "pip install 'sojourn[spark]'" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_writing_leaves_nothing_half_written(
    shop: Path, number: signal.Signals, status: int
) -> None:
    inputs = [str(shop / "operations.parquet"), str(shop / "signals.parquet")]
    code = STOPPED.format(number=int(number))
    command = [sys.executable, "-c", code, "replay", *inputs, "--out", str(shop / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert list((shop / "out").iterdir()) == []


STOPPED = """
import signal, sys
import pyarrow.parquet
pyarrow.parquet.write_table = lambda *_: signal.raise_signal({number})
import sojourn.cli
sys.exit(sojourn.cli.main(sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_ends_with_130() -> None:
    command = [sys.executable, "-c", INTERRUPTED, "replay", "operations", "signals"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 130
    assert done.stderr.endswith("interrupted\n")
    assert "Traceback" not in done.stderr


INTERRUPTED = """
import signal, sys
from sojourn.replay import files
files.read = lambda *arguments: signal.raise_signal(signal.SIGINT)
import sojourn.cli
sys.exit(sojourn.cli.main(sys.argv[1:]))
"""


def test_output_that_nobody_reads_any_more_is_no_error() -> None:
    command = f"{sys.executable} -m sojourn replay --help | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
