"""A stream without Spark: the intake, both stages and the state between them, a batch at a time.

It does what Spark does around our code: groups rows by shard, keeps state that counts only when the
batch is done, runs a batch again that failed, at the time written down for it. Shards are given to
workers at random, each with a cache of its own, as Spark gives them. What takes Spark seconds takes
it milliseconds.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sojourn.spark import ledger, parcels
from sojourn.spark.ends import Unpack
from sojourn.spark.intake import WALL, Heartbeat, Intake
from sojourn.spark.ledger import Cache
from sojourn.spark.pace import SOURCES, Rule
from sojourn.spark.shards import IdShards, KeyShards, Plan

Row = dict[str, Any]
_OURS = ("id", "submitted_ms", "timeout_ms", "requires")


class Crash(Exception):
    """The worker is gone in the middle of a task."""


State = dict[Any, Any]  # what of a stream survives a batch


@dataclass
class Batch:
    """What Spark writes down before it runs a batch, so that it can be run again."""

    tables: dict[str, list[pa.Table]]  # by name, a table for each partition
    wall_ms: int
    beats: bool


class Stream:
    """One query: `run` a batch after the other, each with its tables."""

    def __init__(
        self,
        operations: pa.Schema,
        *,
        seed: int = 0,
        shards: int = 4,
        delay_ms: int = 100,
        idle: str = "event",
        follow: str | None = None,
        idle_after_ms: int | None = None,
        ahead_ms: int = 10**6,
        remember_ms: int = 86_400_000,
        forget_keys_after_ms: int | None = None,
        snapshot_every: int = 3,
        workers: int = 3,
        sources: tuple[str, ...] = SOURCES,
    ) -> None:
        columns = pa.schema([f for f in operations if f.name not in _OURS])
        sealed = bytes(columns.serialize())
        self.on_wall = idle == "wall"
        self.ahead_ms = ahead_ms if self.on_wall else None
        self.plan = Plan(
            name=f"stream {seed}",
            shards=shards,
            rule=Rule(
                sources=tuple(SOURCES.index(name) for name in sources),
                delay_ms=delay_ms,
                slowest=follow == "slowest" or (follow is None and self.on_wall),
                idle_after_ms=(delay_ms if idle_after_ms is None else idle_after_ms)
                if self.on_wall
                else None,
            ),
            remember_ms=remember_ms,
            forget_keys_after_ms=remember_ms
            if forget_keys_after_ms is None
            else forget_keys_after_ms,
            snapshot_every=snapshot_every,
            columns=sealed,
            order=tuple(operations.names),
        )
        self.out: list[Row] = []
        self.held: dict[str, Any] = {}  # as of the last batch
        self.state: State = {}
        self._unpack = Unpack(sealed)
        self._rng = random.Random(seed)
        self._workers = [Cache() for _ in range(workers)]

    def run(
        self, tables: dict[str, Any], wall_ms: int = 0, crashes: int = 0, beats: bool = False
    ) -> list[Row]:
        """Run a batch, after so many attempts that crash somewhere; return what came out."""
        parts = {k: v if isinstance(v, list) else [v] for k, v in tables.items()}
        batch = Batch(parts, wall_ms, beats)
        for _ in range(crashes):
            try:
                self._attempt(batch, self._rng.randrange(1, 2 * self.plan.shards))
            except Crash:
                continue
        ends, self.state = self._attempt(batch, None)
        held = [row for row in ends if row["kind"] == parcels.HELD]
        self.held = {name: sum(row[name] for row in held) for name in parcels.HOLDINGS}
        self.held["time_ms"] = held[0]["time_ms"] if held else None
        assert len({row["time_ms"] for row in held}) <= 1, "shards keep different times"
        rows = self._unpacked(ends)
        self.out += rows
        return rows

    def restart(self) -> None:
        """Lose all workers, as when the driver is started again."""
        self._workers = [Cache() for _ in self._workers]

    def _attempt(self, batch: Batch, steps: int | None) -> tuple[list[Row], State]:
        task = _Task(copy.copy(self.state), steps, self)
        taken = []
        for name, parts in batch.tables.items():
            columns = self.plan.columns if name == "operations" else b""
            take = Intake(name, self.plan.shards, columns, self.ahead_ms)
            for part in parts:
                taken += _rows(take(iter(self._at(part, batch).to_batches(max_chunksize=70))))
        if batch.beats:
            beat = self._at(pa.table({"value": [1]}), batch)
            taken += _rows(Heartbeat(self.plan.shards)(iter(beat.to_batches())))
        news = task.stage("keys", KeyShards(self.plan), taken)
        return task.stage("ids", IdShards(self.plan), news), task.state

    def _at(self, table: pa.Table, batch: Batch) -> pa.Table:
        if not self.on_wall:
            return table
        return table.append_column(WALL, pa.array([batch.wall_ms] * len(table), pa.int64()))

    def _unpacked(self, ends: list[Row]) -> list[Row]:
        schema = pa.schema([("kind", pa.int8()), ("body", pa.binary())])
        found = pa.RecordBatch.from_pylist(
            [{"kind": row["kind"], "body": row["body"]} for row in ends], schema
        )
        return [row for piece in self._unpack([found]) for row in piece.to_pylist()]


class _Task:
    """An attempt at a batch; handed to our processors as Spark's handle."""

    def __init__(self, state: State, steps: int | None, stream: Stream) -> None:
        self.state = state
        self.place: Any = None
        self._steps = steps
        self._stream = stream

    def stage(self, name: str, processor: Any, rows: list[Row]) -> list[Row]:
        groups: dict[int, list[Row]] = {}
        for row in rows:
            groups.setdefault(row["shard"], []).append(row)
        out: list[Row] = []
        for shard in self._stream._rng.sample(sorted(groups), len(groups)):
            self.place = (name, shard)
            ledger._cache = self._stream._rng.choice(self._stream._workers)
            processor.init(self)
            found = processor.handleInputRows((shard,), iter(groups[shard]), None)
            out += [row.asDict() for row in found]
            if self._steps is not None:
                self._steps -= 1
                if self._steps <= 0:
                    raise Crash
        return out

    # What a processor calls.

    def getValueState(self, name: str, schema: Any) -> _Value:
        return _Value(self, name)

    def getMapState(self, name: str, key_schema: Any, schema: Any) -> _Map:
        return _Map(self, name)


class _Value:
    def __init__(self, task: _Task, name: str) -> None:
        self._values, self._place = task.state, (*task.place, name)

    def get(self) -> Any:
        return self._values.get(self._place)

    def update(self, value: Any) -> None:
        self._values[self._place] = value


class _Map:
    def __init__(self, task: _Task, name: str) -> None:
        self._values, self._place = task.state, (*task.place, name)

    def getValue(self, key: Any) -> Any:
        return self._values[*self._place, key]

    def updateValue(self, key: Any, value: Any) -> None:
        self._values[*self._place, key] = value

    def removeKey(self, key: Any) -> None:
        del self._values[*self._place, key]


def _rows(batches: Any) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]
