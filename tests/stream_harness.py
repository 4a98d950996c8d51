"""A stream without Spark: the intake, both stages and the state between them, a batch at a time.

It does what Spark does around our code: groups rows by shard, keeps state that counts only when the
batch is done, moves the watermark, fires timers after rows, runs a batch again that failed. Shards
are given to workers at random, each with a cache of its own, as Spark gives them. What takes Spark
seconds takes it milliseconds.
"""

from __future__ import annotations

import copy
import random
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sojourn.spark import ledger
from sojourn.spark.intake import Heartbeat, Intake
from sojourn.spark.shards import IdShards, KeyShards, Plan
from sojourn.spark.stream import Unpack

Row = dict[str, Any]
_OURS = ("id", "submitted_ms", "timeout_ms", "requires")


class Crash(Exception):
    """The worker is gone in the middle of a task."""


@dataclass
class State:
    """What of a stream survives a batch."""

    values: dict[Any, Any] = field(default_factory=dict)
    timers: set[tuple[Any, int]] = field(default_factory=set)


@dataclass
class Batch:
    """What Spark writes down before it runs a batch, so that it can be run again."""

    tables: dict[str, list[pa.Table]]  # by name, a table for each partition
    watermark_ms: int
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
        remember_ms: int = 86_400_000,
        snapshot_every: int = 3,
        workers: int = 3,
    ) -> None:
        columns = pa.schema([f for f in operations if f.name not in _OURS])
        sealed = bytes(columns.serialize())
        self.plan = Plan(
            name=f"stream {seed}",
            shards=shards,
            delay_ms=delay_ms,
            wall_when_idle=idle == "wall",
            remember_ms=remember_ms,
            snapshot_every=snapshot_every,
            columns=sealed,
            order=tuple(operations.names),
        )
        self.out: list[Row] = []
        self.ways: list[str] = []  # how each engine was come by
        self._unpack = Unpack(sealed)
        self._rng = random.Random(seed)
        self._workers: list[Any] = [OrderedDict() for _ in range(workers)]
        self._state = State()
        self._latest_ms = 0
        self._watermark_ms = 0

    def run(
        self, tables: dict[str, Any], wall_ms: int = 0, crashes: int = 0, beats: bool = False
    ) -> list[Row]:
        """Run a batch, after so many attempts that crash somewhere; return what came out."""
        parts = {k: v if isinstance(v, list) else [v] for k, v in tables.items()}
        self._watermark_ms = max(self._watermark_ms, self._latest_ms - self.plan.delay_ms)
        batch = Batch(parts, self._watermark_ms, wall_ms, beats)
        for _ in range(crashes):
            try:
                self._attempt(batch, self._rng.randrange(1, 4 * self.plan.shards))
            except Crash:
                continue
        rows, self._state, latest_ms = self._attempt(batch, None)
        self._latest_ms = max(self._latest_ms, latest_ms)
        self.out += rows
        return rows

    def settle(self, wall_ms: int = 0) -> list[Row]:
        """Run a batch without rows, as Spark does when the watermark has moved."""
        return self.run({}, wall_ms)

    def restart(self) -> None:
        """Lose all workers, as when the driver is started again."""
        self._workers = [OrderedDict() for _ in self._workers]

    def _attempt(self, batch: Batch, steps: int | None) -> tuple[list[Row], State, int]:
        task = _Task(copy.deepcopy(self._state), batch, steps, self)
        bundles = []
        for name, parts in batch.tables.items():
            columns = self.plan.columns if name == "operations" else b""
            take = Intake(name, self.plan.shards, columns)
            for part in parts:
                bundles += _rows(take(iter(part.to_batches(max_chunksize=70))))
        if batch.beats:
            beat = pa.record_batch([pa.array([1])], ["value"])
            bundles += _rows(Heartbeat(self.plan.shards)(iter([beat])))
        latest_us = max((row["moment"].timestamp() for row in bundles), default=0)
        news = task.stage("keys", KeyShards(self.plan), bundles)
        ends = task.stage("ids", IdShards(self.plan), news)
        ends = [{"kind": row["kind"], "body": row["body"]} for row in ends]
        found = pa.RecordBatch.from_pylist(
            ends, pa.schema([("kind", pa.int8()), ("body", pa.binary())])
        )
        out = [row for piece in self._unpack([found]) for row in piece.to_pylist()]
        return out, task.state, round(latest_us * 1000)


class _Task:
    """An attempt at a batch; handed to our processors as Spark's handle and timer values."""

    def __init__(self, state: State, batch: Batch, steps: int | None, stream: Stream) -> None:
        self.state = state
        self._batch = batch
        self._steps = steps
        self._stream = stream
        self._place: Any = None

    def stage(self, name: str, processor: Any, rows: list[Row]) -> list[Row]:
        groups: dict[int, list[Row]] = {}
        for row in rows:
            groups.setdefault(row["shard"], []).append(row)
        out: list[Row] = []
        for shard in self._stream._rng.sample(sorted(groups), len(groups)):
            with self._worker(name, shard):
                processor.init(self)
                found = processor.handleInputRows((shard,), iter(groups[shard]), self)
                out += [row.asDict() for row in found]
        for place, timer_ms in sorted(self.state.timers):
            if place[0] == name and timer_ms <= self._batch.watermark_ms:
                with self._worker(*place):
                    processor.init(self)
                    found = processor.handleExpiredTimer(
                        key=(place[1],), timerValues=self, expiredTimerInfo=None
                    )
                    out += [row.asDict() for row in found]
                    self.state.timers.discard((place, timer_ms))
        return out

    def _worker(self, name: str, shard: int) -> _Task:
        self._place = (name, shard)
        return self

    def __enter__(self) -> None:
        ledger._cached = self._stream._rng.choice(self._stream._workers)

    def __exit__(self, *_: object) -> None:
        if self._steps is not None:
            self._steps -= 1
            if self._steps <= 0:
                raise Crash

    # What a processor calls.

    def getValueState(self, name: str, schema: Any) -> _Value:
        return _Value(self, name)

    def getMapState(self, name: str, key_schema: Any, schema: Any) -> _Map:
        return _Map(self, name)

    def registerTimer(self, timer_ms: int) -> None:
        self.state.timers.add((self._place, timer_ms))

    def deleteTimer(self, timer_ms: int) -> None:
        self.state.timers.discard((self._place, timer_ms))

    def getCurrentWatermarkInMs(self) -> int:
        return self._batch.watermark_ms

    def getCurrentProcessingTimeInMs(self) -> int:
        return self._batch.wall_ms


class _Value:
    def __init__(self, task: _Task, name: str) -> None:
        self._values, self._place = task.state.values, (*task._place, name)

    def get(self) -> Any:
        return self._values.get(self._place)

    def update(self, value: Any) -> None:
        self._values[self._place] = value


class _Map:
    def __init__(self, task: _Task, name: str) -> None:
        self._values, self._place = task.state.values, (*task._place, name)

    def getValue(self, key: Any) -> Any:
        return self._values[*self._place, key]

    def updateValue(self, key: Any, value: Any) -> None:
        self._values[*self._place, key] = value

    def removeKey(self, key: Any) -> None:
        del self._values[*self._place, key]


def _rows(batches: Any) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]
