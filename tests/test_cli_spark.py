"""`sojourn replay` gives the same answer on Spark as in this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sojourn import sample
from sojourn.cli import main

pytest.importorskip("pyspark", reason="this needs PySpark")

from stream_driver import QUICK_JVM


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
    # The JVM is that of all tests in this process, if they come later.
    quick = ["--conf", f"spark.driver.defaultJavaOptions={QUICK_JVM}"]
    assert main([*common, "--out", str(there), "--master", "local[2]", *quick]) == 0
    told = capfd.readouterr()
    said = json.loads(told.out)
    assert "replaying on Spark" in told.err
    assert "WARN" not in told.err
    for name in ("operations", "completed", "expired", "cancelled", "pending", "rejected_rows"):
        assert said[name] == expected[name]
    assert said["engine"] == "spark"
    for part in ("outcomes", "pending", "rejected"):
        assert answer(there, part) == answer(here, part)
    assert sorted(path.name for path in there.iterdir()) == [
        "_sojourn_files", "outcomes", "pending", "rejected",
    ]  # fmt: skip


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
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == status, said
    assert said.splitlines()[-1] in ("terminated", "interrupted")
    assert "Traceback" not in said
    assert list((tmp_path / "out").iterdir()) == []
