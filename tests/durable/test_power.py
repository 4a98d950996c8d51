"""Power cuts on a simulated disk: whatever of the unsynced writes is left, the promise holds."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import sojourn
from sojourn import ManualClock
from sojourn.durable import snapshots, store
from sojourn.durable.machine import Machine
from sojourn.durable.records import read_batch
from sojourn.durable.shell import Shell
from sojourn.durable.store import Store
from sojourn.errors import BadFile
from tests.durable.world import WEEK_MS, World, as_row, by_id, connect_unsynced, rows_of
from tests.rows import oracle

pytest.importorskip("apsw")

from tests.durable.disk import Connection, Disk, HastyConnection, lay_out

if TYPE_CHECKING:
    from pathlib import Path


class PoweredWorld(World):
    """A world on a recorded disk, which notes at which entry of the record it was told what."""

    def __init__(self, seed: int, path: Path, kind: type[Connection], **options: Any) -> None:
        self.disk = Disk()
        self.kind = kind
        self.options = options
        self.told: list[tuple[int, int, int, int, int]] = []
        super().__init__(seed, path, restart_rate=0.0, fault_rate=0.0, snapshot_bytes=15_000)

    def open(self) -> None:
        connection = self.kind(self.disk, str(self.path), **self.options)
        self.store = Store(self.path, lambda _: connection)  # type: ignore[assignment]
        self.shell = Shell(self.store, Machine(), self.clock, lambda: self.clock.now_ms, WEEK_MS)
        self.faults.rate = 0.0

    def turn(self) -> None:
        super().turn()
        self.read_feed()
        self.told.append(
            (
                len(self.disk.entries),
                len(self.operations),
                len(self.signals),
                len(self.cancels),
                len(self.feed),
            )
        )

    def check_after_cut(self, at: int, rng: random.Random, folder: Path) -> None:
        """The power goes after so many entries: everything told before that is there."""
        lay_out(self.disk.after_cut(at, rng), folder)
        before = [told for told in self.told if told[0] <= at]
        _, operations, signals, cancels, outcomes = before[-1] if before else (0, 0, 0, 0, 0)
        path = folder / self.path.name
        opened = Store(path, connect_unsynced)
        try:
            shell = Shell(opened, Machine(), ManualClock(), lambda: 0, WEEK_MS)
            # What was acknowledged is known, and what was told has not changed.
            feed = opened.outcomes(0, shell.followers.last_outcome, 10**9)
            assert feed[:outcomes] == self.feed[:outcomes]
            ids = [row["id"] for row in self.operations[:operations]]
            ended = opened.find([id for id in ids if shell.machine.get(id) is None])
            for row in self.operations[:operations]:
                operation = shell.machine.get(row["id"]) or ended.get(row["id"])
                assert operation is not None, row
                assert operation.submitted_ms == row["submitted_ms"]
            for row in self.signals[:signals]:
                progress = shell.machine.progress(row["key"])
                assert progress is not None
                assert progress >= row["offset"]
            assert cancels <= len(self.cancels)
            check_history(path, feed)
        finally:
            opened.close()


def check_history(path: Path, feed: list[Any]) -> None:
    """If the file still has its whole journal, the outcomes in it follow from it."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT time_ms, body FROM journal ORDER BY batch").fetchall()
        (trimmed,) = connection.execute("SELECT count(*) FROM snapshots").fetchone()
    if trimmed or not rows:
        return
    wanted = oracle.resolve(
        *rows_of((time_ms, read_batch(body)) for time_ms, body in rows), until_ms=rows[-1][0]
    )
    # What is open at the last moment is not told before the next.
    last = [row for row in wanted.outcomes if row["status"] == "expired"]
    open_still = {row["id"] for row in last if row["at_ms"] == rows[-1][0]}
    outcomes = [row for row in wanted.outcomes if row["id"] not in open_still]
    assert by_id(map(as_row, feed)) == by_id(outcomes)


def cut_often(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    cuts: int,
    kind: type[Connection] = Connection,
    **options: Any,
) -> None:
    """Run a world, then cut the power at every sync and at random moments between."""
    print(f"seed {seed}")
    monkeypatch.setattr(store, "_CHECKPOINT_PAGES", 30)
    monkeypatch.setattr(snapshots, "_PIECE_OPERATIONS", 30)
    monkeypatch.setattr(snapshots, "_JOURNAL_BYTES_LEAST", PoweredWorld.snapshot_bytes)
    live, cut = folder / f"live-{seed}", folder / f"cut-{seed}"
    live.mkdir()
    cut.mkdir()
    world = PoweredWorld(seed, live / "waits.db", kind, **options)
    while world.submissions < 700:
        world.clock.advance(world.rng.choice([0, 1, 5, 50]))
        world.turn()
    rng = random.Random(seed)
    entries = world.disk.entries
    first = next(n for n, entry in enumerate(entries) if entry.kind == "sync")
    syncs = [n + d for n, entry in enumerate(entries) if entry.kind == "sync" for d in (0, 1)]
    moments = [
        rng.choice(syncs) if rng.random() < 0.6 else rng.randrange(first, len(entries) + 1)
        for _ in range(cuts)
    ]
    for at in sorted(moments):
        print(f"cut after {at} of {len(entries)}")
        world.check_after_cut(at, rng, cut)
    assert world.store._snapshots.last is not None


def test_what_was_told_survives_power_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(5 if sojourn.compiled else 1):
        cut_often(tmp_path, monkeypatch, seed, 100)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 150))
def test_what_was_told_survives_many_power_cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    cut_often(tmp_path, monkeypatch, seed, 400)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(Connection, {"synchronous": "NORMAL"}), (HastyConnection, {})],
    ids=["without a sync for each commit", "acknowledged before the commit"],
)
def test_the_simulated_disk_finds_a_store_that_promises_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Connection], options: Any
) -> None:
    with pytest.raises((AssertionError, BadFile)):
        cut_often(tmp_path, monkeypatch, 1, 200, kind, **options)
