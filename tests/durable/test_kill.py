"""kill -9 under load: nothing acknowledged is lost, nothing ends twice, nothing told changes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sojourn
from sojourn import durable
from tests.checkout import ROOT
from tests.durable.process import fields
from tests.until import PATIENCE_S, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")


KINDS = {"submit", "signal", "cancel", "outcome", "position"}


def run_and_kill(path: Path, notes: Path, seed: int, after_s: float, is_last: bool) -> None:
    build = {} if sojourn.compiled else {"SOJOURN_PURE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.durable.process", str(path), str(notes), str(seed)],
        cwd=ROOT,
        env=os.environ | build,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    if process.stdout.readline() != b"ready\n":  # it does not start: say why
        pytest.fail(process.stderr.read().decode())
    time.sleep(after_s)  # the moment of the kill is real time
    if is_last:  # on a busy machine little may have happened so far
        until(lambda: {note[0] for note in noted(notes)} == KINDS, "notes of every kind")
    process.send_signal(signal.SIGKILL)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL, stderr.decode()


def kill_many(folder: Path, kills: int, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    path, notes = folder / "waits.db", folder / "notes"
    for n in range(kills):
        is_last = n == kills - 1
        run_and_kill(path, notes, seed * 1_000 + n, rng.uniform(0.0, 0.4), is_last)
    check(path, noted(notes))


def noted(notes: Path) -> list[list[Any]]:
    return [json.loads(line) for line in notes.read_text().splitlines()]


def check(path: Path, notes: list[list[Any]]) -> None:
    with durable.Purgatory(path) as waits:
        outcomes: list[durable.Operation] = []
        while some := waits.outcomes(after=len(outcomes)):
            outcomes += some
        assert [outcome.number for outcome in outcomes] == list(range(1, len(outcomes) + 1))
        assert len({outcome.id for outcome in outcomes}) == len(outcomes)
        position = 0
        told = dict.fromkeys(KINDS, 0)
        for kind, *row in notes:
            told[kind] += 1
            if kind == "submit":
                operation = waits.get(row[0])
                assert operation is not None
                assert operation.submitted_ms == row[1]
            elif kind == "signal":
                progress = waits.progress(row[0])
                assert progress is not None
                assert progress >= row[1]
            elif kind == "cancel":
                cancelled = waits.get(row[0])
                if row[2] == "accepted":
                    assert cancelled is not None
                    assert (cancelled.status, cancelled.at_ms) == ("cancelled", row[1])
            elif kind == "outcome":
                assert row == fields(outcomes[row[-1] - 1])
            else:
                position = row[0]
        assert waits.subscription("notes").position >= position
        assert min(told.values()) > 0, told


@pytest.mark.usefixtures("quiet_log")
def test_nothing_is_lost_or_changed_by_kill_9(tmp_path: Path) -> None:
    kill_many(tmp_path, 10 if sojourn.compiled else 3, seed=1)


@pytest.mark.nightly
@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("seed", range(2, 12))
def test_nothing_is_lost_or_changed_by_30_kills(tmp_path: Path, seed: int) -> None:
    kill_many(tmp_path, 30, seed)
