"""A recording process is killed (-9) under load, again and again: nothing is lost or doubled."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from sojourn import durable, history
from tests import seeds
from tests.history.kills import check_notes, kill, started, wait_for_notes

if TYPE_CHECKING:
    from pathlib import Path


def kill_often(folder: Path, kills: int) -> None:
    rng = random.Random(seeds.seed())
    notes = folder / "notes"
    notes.touch()
    for _ in range(kills):
        process = started("live", str(folder), f"{rng.random()}")
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
    kill_often(tmp_path, 3)


@pytest.mark.nightly
def test_a_recorder_killed_a_hundred_times(tmp_path: Path) -> None:
    kill_often(tmp_path, 100)
