"""Processes that record a history, and are killed (-9)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import sojourn
from tests.checkout import ROOT
from tests.history.world import read


def started(*arguments: str) -> subprocess.Popen[str]:
    build = {} if sojourn.compiled else {"SOJOURN_PURE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.history.process", *arguments],
        cwd=ROOT,
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


def simulate_hour(folder: Path, minutes: int, kills: int, rng: random.Random) -> int:
    """Let processes simulate so much time; kill them that often on the way; return how often."""
    notes = folder / "notes"
    notes.touch()
    killed = 0
    while True:
        process = started("hour", str(folder), f"{rng.random()}", str(minutes))
        if killed < kills:
            wait_for_notes(process, notes, notes.stat().st_size + rng.randrange(800_000))
        if killed == kills or process.poll() is not None:
            output, _ = process.communicate()
            assert output == "over\n"
            assert process.returncode == 0
            return killed
        kill(process)
        killed += 1
