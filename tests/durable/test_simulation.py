"""Random clients, failing writes and restarts: what was told is what §6 says, whatever happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import sojourn
from sojourn.durable import snapshots
from tests.durable.world import World

if TYPE_CHECKING:
    from pathlib import Path


def simulate(seed: int, operations: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    print(f"seed {seed}")  # pytest shows it if the test fails
    world = World(seed, folder / f"{seed}.db")
    monkeypatch.setattr(snapshots, "_JOURNAL_BYTES_LEAST", world.snapshot_bytes)
    monkeypatch.setattr(snapshots, "_PIECE_OPERATIONS", 30)
    monkeypatch.setattr(snapshots, "_PIECE_KEYS", 50)
    world.run(operations)
    world.check()
    world.close()
    return world


@pytest.mark.usefixtures("quiet_log")
def test_outcomes_are_those_of_the_oracle_over_faults_and_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20 if sojourn.compiled else 4
    worlds = [simulate(seed, 2_500, tmp_path, monkeypatch) for seed in range(count)]
    assert sum(world.submissions for world in worlds) >= 2_500 * count
    # The worlds were not too kind.
    assert sum(world.restarts for world in worlds) > 5 * count
    assert sum(world.snapshots for world in worlds) > 5 * count
    assert sum(world.faults.failed for world in worlds) > 10 * count
    assert sum(world.refused for world in worlds) > 50 * count
    statuses = {outcome.status for world in worlds for outcome in world.feed}
    assert statuses == {"completed", "expired", "cancelled"}


@pytest.mark.nightly
@pytest.mark.usefixtures("quiet_log")
def test_outcomes_are_those_of_the_oracle_a_million_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(1_000, 1_200):
        simulate(seed, 5_000, tmp_path, monkeypatch)
        (tmp_path / f"{seed}.db").unlink()
