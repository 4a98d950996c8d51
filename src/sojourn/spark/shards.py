"""The shards: the two stages of a stream, each a part of the engine beside its state.

    bundles ─▶ KeyShards ────────────────────────▶ IdShards ─▶ outcomes, rejected
               shard of the key                     shard of the id
               progress; who waits for it           operations; how they end
               the pace; who is late

Every shard of the first stage gets a tick in every batch that has rows, so all of them keep the
same pace. The first stage alone says what time it is and who is late, and the second is told: so
both judge alike, also when a batch runs again.
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
from sojourn.spark.ledger import Head, Ledger
from sojourn.spark.pace import Pace, later
from sojourn.spark.payload import PayloadFormat
from sojourn.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

NEWS_DDL = "shard int, kind byte, now_ms long, body binary"
ENDS_DDL = "kind byte, completed long, expired long, cancelled long, rejected long, body binary"
_News = Row("shard", "kind", "now_ms", "body")
_Ends = Row("kind", *bundles.STATUSES, "body")

_MOST_TIMER_MS = 2**62
_TIME = {
    bundles.REQUIREMENTS: "submitted_ms",
    bundles.SIGNALS: "at_ms",
    bundles.OPERATIONS: "submitted_ms",
    bundles.CANCELS: "at_ms",
}
_TABLE = {bundles.SIGNALS: rows.SIGNALS, bundles.CANCELS: rows.CANCELS}


@dataclass(frozen=True)
class Plan:
    """What both stages of a stream must know."""

    name: str  # of this start of the stream, unlike any other
    shards: int
    delay_ms: int
    wall_when_idle: bool
    remember_ms: int
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
        name = (self._plan.name, "keys")
        self._ledger = Ledger(handle, name, Progress, {}, self._plan.snapshot_every)

    def handleInputRows(
        self, key: Any, arrived: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        shard = int(key[0])
        head = self._ledger.head()
        bodies: dict[int, list[bytes]] = {kind: [] for kind in bundles.SCHEMAS}
        least_ms: dict[int, int] = {}
        latest_ms: int | None = None
        for row in arrived:
            if row["kind"] == bundles.TICK:
                if row["most_ms"] is not None:
                    latest_ms = later(latest_ms, row["most_ms"])
                continue
            bodies[row["kind"]].append(row["body"])
            if row["least_ms"] is not None:
                before_ms = least_ms.get(row["kind"], row["least_ms"])
                least_ms[row["kind"]] = min(before_ms, row["least_ms"])
        pace = Pace(head.now_ms, head.latest_ms, head.news_ms).on(
            latest_ms,
            watermark_ms=timerValues.getCurrentWatermarkInMs(),
            wall_ms=timerValues.getCurrentProcessingTimeInMs(),
            delay_ms=self._plan.delay_ms,
            wall_when_idle=self._plan.wall_when_idle,
        )
        head.now_ms, head.latest_ms, head.news_ms = pace.now_ms, pace.latest_ms, pace.news_ms
        now_ms = pace.now_ms
        yield _News(shard, bundles.TICK, now_ms, None)
        rejected = bodies[bundles.REJECTED]
        for kind, least in least_ms.items():
            if now_ms is not None and least <= now_ms:
                bodies[kind], late = self._in_time(kind, bodies[kind], now_ms)
                rejected += late
        for kind in (bundles.OPERATIONS, bundles.CANCELS, bundles.REJECTED):
            for body in bodies[kind]:
                yield _News(shard, kind, now_ms, body)
        requirements = bundles.joined(bundles.REQUIREMENTS, bodies[bundles.REQUIREMENTS])
        signals = bundles.joined(bundles.SIGNALS, bodies[bundles.SIGNALS])
        if requirements is None and signals is None:
            # Nothing for the engine; it will be told the time when there is.
            self._ledger.write_head(head)
            return
        engine = self._ledger.engine(shard, head)
        candidates = engine.apply(requirements, signals, now_ms)
        entry = Progress.entry(requirements, signals, now_ms)
        self._ledger.write(shard, head, engine, entry)
        if candidates.num_rows:
            to = shard_of(hashes(candidates.column("id")), self._plan.shards)
            for n, part in bundles.split(candidates, to, self._plan.shards):
                yield _News(n, bundles.CANDIDATES, now_ms, bundles.seal(part))

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
        self._handle = handle
        options = {"remember_ms": self._plan.remember_ms}
        name = (self._plan.name, "ids")
        self._ledger = Ledger(handle, name, Waiting, options, self._plan.snapshot_every)

    def handleInputRows(
        self, key: Any, arrived: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        shard = int(key[0])
        head = self._ledger.head()
        bodies: dict[int, list[bytes]] = {kind: [] for kind in bundles.SCHEMAS}
        now_ms = head.now_ms
        for row in arrived:
            now_ms = row["now_ms"]  # the same in all rows of a batch, and never earlier
            if row["kind"] == bundles.REJECTED:
                yield _rejects(row["body"])
            elif row["kind"] != bundles.TICK:
                bodies[row["kind"]].append(row["body"])
        yield from self._apply(shard, head, bodies, now_ms)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        head = self._ledger.head()
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        now_ms = watermark_ms if head.now_ms is None else max(head.now_ms, watermark_ms)
        yield from self._apply(int(key[0]), head, {}, now_ms)

    def close(self) -> None:
        pass

    def _apply(
        self, shard: int, head: Head, bodies: dict[int, list[bytes]], now_ms: int | None
    ) -> Iterator[Row]:
        operations = bundles.joined(bundles.OPERATIONS, bodies.get(bundles.OPERATIONS, []))
        candidates = bundles.joined(bundles.CANDIDATES, bodies.get(bundles.CANDIDATES, []))
        cancels = bundles.joined(bundles.CANCELS, bodies.get(bundles.CANCELS, []))
        head.now_ms = now_ms
        nothing = operations is None and candidates is None and cancels is None
        if nothing and (head.next_ms is None or now_ms is None or head.next_ms > now_ms):
            self._ledger.write_head(head)
            return
        engine = self._ledger.engine(shard, head)
        outcomes, duplicates = engine.apply(operations, candidates, cancels, now_ms)
        self._wake_at(head, engine.next_ms)
        entry = Waiting.entry(operations, candidates, cancels, now_ms)
        self._ledger.write(shard, head, engine, entry)
        if outcomes.num_rows:
            yield _ends(outcomes)
        if duplicates.num_rows:
            body = _rejected(self._plan, bundles.OPERATIONS, duplicates, rows.DUPLICATE)
            yield _rejects(body)

    def _wake_at(self, head: Head, next_ms: int | None) -> None:
        """Have one timer, at the next time that something ends.

        It is what ends operations in a batch without rows, as Spark runs one when the watermark
        has moved.
        """
        if next_ms is not None and head.now_ms is not None:
            next_ms = max(next_ms, head.now_ms + 1)
        if next_ms != head.next_ms:
            if head.next_ms is not None:
                self._handle.deleteTimer(_timer_ms(head.next_ms))
            if next_ms is not None:
                self._handle.registerTimer(_timer_ms(next_ms))
            head.next_ms = next_ms


def _ends(outcomes: pa.RecordBatch) -> Row:
    counted = pc.value_counts(outcomes.column("status")).to_pylist()
    counts = {count["values"]: count["counts"] for count in counted}
    return _Ends(
        bundles.OUTCOMES, *(counts.get(s, 0) for s in bundles.STATUSES), bundles.seal(outcomes)
    )


def _rejects(body: bytes) -> Row:
    return _Ends(bundles.REJECTED, 0, 0, 0, bundles.unseal(bundles.REJECTED, body).num_rows, body)


def _timer_ms(next_ms: int) -> int:
    return min(max(next_ms, 1), _MOST_TIMER_MS)


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
