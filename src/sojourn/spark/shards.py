"""The shards: the two stages of a stream, each a part of the engine beside its state.

    bundles ─▶ KeyShards ────────────────────────▶ IdShards ─▶ outcomes, rejected, what is held
               shard of the key                     shard of the id
               progress; who waits for it           operations; how they end
               the pace; who is late

Every shard of the first stage gets ticks in every batch that has rows, so all of them keep the same
pace. The first stage alone says what time it is and who is late, and the second is told: so both
judge alike, also when a batch runs again. Late is what lies at or before the time at the start of
the batch. Its rows go in, then time moves, and what has ended by then comes out in the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from sojourn.replay import rows
from sojourn.replay.progress import Progress
from sojourn.replay.waiting import Waiting
from sojourn.spark import bundles
from sojourn.spark.hashing import hashes, shard_of
from sojourn.spark.heads import Head
from sojourn.spark.ledger import Ledger
from sojourn.spark.pace import SOURCES, Pace, Rule, later
from sojourn.spark.payload import PayloadFormat
from sojourn.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

NEWS_DDL = "shard int, kind byte, now_ms long, keys long, body binary"
ENDS_DDL = (
    "kind byte, completed long, expired long, cancelled long, rejected long, "
    "keys long, ids long, operations long, time_ms long, body binary"
)
_News = Row("shard", "kind", "now_ms", "keys", "body")
_Ends = Row("kind", *bundles.STATUSES, *bundles.HOLDINGS, "time_ms", "body")

_TIME = {
    bundles.REQUIREMENTS: "submitted_ms",
    bundles.SIGNALS: "at_ms",
    bundles.OPERATIONS: "submitted_ms",
    bundles.CANCELS: "at_ms",
}
_TABLE = {bundles.SIGNALS: rows.SIGNALS, bundles.CANCELS: rows.CANCELS}
_SOURCE = {
    bundles.OPERATIONS: SOURCES.index(rows.OPERATIONS),
    bundles.SIGNALS: SOURCES.index(rows.SIGNALS),
    bundles.CANCELS: SOURCES.index(rows.CANCELS),
}


@dataclass(frozen=True)
class Plan:
    """What both stages of a stream must know."""

    name: str  # of this start of the stream, unlike any other
    shards: int
    rule: Rule
    remember_ms: int
    forget_keys_after_ms: int
    snapshot_every: int
    columns: bytes  # schema of what a payload carries
    order: tuple[str, ...]  # all columns of operations, as they came

    def payload(self) -> PayloadFormat:
        """Return how the payloads are to be read."""
        return PayloadFormat(pa.ipc.read_schema(pa.py_buffer(self.columns)))


class KeyShards(StatefulProcessor):
    """The first stage: what is known of the keys, and from when each requirement holds."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        settle()
        options = {"forget_keys_after_ms": self._plan.forget_keys_after_ms}
        every = self._plan.snapshot_every
        self._ledger = Ledger(handle, self._plan.name, "keys", Progress, options, every)

    def handleInputRows(
        self, key: Any, arrived: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        shard = int(key[0])
        head = self._ledger.head()
        bodies: dict[int, list[bytes]] = {kind: [] for kind in bundles.SCHEMAS}
        least_ms: dict[int, int] = {}
        shown_ms: list[int | None] = [None] * len(SOURCES)
        wall_ms = 0
        for row in arrived:
            kind = row["kind"]
            if row["body"] is None:  # a tick
                wall_ms = row["wall_ms"]  # the same in all ticks of a batch
                if row["most_ms"] is not None:
                    source = _SOURCE[kind]
                    shown_ms[source] = later(shown_ms[source], row["most_ms"])
                continue
            bodies[kind].append(row["body"])
            if row["least_ms"] is not None:
                least_ms[kind] = min(least_ms.get(kind, row["least_ms"]), row["least_ms"])
        before_ms = head.pace.now_ms
        rejected = bodies[bundles.REJECTED]
        for kind, least in least_ms.items():
            if before_ms is not None and least <= before_ms:
                bodies[kind], late = self._in_time(kind, bodies[kind], before_ms)
                rejected += late
        head.pace = head.pace.on(shown_ms, wall_ms, self._plan.rule)
        now_ms = head.pace.now_ms
        for kind in (bundles.OPERATIONS, bundles.CANCELS, bundles.REJECTED):
            for body in bodies[kind]:
                yield _News(shard, kind, now_ms, None, body)
        yield from self._apply(shard, head, bodies, before_ms)
        yield _News(shard, bundles.TICK, now_ms, head.names, None)

    def handleInitialState(self, key: Any, initialState: Row, timerValues: TimerValues) -> None:
        engine = Progress.restore(initialState["snapshot"])
        head = Head(next_ms=engine.sweep_ms, names=engine.keys, waiting=len(engine))
        head.pace = Pace(
            initialState["now_ms"], tuple(initialState["latest_ms"]), tuple(initialState["news_ms"])
        )
        self._ledger.begin(int(key[0]), head, engine)

    def _apply(
        self, shard: int, head: Head, bodies: dict[int, list[bytes]], before_ms: int | None
    ) -> Iterator[Row]:
        """Tell the engine what concerns it, or leave it alone; yield what candidates there are."""
        now_ms = head.pace.now_ms
        requirements = bundles.joined(bundles.REQUIREMENTS, bodies[bundles.REQUIREMENTS])
        signals = bundles.joined(bundles.SIGNALS, bodies[bundles.SIGNALS])
        if requirements is None and signals is None and not head.is_due(now_ms):
            # It will be told the time when there is something for it.
            self._ledger.write_head(head)
            return
        engine = self._ledger.engine(shard, head)
        candidates = engine.apply(requirements, signals, now_ms, before_ms)
        head.next_ms = engine.sweep_ms
        head.names, head.waiting = engine.keys, len(engine)
        entry = Progress.entry(requirements, signals, now_ms, before_ms)
        self._ledger.write(shard, head, engine, entry)
        if candidates.num_rows:
            to = shard_of(hashes(candidates.column("id")), self._plan.shards)
            for n, part in bundles.split(candidates, to, self._plan.shards):
                yield _News(n, bundles.CANDIDATES, now_ms, None, bundles.seal(part))

    def close(self) -> None:
        pass

    def _in_time(
        self, kind: int, bodies: list[bytes], now_ms: int
    ) -> tuple[list[bytes], list[bytes]]:
        """Tell rows in time from late ones, which become rejected ones."""
        kept, rejected = [], []
        for body in bodies:
            batch = bundles.unseal(kind, body)
            late = batch.column(_TIME[kind]).to_numpy() <= now_ms
            if not late.any():
                kept.append(body)
                continue
            if not late.all():
                kept.append(bundles.seal(batch.filter(pa.array(~late))))
            if kind != bundles.REQUIREMENTS:  # these are told of with their operation
                lost = batch.filter(pa.array(late))
                rejected.append(_rejected(self._plan, kind, lost, LATE))
        return kept, rejected


class IdShards(StatefulProcessor):
    """The second stage: the operations that wait, and how they end."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        settle()
        options = {"remember_ms": self._plan.remember_ms}
        every = self._plan.snapshot_every
        self._ledger = Ledger(handle, self._plan.name, "ids", Waiting, options, every)

    def handleInputRows(
        self, key: Any, arrived: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        shard = int(key[0])
        head = self._ledger.head()
        bodies: dict[int, list[bytes]] = {kind: [] for kind in bundles.SCHEMAS}
        now_ms = keys = None
        for row in arrived:
            now_ms = row["now_ms"]  # the same in all rows of a batch, and never earlier
            if row["kind"] == bundles.REJECTED:
                yield _rejects(row["body"])
            elif row["kind"] == bundles.TICK:
                keys = row["keys"]
            else:
                bodies[row["kind"]].append(row["body"])
        yield from self._apply(shard, head, bodies, now_ms)
        yield _Ends(bundles.HELD, 0, 0, 0, 0, keys, head.names, head.waiting, now_ms, None)

    def handleInitialState(self, key: Any, initialState: Row, timerValues: TimerValues) -> None:
        engine = Waiting.restore(initialState["snapshot"])
        next_ms = _earlier(engine.next_ms, engine.sweep_ms)
        head = Head(next_ms=next_ms, names=engine.ids, waiting=len(engine))
        head.pace = Pace(initialState["now_ms"])
        self._ledger.begin(int(key[0]), head, engine)

    def close(self) -> None:
        pass

    def _apply(
        self, shard: int, head: Head, bodies: dict[int, list[bytes]], now_ms: int | None
    ) -> Iterator[Row]:
        """Tell the engine what concerns it, or leave it alone; yield what has ended."""
        operations = bundles.joined(bundles.OPERATIONS, bodies[bundles.OPERATIONS])
        candidates = bundles.joined(bundles.CANDIDATES, bodies[bundles.CANDIDATES])
        cancels = bundles.joined(bundles.CANCELS, bodies[bundles.CANCELS])
        nothing = operations is None and candidates is None and cancels is None
        if nothing and not head.is_due(now_ms):
            return
        engine = self._ledger.engine(shard, head)
        outcomes, duplicates = engine.apply(operations, candidates, cancels, now_ms)
        head.pace = Pace(now_ms)
        head.next_ms = _earlier(engine.next_ms, engine.sweep_ms)
        head.names, head.waiting = engine.ids, len(engine)
        entry = Waiting.entry(operations, candidates, cancels, now_ms)
        self._ledger.write(shard, head, engine, entry)
        if outcomes.num_rows:
            yield _ends(outcomes)
        if duplicates.num_rows:
            body = _rejected(self._plan, bundles.OPERATIONS, duplicates, rows.DUPLICATE)
            yield _rejects(body)


def _ends(outcomes: pa.RecordBatch) -> Row:
    counted = pc.value_counts(outcomes.column("status")).to_pylist()
    counts = {count["values"]: count["counts"] for count in counted}
    statuses = (counts.get(status, 0) for status in bundles.STATUSES)
    return _Ends(bundles.OUTCOMES, *statuses, *_NOTHING_HELD, bundles.seal(outcomes))


def _rejects(body: bytes) -> Row:
    count = bundles.unseal(bundles.REJECTED, body).num_rows
    return _Ends(bundles.REJECTED, 0, 0, 0, count, *_NOTHING_HELD, body)


_NOTHING_HELD = (0, 0, 0, None)


def _earlier(one_ms: int | None, other_ms: int | None) -> int | None:
    known = [at_ms for at_ms in (one_ms, other_ms) if at_ms is not None]
    return min(known, default=None)


LATE = "late: its time is at or before the time already reached"


def _rejected(plan: Plan, kind: int, batch: pa.RecordBatch, reason: str) -> bytes:
    """Return a bundle of rejected rows: the rows as they came, and why."""
    if kind == bundles.OPERATIONS:
        table, name = _as_they_came(plan, batch), rows.OPERATIONS
    else:
        table, name = pa.Table.from_batches([batch]), _TABLE[kind]
    told = rows.reject(table, name, np.arange(len(table)), reason)
    return bundles.seal(told.combine_chunks().to_batches()[0])


def _as_they_came(plan: Plan, batch: pa.RecordBatch) -> pa.Table:
    """Return the rows of operations with the columns they had."""
    form = plan.payload()
    payloads = batch.column("payload")
    carried = form.decode(payloads)
    item = pa.struct([("key", pa.string()), ("offset", pa.int64())])
    found = {
        "id": batch.column("id"),
        "submitted_ms": batch.column("submitted_ms"),
        "timeout_ms": pa.array(
            batch.column("deadline_ms").to_numpy() - batch.column("submitted_ms").to_numpy()
        ),
        "requires": pa.array(form.requirements(payloads), pa.list_(item)),
    }
    found |= {name: carried.column(name) for name in carried.column_names}
    return pa.table({name: found[name] for name in plan.order})
