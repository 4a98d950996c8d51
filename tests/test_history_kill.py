"""A recording process is killed (-9) under load, again and again: nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from history_world import read

import sojourn
from sojourn import durable, history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROCESS = Path(__file__).with_name("history_process.py")


def started(*arguments: str) -> subprocess.Popen[str]:
    build = {} if sojourn.compiled else {"SOJOURN_PURE": "1"}
    process = subprocess.Popen(
        [sys.executable, str(PROCESS), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | build,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def wait_for_notes(process: subprocess.Popen[str], path: Path, size: int) -> None:
    """Until that many bytes of notes are there, or it has ended."""
    while process.poll() is None and path.stat().st_size < size:
        try:
            process.wait(0.005)
        except subprocess.TimeoutExpired:
            continue


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def check_notes(folder: Path) -> dict[str, int]:
    """Everything that was acknowledged is in the history, once."""
    notes = [json.loads(line) for line in (folder / "notes").read_text().splitlines()]
    submitted = [(row["id"], row["submitted_ms"]) for row in read(folder / "history", "operations")]
    signalled = [
        (row["key"], row["offset"], row["at_ms"]) for row in read(folder / "history", "signals")
    ]
    cancelled = [(row["id"], row["at_ms"]) for row in read(folder / "history", "cancels")]
    counts = {}
    for kind, rows in (("submit", submitted), ("signal", signalled), ("cancel", cancelled)):
        assert len(rows) == len(set(rows))
        noted: set[tuple[Any, ...]] = {tuple(note[1:]) for note in notes if note[0] == kind}
        assert noted <= set(rows)
        counts[kind] = len(noted)
    return counts


def kill_often(folder: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    notes = folder / "notes"
    notes.touch()
    for n in range(kills):
        process = started("live", str(folder), f"{seed}-{n}")
        wait_for_notes(process, notes, notes.stat().st_size + rng.randrange(20_000, 100_000))
        kill(process)
    # Another process goes on from there and records the rest.
    with durable.Purgatory(folder / "waits.db") as waits:
        recorder = history.Recorder(waits, folder / "history")
        recorder.start()
        recorder.close()
    counts = check_notes(folder)
    assert counts["submit"] > 0
    assert counts["signal"] > 0
    found = history.verify(folder / "waits.db", folder / "history")
    assert found.counts == {}, found.differences
    assert found.is_complete
    assert found.proven > 0


def test_a_killed_recorder_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    kill_often(tmp_path, 3, random.randrange(10**6))


@pytest.mark.nightly
def test_a_recorder_killed_a_hundred_times(tmp_path: Path) -> None:
    kill_often(tmp_path, 100, random.randrange(10**6))


@pytest.mark.nightly
def test_an_hour_with_kills_is_proven_in_process_and_on_spark(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hour is simulated; the kills are not."""
    kills = simulate_hour(tmp_path, 60, 20, random.randrange(10**6))
    counts = check_notes(tmp_path)
    for session in (None, spark):
        found = history.verify(tmp_path / "waits.db", tmp_path / "history", spark=session)
        with capsys.disabled():
            print(f"\n{kills} kills, acknowledged {counts}: {found}")
        assert found.counts == {}, found.differences
        assert found.is_complete
        assert found.proven == found.rows["operations"]
        assert found.waiting == 0
        assert found.last_ms - found.first_ms >= 3_590_000


def simulate_hour(folder: Path, minutes: int, kills: int, seed: int) -> int:
    """Let processes simulate so much time; kill them that often on the way; return how often."""
    rng = random.Random(seed)
    notes = folder / "notes"
    notes.touch()
    killed = 0
    while True:
        process = started("hour", str(folder), f"{seed}-{killed}", str(minutes))
        if killed < kills:
            wait_for_notes(process, notes, notes.stat().st_size + rng.randrange(2_000_000))
        if killed == kills or process.poll() is not None:
            output, _ = process.communicate()
            assert output == "over\n"
            assert process.returncode == 0
            return killed
        kill(process)
        killed += 1
