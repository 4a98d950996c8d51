"""Random traffic on a durable purgatory with a history, on a hand-moved clock, from a seed.

Keys are forgotten soon and ids are remembered briefly, so both come again. The file is closed and
opened, recorders are dropped in the middle of their work, hours pass. Clients note what was
acknowledged; the naive oracle below, which shares no code with the package, says from the notes
and the forgettings how each operation must have ended.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import ManualClock, durable, history
from sojourn.durable import disk, schema
from sojourn.history import folder as folder_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row = dict[str, Any]
TABLES = ("operations", "signals", "cancels", "outcomes", "forgotten")
OUTCOME = ("id", "status", "at_ms", "by_key", "waited_ms")


class Dropped(Exception):
    """Stands for the end of the process."""


@dataclass
class World:
    """One file, its recorder and its clients."""

    seed: int
    path: Path
    forget_keys_after_ms: int | None = 400
    retention_ms: int = 300
    part_rows: int = 40
    restart_rate: float = 0.01
    drop_rate: float = 0.02
    hour_rate: float = 0.01
    operations: list[Row] = field(default_factory=list)  # acknowledged
    signals: list[Row] = field(default_factory=list)
    cancels: list[Row] = field(default_factory=list)
    drops: int = 0
    restarts: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.clock = ManualClock(self.rng.randrange(1_700_000_000_000, 1_800_000_000_000))
        self.offsets: dict[str, int] = {}
        self.numbers = 0
        self.data = self.path / "waits.db"
        self.folder = self.path / "history"
        self.open()

    def open(self) -> None:
        self.waits = opened(
            self.data,
            self.clock,
            retention_ms=self.retention_ms,
            forget_keys_after_ms=self.forget_keys_after_ms,
        )
        self.start_recorder()

    def start_recorder(self) -> None:
        self.recorder = history.Recorder(self.waits, self.folder, part_rows=self.part_rows)
        self.recorder.start()

    def close(self) -> None:
        self.recorder.close()
        self.waits.close()

    def run(self, commands: int) -> None:
        rng = self.rng
        for _ in range(commands):
            self.clock.advance(rng.choice([0, 0, 1, 1, 2, 10, 60, 200]))
            if rng.random() < self.hour_rate:
                self.clock.advance(rng.choice([1_000_000, 3_600_000, 10_000_000]))
            if rng.random() < self.restart_rate:
                self.restarts += 1
                self.close()
                self.clock.advance(rng.choice([0, 5, 1_000, 4_000_000]))
                self.open()
            self.command()
            if rng.random() < 0.05:
                self.recorder.flush()
            elif rng.random() < self.drop_rate:
                self.drop_recorder(rng.randrange(20))
        self.recorder.flush()

    def drop_recorder(self, after: int) -> None:
        """It ends in the middle of a flush, as if killed; another one goes on."""
        self.drops += 1
        with ending(after), contextlib.suppress(Dropped):
            self.recorder.flush()
        abandon(self.recorder)
        self.start_recorder()

    def command(self) -> None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.45:
            rows = [self.submission() for _ in range(rng.choice([1, 1, 3]))]
            answers = self.waits.submit_many(
                [
                    (
                        row["id"],
                        [(item["key"], item["offset"]) for item in row["requires"]],
                        row["timeout_ms"],
                        row["needed"],
                        rng.choice(["", "slow"]),
                        rng.choice([None, b"\0\xff", "text", {"n": 1}]),
                    )
                    for row in rows
                ]
            )
            for row, answer in zip(rows, answers, strict=True):
                if answer.verdict == "accepted":
                    needed = row["needed"] or len(row["requires"])
                    self.operations.append({**row, "submitted_ms": answer.at_ms, "needed": needed})
        elif kind < 0.9:
            for key, offset in [self.signal() for _ in range(rng.choice([1, 1, 3]))]:
                answer = self.waits.signal(key, offset)
                if answer.verdict == "accepted":
                    self.signals.append({"key": key, "offset": offset, "at_ms": answer.at_ms})
        elif self.operations:
            id = rng.choice(self.operations[-30:])["id"]
            answer = self.waits.cancel(id)
            if answer.verdict == "accepted":
                self.cancels.append({"id": id, "at_ms": answer.at_ms})

    def submission(self) -> Row:
        rng = self.rng
        self.numbers += 1
        count = rng.choice([1, 1, 2, 3])
        requires: list[Row] = [{"key": self.some_key(), "offset": 0} for _ in range(count)]
        for item in requires:
            item["offset"] = self.offsets.get(item["key"], 0) + rng.randrange(-3, 5)
        return {
            "id": f"op-{rng.randrange(60)}" if rng.random() < 0.3 else f"op-x{self.numbers}",
            "timeout_ms": rng.choice([0, 1, 5, 50, 500, 5_000, 1_000_000]),
            "requires": requires,
            "needed": rng.choice([None, 1, rng.randint(1, count)]),
        }

    def signal(self) -> tuple[str, int]:
        key = self.some_key()
        if self.rng.random() < 0.1:
            self.offsets[key] = 0
        offset = self.offsets.get(key, 0) + self.rng.randrange(-1, 4)
        self.offsets[key] = max(offset, self.offsets.get(key, offset))
        return key, offset

    def some_key(self) -> str:
        # Some are the beginnings of others, with the characters that names.py uses.
        return self.rng.choice(["k", "k\0", "k\0\0", "k\0\x01", "k1", "ka", "l", "m", "n/2", "ö"])


class ending:
    """Within it the n-th step of writing the history raises, and all that follow."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __enter__(self) -> ending:
        self._before = folder_file._put_in_place, disk.sync
        put, sync = self._before

        def maybe(step: Any) -> Any:
            def taken(*args: Any) -> None:
                self.left -= 1
                if self.left < 0:
                    raise Dropped
                step(*args)

            return taken

        folder_file._put_in_place = maybe(put)
        disk.sync = maybe(sync)
        return self

    def __exit__(self, *_: object) -> None:
        folder_file._put_in_place, disk.sync = self._before


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends is processes, not the power: the disk need not be waited for."""
    monkeypatch.setattr(disk, "sync", lambda path: None)


def opened(path: Path, clock: ManualClock, **options: Any) -> durable.Purgatory:
    """A purgatory on the clock whose file is not synced."""
    return durable.Purgatory(path, clock=clock, connect=Unsynced, **options)


def abandon(recorder: history.Recorder) -> None:
    """Let go of the folder without writing anything, as the end of a process does."""
    assert recorder._release is not None
    assert recorder._ignore is not None
    recorder._ignore()
    recorder._release()
    recorder._release = None


def read(folder: Path, table: str) -> list[Row]:
    """The rows as every reader of such folders sees them."""
    rows: list[Row] = []
    for path in sorted((folder / table).rglob("part-*.parquet")):
        rows += pq.ParquetFile(path).read().to_pylist()
    return rows


def naive_ends(
    operations: list[Row], signals: list[Row], cancels: list[Row], forgotten: list[Row]
) -> list[Row]:
    """How each operation ends, by the rules of rows; a key that was forgotten begins anew."""
    ends = []
    for row in operations:
        submitted_ms = row["submitted_ms"]
        moments = []
        for item in row["requires"]:
            since_ms = max(
                (
                    gone["at_ms"]
                    for gone in forgotten
                    if gone["key"] == item["key"] and gone["at_ms"] < submitted_ms
                ),
                default=-1,
            )
            reached = [
                max(signal["at_ms"], submitted_ms)
                for signal in signals
                if signal["key"] == item["key"]
                and signal["at_ms"] > since_ms
                and signal["offset"] >= item["offset"]
            ]
            if reached:
                moments.append((min(reached), item["key"]))
        moments.sort()
        deadline_ms = submitted_ms + row["timeout_ms"]
        held = moments[row["needed"] - 1][0] if len(moments) >= row["needed"] else None
        later = [other["submitted_ms"] for other in operations if other["id"] == row["id"]]
        until_ms = min((ms for ms in later if ms > submitted_ms), default=2**62)
        called_off = [
            cancel["at_ms"]
            for cancel in cancels
            if cancel["id"] == row["id"] and submitted_ms <= cancel["at_ms"] < until_ms
        ]
        cancel_ms = min(called_off, default=2**62)
        if cancel_ms <= deadline_ms and (held is None or cancel_ms < held):
            status, at_ms, by_key = "cancelled", cancel_ms, None
        elif held is not None and held <= deadline_ms:
            by_key = min(key for moment, key in moments if moment == held)
            status, at_ms = "completed", held
        else:
            status, at_ms, by_key = "expired", deadline_ms, None
        ends.append(
            {
                "id": row["id"],
                "status": status,
                "at_ms": at_ms,
                "by_key": by_key,
                "waited_ms": at_ms - submitted_ms,
            }
        )
    return ends


class Unsynced:
    """A connection that never waits for the disk: what ends here is processes, not the power."""

    def __init__(self, path: str) -> None:
        self._connection = schema.connect(path)
        self.executemany = self._connection.executemany
        self.close = self._connection.close

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        if statement == "PRAGMA synchronous = FULL":
            statement = "PRAGMA synchronous = OFF"
        return self._connection.execute(statement, parameters)


def parts(path: Path, table: str) -> list[Path]:
    return sorted((path / "history" / table).rglob("*.parquet"))


def change(path: Path, how: Callable[[list[Row]], list[Row]]) -> None:
    """Write the part again with other rows, as a fault would have left it."""
    table = pq.ParquetFile(path).read()
    pq.write_table(pa.Table.from_pylist(how(table.to_pylist()), table.schema), path)


def remove_first_hour(path: Path) -> None:
    """As docs/history.md says."""
    first = sorted(each.name for each in (path / "history/operations").iterdir())[0]
    for each in (path / "history").glob(f"*/{first}*"):
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()
