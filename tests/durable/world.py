"""A durable purgatory in a simulated world: a hand-moved clock, writes that fail, restarts.

Everything is drawn from a seed. Clients send commands in bunches and note what is acknowledged,
with the times that the answers give; nothing else. What the file tells must then be what the naive
oracle says of the acknowledged rows, and what `replay.resolve` says of the journal.
"""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sojourn import ManualClock, replay
from sojourn.durable import Answer, Operation, schema
from sojourn.durable.machine import Machine
from sojourn.durable.plan import Plan
from sojourn.durable.records import BatchRecord
from sojourn.durable.requests import Request
from sojourn.durable.shell import Shell
from sojourn.durable.store import Store
from sojourn.durable.submissions import checked_submission, read_submission
from sojourn.errors import IdTaken, NotWritten
from tests.rows import oracle as rows_oracle

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Row = dict[str, Any]
WEEK_MS = 7 * 86_400_000
OUTCOME = ("id", "status", "at_ms", "by_key", "waited_ms")

REQUIRES = pa.list_(pa.struct([("key", pa.string()), ("offset", pa.int64())]))
OPERATIONS = pa.schema(
    [
        ("id", pa.string()),
        ("submitted_ms", pa.int64()),
        ("timeout_ms", pa.int64()),
        ("requires", REQUIRES),
        ("needed", pa.int64()),
    ]
)
SIGNALS = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())])
CANCELS = pa.schema([("id", pa.string()), ("at_ms", pa.int64())])


@dataclass
class Faults:
    """Which statements fail."""

    rng: random.Random
    rate: float = 0.0
    failed: int = 0

    def maybe(self, statement: str) -> None:
        if self.rate and statement.startswith(("BEGIN", "INSERT", "DELETE", "COMMIT")):
            share = self.rate * (3 if statement == "COMMIT" else 1)
            if self.rng.random() < share:
                self.failed += 1
                raise sqlite3.OperationalError(f"database or disk is full (injected: {statement})")


class FaultyConnection:
    """An SQLite connection whose statements may fail, and which never waits for the disk."""

    def __init__(self, path: str, faults: Faults) -> None:
        self._connection = schema.connect(path)
        self._faults = faults

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        self._faults.maybe(statement)
        if statement == "PRAGMA synchronous = FULL":
            statement = "PRAGMA synchronous = OFF"
        return self._connection.execute(statement, parameters)

    def close(self) -> None:
        self._connection.close()


def connect_unsynced(path: str) -> Any:
    """For tests that are about something else than the disk: it need not be waited for."""
    return FaultyConnection(path, Faults(random.Random(0)))


class RecordingStore(Store):
    """Keeps a copy of the whole journal, which snapshots trim in the file."""

    history: list[tuple[int, BatchRecord]]

    def write(self, plan: Plan, *rest: Any) -> None:
        super().write(plan, *rest)
        if len(plan):
            self.history.append((plan.time_ms, plan.record))


@dataclass
class World:
    """One file, its clients, and what they were told."""

    seed: int
    path: Path
    operations: list[Row] = field(default_factory=list)  # acknowledged
    signals: list[Row] = field(default_factory=list)
    cancels: list[Row] = field(default_factory=list)
    feed: list[Operation] = field(default_factory=list)
    history: list[tuple[int, BatchRecord]] = field(default_factory=list)
    restarts: int = 0
    refused: int = 0
    fault_rate: float = 0.02
    restart_rate: float = 0.04
    snapshot_bytes: int = 4_000
    snapshots: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.faults = Faults(self.rng)
        self.clock = ManualClock(self.rng.randrange(10**9))
        self.skew_ms = 0
        self.contents: dict[str, Row] = {}  # asked for, acknowledged or not
        self.submitted_ms: dict[str, int] = {}  # acknowledged
        self.offsets: dict[str, int] = {}
        self.submissions = 0
        self.open()

    def open(self) -> None:
        self.faults.rate = 0.0
        self.store = RecordingStore(self.path, lambda path: FaultyConnection(path, self.faults))
        self.store.history = self.history
        machine = Machine()
        self.shell = Shell(
            self.store, machine, self.clock, lambda: self.clock.now_ms + self.skew_ms, WEEK_MS
        )
        self.faults.rate = self.fault_rate

    def crash(self) -> None:
        """The process is gone; the clock may be set back or ahead before the next one starts."""
        self.restarts += 1
        self.close()
        self.skew_ms = self.rng.choice([0, 0, -3_600_000, 86_400])
        self.clock.advance(self.rng.choice([0, 1, 50, 5_000]))
        self.open()

    def close(self) -> None:
        if self.store._snapshots.last is not None:
            self.snapshots = self.store._snapshots.last.snapshot
        self.store.close()

    def run(self, operations: int) -> None:
        """Let clients come and go until so many submissions were sent; then let all end."""
        while self.submissions < operations:
            self.clock.advance(self.rng.choice([0, 0, 1, 1, 2, 5, 20, 100]))
            if self.rng.random() < self.restart_rate:
                self.crash()
            self.turn()
        self.faults.rate = 0.0
        while len(self.shell):
            self.clock.advance(10**6)
            self.shell.step()
        self.read_feed()

    def turn(self) -> None:
        requests = [self.request() for _ in range(self.rng.choice([0, 1, 1, 5, 20, 60]))]
        for request, _ in requests:
            self.shell.enqueue(request)
        self.shell.step()
        # A cancel sees what is submitted in the same batch, also behind it.
        for request, rows in sorted(requests, key=lambda sent: bool(sent[0].cancels)):
            self.note(request, rows)
        if self.rng.random() < 0.2:
            self.read_feed()

    def request(self) -> tuple[Request, list[Any]]:
        kind = self.rng.random()
        if kind < 0.45:
            rows: list[Any] = [self.submission() for _ in range(self.rng.choice([1, 1, 1, 4]))]
            self.submissions += len(rows)
            checked = [
                checked_submission(
                    row["id"],
                    [(item["key"], item["offset"]) for item in row["requires"]],
                    row["timeout_ms"],
                    row["needed"],
                )
                for row in rows
            ]
            return Request(submissions=checked), rows
        if kind < 0.9:
            rows = [self.signal() for _ in range(self.rng.choice([1, 1, 3]))]
            return Request(signals=rows), rows
        rows = [self.some_id()]
        return Request(cancels=rows), rows

    def submission(self) -> Row:
        rng = self.rng
        if self.contents and rng.random() < 0.1:  # again, perhaps with other content
            row = dict(self.contents[self.some_id()])
            if rng.random() < 0.3:
                row["timeout_ms"] += 1
            return row
        id = f"op-{self.submissions}-{rng.randrange(10)}"
        count = rng.choice([1, 1, 2, 3, 4])
        requires: list[Row] = [{"key": self.some_key(), "offset": 0} for _ in range(count)]
        for item in requires:
            item["offset"] = self.offsets.get(item["key"], 0) + rng.randrange(-2, 6)
        row = {
            "id": id,
            "timeout_ms": rng.choice([0, 1, 3, 10, 100, 1_000, 100_000]),
            "requires": requires,
            "needed": rng.choice([None, 1, rng.randint(1, count)]),
        }
        self.contents.setdefault(id, row)
        return row

    def signal(self) -> tuple[str, int]:
        key = self.some_key()
        offset = self.offsets.get(key, 0) + self.rng.randrange(-1, 4)
        self.offsets[key] = max(offset, self.offsets.get(key, offset))
        return key, offset

    def some_key(self) -> str:
        rng = self.rng
        return f"{rng.choice('abcdefgh')}{rng.choice(['', '', rng.randrange(40)])}"

    def some_id(self) -> str:
        if not self.contents:
            return "nobody"
        recent = list(self.contents)[-200:]
        return self.rng.choice(recent)

    def note(self, request: Request, rows: list[Any]) -> None:
        """Note what was acknowledged, and check that each answer fits what was told before."""
        assert request.is_answered
        error = request.error
        if error is not None:
            assert isinstance(error, NotWritten), error
            assert "injected" in str(error), error
            self.refused += len(rows)
            return
        for row, answer in zip(rows, request.result(), strict=True):
            if request.signals:
                self.signals.append({"key": row[0], "offset": row[1], "at_ms": answer.at_ms})
            elif request.cancels:
                self.cancels.append({"id": row, "at_ms": answer.at_ms})
                assert (answer.verdict == "unknown") == (row not in self.submitted_ms)
            else:
                self.note_submission(row, answer)

    def note_submission(self, row: Row, answer: Answer) -> None:
        id = row["id"]
        if answer.verdict == "accepted":
            assert id not in self.submitted_ms
            assert answer.operation is not None
            assert answer.operation.submitted_ms == answer.at_ms
            self.contents[id] = row
            self.submitted_ms[id] = answer.operation.submitted_ms
            needed = row["needed"] or len(row["requires"])
            self.operations.append({**row, "submitted_ms": answer.at_ms, "needed": needed})
        elif answer.verdict == "duplicate":
            assert answer.operation is not None
            assert answer.operation.submitted_ms == self.submitted_ms[id]
        else:
            assert isinstance(answer.error, IdTaken)
            assert id in self.submitted_ms

    def read_feed(self) -> None:
        after = len(self.feed)
        while fresh := self.store.outcomes(after, self.shell.followers.last_outcome, 500):
            self.feed += fresh
            after = len(self.feed)

    # What must hold.

    def check(self) -> None:
        outcome_rows = [as_row(outcome) for outcome in self.feed]
        assert [outcome.number for outcome in self.feed] == list(range(1, len(outcome_rows) + 1))
        assert (
            self.store.outcomes(0, self.shell.followers.last_outcome, 10**9) == self.feed
        )  # nothing changed
        times = [row["at_ms"] for row in outcome_rows]
        assert times == sorted(times)
        arrival = {row["id"]: n for n, row in enumerate(self.operations)}
        moments: dict[tuple[int, str], list[int]] = {}  # those that ended so, at that time
        for row in outcome_rows:
            moments.setdefault((row["at_ms"], row["status"]), []).append(arrival[row["id"]])
        assert all(arrivals == sorted(arrivals) for arrivals in moments.values())
        wanted = by_id(rows_oracle.resolve(self.operations, self.signals, self.cancels).outcomes)
        assert by_id(outcome_rows) == wanted
        operations, signals, cancels = rows_of(self.history)
        resolution = replay.resolve(
            pa.Table.from_pylist(operations, OPERATIONS),
            pa.Table.from_pylist(signals, SIGNALS),
            pa.Table.from_pylist(cancels, CANCELS),
        )
        assert len(resolution.rejected) == 0
        assert by_id(resolution.outcomes.to_pylist()) == wanted


def as_row(outcome: Operation) -> Row:
    return {name: getattr(outcome, name) for name in OUTCOME}


def by_id(rows: Iterable[Row]) -> dict[str, Row]:
    return {row["id"]: {name: row[name] for name in OUTCOME} for row in rows}


def rows_of(history: Iterable[tuple[int, BatchRecord]]) -> tuple[list[Row], list[Row], list[Row]]:
    """The operations, signals and cancels."""
    operations: list[Row] = []
    signals: list[Row] = []
    cancels: list[Row] = []
    ids: dict[int, str] = {}
    sequence = 0
    for time_ms, record in history:
        for key, offset in record.signals:
            signals.append({"key": key, "offset": offset, "at_ms": time_ms})
        sequence += len(record.signals)
        for content in record.submissions:
            sequence += 1
            submission = read_submission(content)
            ids[sequence] = submission.id
            requires = submission.requires
            operations.append(
                {
                    "id": submission.id,
                    "submitted_ms": time_ms,
                    "timeout_ms": submission.timeout_ms,
                    "requires": [
                        {"key": requires[n], "offset": requires[n + 1]}
                        for n in range(0, len(requires), 2)
                    ],
                    "needed": submission.needed,
                }
            )
        cancels += [{"id": ids[number], "at_ms": time_ms} for number in record.cancelled]
        sequence += len(record.cancelled)
    return operations, signals, cancels
