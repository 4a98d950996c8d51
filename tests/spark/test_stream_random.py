"""Random streams through both stages, without Spark, against the naive oracle.

Rows come in any order within the delay, sources lag behind each other, fall silent and come back
with what they held, rows come from the future, workers crash, batches run again and drivers start
again. Which rows are late is worked out beside, by SEMANTICS §6 and nothing else; the answer must
be that of the oracle over all the others, row by row.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from sojourn import compiled
from sojourn.replay.rows import LATE
from tests.rows import oracle as rows_oracle
from tests.rows.traces import Row, Trace, random_trace
from tests.seeds import seed
from tests.spark.stream_harness import Stream
from tests.spark.stream_traces import TIMES
from tests.test_one_answer import differs

DELAY_MS, IDLE_AFTER_MS, AHEAD_MS = 150, 400, 1000
FUTURE = "from the future: its time is more than 1000 ms after it arrived"
RULES = [("wall", "slowest"), ("wall", "fastest"), ("event", "slowest"), ("event", "fastest")]
STREAMS, OPERATIONS = (3, 8400) if compiled else (1, 200)  # of each rule
SPAN_MS = 8000
THE_END_MS = 9 * 10**8

Rows = dict[str, list[Row]]  # by table


@dataclass
class NaiveTime:
    """Time on a stream, worked out anew from all that has been seen."""

    idle: str
    follow: str
    now_ms: int | None = None
    start_ms: int | None = None
    seen: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {t: [] for t in TIMES})

    def take(self, times: dict[str, list[int]], wall_ms: int) -> None:
        """A batch: these rows in time were shown by each source at this time on the wall."""
        if self.start_ms is None:
            self.start_ms = wall_ms
        for table, shown in times.items():
            self.seen[table] += [(at_ms, wall_ms) for at_ms in shown]
        reached_ms = self._reached_ms(wall_ms)
        if reached_ms is not None and (self.now_ms is None or reached_ms > self.now_ms):
            self.now_ms = reached_ms

    def _reached_ms(self, wall_ms: int) -> int | None:
        clocks = {
            table: max(at_ms for at_ms, _ in shown) - DELAY_MS
            for table, shown in self.seen.items()
            if shown
        }
        if not clocks:
            return None
        heard = {
            table: max((wall for _, wall in shown), default=self.start_ms or 0)
            for table, shown in self.seen.items()
        }
        awake = [t for t in TIMES if self.idle == "event" or wall_ms - heard[t] <= IDLE_AFTER_MS]
        if not awake:
            return max(clocks.values()) + wall_ms - max(heard.values()) - IDLE_AFTER_MS
        if self.follow == "fastest":
            return max(clocks.values())
        if not all(table in clocks for table in awake):
            return None
        return min(clocks[table] for table in awake)


def arrivals(trace: Trace, rng: random.Random, future: bool) -> Iterator[tuple[int, Rows]]:
    """Yield batches: the time on the wall, and rows of each table in any order."""
    arriving: list[tuple[int, str, Row]] = []
    silences = rng.sample((0, 300, 5000), 3)  # the last is longer than it takes to be idle
    for (table, column), silent_for_ms in zip(TIMES.items(), silences, strict=True):
        lag_ms = rng.choice((0, 0, 100, 900))
        silent_ms = rng.randrange(SPAN_MS // 2)
        silence = range(silent_ms, silent_ms + silent_for_ms)
        for row in getattr(trace, table):
            at_ms = row[column]
            if not isinstance(at_ms, int) or abs(at_ms) > 10**6:  # of a bad row
                at_ms = 0
            comes_ms = at_ms + lag_ms + rng.randrange(DELAY_MS)
            if comes_ms in silence:
                comes_ms = silence.stop
            arriving.append((comes_ms, table, row))
            if future and rng.random() < 0.02:
                ahead = {column: rng.choice((10**7, 10**12)) + rng.randrange(1000)}
                arriving.append((comes_ms, table, row | ahead))
    arriving.sort(key=lambda arrival: arrival[0])
    wall_ms = at = 0
    while at < len(arriving):
        wall_ms += rng.choice((10, 150, 150, 300, 600, 3000))
        batch: Rows = {table: [] for table in TIMES}
        while at < len(arriving) and arriving[at][0] <= wall_ms:
            _, table, row = arriving[at]
            batch[table].append(row)
            at += 1
        yield wall_ms, {table: rng.sample(rows, len(rows)) for table, rows in batch.items()}


class Run:
    """One trace through the stages; beside it, which rows are in time."""

    def __init__(self, trace: Trace, number: int, idle: str, follow: str) -> None:
        self.rng = random.Random(number)
        self.trace = trace
        self.schemas = dict(zip(TIMES, (t.schema for t in trace.tables()), strict=True))
        self.on_wall = idle == "wall"
        self.time = NaiveTime(idle, follow)
        self.stream = Stream(
            self.schemas["operations"],
            seed=number,
            shards=self.rng.choice((1, 3, 4)),
            delay_ms=DELAY_MS,
            idle=idle,
            follow=follow,
            idle_after_ms=IDLE_AFTER_MS,
            ahead_ms=AHEAD_MS,
            snapshot_every=2,
        )
        self.in_time: Rows = {table: [] for table in TIMES}
        self.rejected: list[tuple[str, str, Row]] = []

    def play(self) -> None:
        for wall_ms, batch in arrivals(self.trace, self.rng, future=self.on_wall):
            self.batch(batch, wall_ms)
            if self.rng.random() < 0.15:
                self.stream.restart()
        flush = {"key": "nobody", "offset": 0, "at_ms": THE_END_MS}
        if self.on_wall:  # all are silent, and the wall clock goes on
            self.stream.run({}, wall_ms=THE_END_MS, beats=True)
        else:
            of_operations = self.trace.operations[0] | {
                "id": "the end",
                "submitted_ms": THE_END_MS,
                "timeout_ms": 0,
                "requires": [{"key": "nobody", "offset": 1}],
                "needed": None,
            }
            cancel = {"id": "nobody", "at_ms": THE_END_MS}
            last = {"operations": [of_operations], "signals": [flush], "cancels": [cancel]}
            self.stream.run(self._tables(last))

    def batch(self, rows: Rows, wall_ms: int) -> None:
        shown: dict[str, list[int]] = {}
        for table in TIMES:
            shown[table] = self._judge(table, rows[table], wall_ms)
        parts = {
            name: [table.slice(0, half), table.slice(half)]
            for name, table in self._tables(rows).items()
            if (half := self.rng.randrange(len(table) + 1)) >= 0
        }
        beats = self.on_wall and (not any(rows.values()) or self.rng.random() < 0.5)
        if beats or any(rows.values()):
            self.time.take(shown, wall_ms)
        crashes = self.rng.choice((0, 0, 0, 1, 2))
        self.stream.run(parts, wall_ms, crashes=crashes, beats=beats)
        assert self.stream.held["time_ms"] == self.time.now_ms or not (beats or any(rows.values()))

    def _judge(self, table: str, rows: list[Row], wall_ms: int) -> list[int]:
        """Sort the rows out; return the times of those that count."""
        column = TIMES[table]
        is_wrong = getattr(rows_oracle, f"what_is_wrong_with_{table[:-1]}")
        times = []
        for row in rows:
            if is_wrong(row):
                self.in_time[table].append(row)  # the oracle says what is wrong
            elif self.on_wall and row[column] > wall_ms + AHEAD_MS:
                self.rejected.append((table, FUTURE, row))
            elif self.time.now_ms is not None and row[column] <= self.time.now_ms:
                self.rejected.append((table, LATE, row))
            else:
                self.in_time[table].append(row)
                times.append(row[column])
        return times

    def _tables(self, rows: Rows) -> dict[str, pa.Table]:
        return {name: pa.Table.from_pylist(rows[name], self.schemas[name]) for name in rows}

    def difference(self) -> str | None:
        rows: dict[str, Any] = dict(self.in_time)
        in_time = replace(self.trace, **rows)
        expected = rows_oracle.resolve(in_time.operations, in_time.signals, in_time.cancels)
        expected.rejected += self.rejected
        told = ("table", "reason", "row")
        ends: list[dict[str, Any]] = self.stream.out
        outcomes = [
            {name: value for name, value in row.items() if name not in told}
            for row in ends
            if row["status"] != "rejected"
        ]
        rejected = [
            (row["table"], row["reason"], json.loads(row["row"]))
            for row in ends
            if row["status"] == "rejected"
        ]
        found = rows_oracle.Answer(outcomes, [], rejected)
        return differs(in_time, expected, found, tells_condition=False)


@pytest.mark.parametrize(("idle", "follow"), RULES)
def test_random_streams_give_the_answer_of_the_oracle(idle: str, follow: str) -> None:
    """Of all four rules together 100,000 operations and more."""
    counts: dict[str, int] = {"operations": 0, LATE: 0, FUTURE: 0}
    for n in range(STREAMS):
        number = seed() + n
        trace = random_trace(
            number,
            OPERATIONS,
            span_ms=SPAN_MS,
            extremes=False,
            ties_by_arrival=False,
            until=False,
        )
        run = Run(trace, number, idle, follow)
        run.play()
        difference = run.difference()
        assert difference is None, f"SOJOURN_SEED={number}, {idle}, {follow}\n{difference}"
        counts["operations"] += len(trace.operations)
        for _, reason, _ in run.rejected:
            counts[reason] += 1
    assert counts["operations"] >= STREAMS * OPERATIONS
    # What it is about does happen. Where nobody is idle and time waits for all, nobody is late.
    assert (counts[LATE] > 0) == ((idle, follow) != ("event", "slowest"))
    assert (counts[FUTURE] > 0) == (idle == "wall")
