"""`sojourn replay` gives the same answer on Spark as in this process."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import sample
from sojourn.cli import main

pytest.importorskip("pyspark", reason="this needs PySpark")


def answer(out: Path, part: str) -> list[dict[str, Any]]:
    rows = pq.read_table(out / part).to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def test_json_lines_are_replayed_on_spark_as_here(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sample.write(sample.make(400, seed=5), tmp_path, format="json", files=2)
    with (tmp_path / "signals" / "part-00001.json").open("a", encoding="utf-8") as lines:
        lines.write('{"key": "a", "offset": 1, "at_m\n')
    inputs = [str(tmp_path / "operations"), str(tmp_path / "signals")]
    common = ["replay", *inputs, "--cancels", str(tmp_path / "cancels"), "--json"]
    here, there = tmp_path / "here", tmp_path / "there"
    assert main([*common, "--out", str(here)]) == 0
    expected = json.loads(capfd.readouterr().out)
    assert main([*common, "--out", str(there), "--master", "local[2]"]) == 0
    told = capfd.readouterr()
    output = json.loads(told.out)
    assert "replaying on Spark" in told.err
    assert "WARN" not in told.err
    for name in ("operations", "completed", "expired", "cancelled", "pending", "rejected_rows"):
        assert output[name] == expected[name]
    assert output["engine"] == "spark"
    for part in ("outcomes", "pending", "rejected"):
        assert answer(there, part) == answer(here, part)
    assert sorted(path.name for path in there.iterdir()) == [
        "_sojourn_files", "outcomes", "pending", "rejected",
    ]  # fmt: skip


@pytest.mark.nightly
def test_the_sample_has_one_answer_in_every_format_on_both_engines(tmp_path: Path) -> None:
    """Late, doubled and broken rows among them."""
    trace = sample.make(3_000, seed=11)
    tables = {"operations": trace.operations, "signals": trace.signals, "cancels": trace.cancels}
    answers: dict[str, list[Any]] = {}
    for form, write in FORMS.items():
        for name, table in tables.items():
            write(tmp_path / form / name, table.slice(0, len(table) // 2), 0)
            write(tmp_path / form / name, table.slice(len(table) // 2), 1)
        inputs = [str(tmp_path / form / name) for name in tables]
        common = ["replay", *inputs[:2], "--cancels", inputs[2], "--quiet", "--out"]
        here, there = tmp_path / form / "here", tmp_path / form / "there"
        assert main([*common, str(here)]) == 0
        assert main([*common, str(there), "--master", "local[2]"]) == 0
        for part in ("outcomes", "pending", "rejected"):
            assert answer(there, part) == answer(here, part)
        reasons = Counter((row["table"], row["reason"]) for row in answer(here, "rejected"))
        answers[form] = [answer(here, "outcomes"), reasons]
    first = answers["parquet"]
    assert len(first[0]) > 2_900
    assert len(first[1]) > 3
    for form in FORMS:
        assert answers[form] == first


def parquet(folder: Path, table: pa.Table, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"{number}.parquet")


def timestamps(folder: Path, table: pa.Table, number: int) -> None:
    for n, field in enumerate(table.schema):
        if field.name in ("submitted_ms", "at_ms"):
            stamps = table.column(n).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
            table = table.set_column(n, field.name, stamps)
    parquet(folder, table, number)


def json_lines(folder: Path, table: pa.Table, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(row)}\n" for row in table.to_pylist())
    (folder / f"{number}.json.gz").write_bytes(gzip.compress(lines.encode()))


def comma_separated(folder: Path, table: pa.Table, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{number}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table.column_names)
        for row in table.to_pylist():
            values = (json.dumps(v) if isinstance(v, list) else v for v in row.values())
            writer.writerow("" if v is None else v for v in values)


def mixed(folder: Path, table: pa.Table, number: int) -> None:
    (comma_separated if number else parquet)(folder, table, number)


FORMS = {
    "parquet": parquet,
    "timestamps": timestamps,
    "json": json_lines,
    "csv": comma_separated,
    "mixed": mixed,
}


@pytest.mark.nightly
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_spark_works_leaves_one_line_and_nothing_half_written(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    sample.write(sample.make(50_000, seed=5), tmp_path, format="parquet", files=2)
    inputs = [str(tmp_path / "operations"), str(tmp_path / "signals")]
    more = ["--master", "local[2]", "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "sojourn", "replay", *inputs, *more]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "replaying on Spark" in line:
            break
    if number == signal.SIGINT:  # as a terminal sends it: to all of them
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    output = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == status, output
    assert output.splitlines()[-1] in ("terminated", "interrupted")
    assert "Traceback" not in output
    assert list((tmp_path / "out").iterdir()) == []
