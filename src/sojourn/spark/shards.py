"""The shards: the two stages of a stream, each one side of the engine with its state.

    parcels ─▶ KeyShards ────────────────────────▶ IdShards ─▶ outcomes, rejected, what is held
               shard of the key                     shard of the id
               progress; who waits for it           operations; how they end
               the pace; who is late

Every shard of the first stage gets ticks in every batch that has rows, so all of them keep the same
pace. Only the first stage decides what time it is and which rows are late, and tells the second. So
both agree, also when a batch runs again. A row is late if it is at or before the time at the start
of its batch. The rows of a batch go in, then time moves, and operations that have ended by then
come out in the same batch.
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

from sojourn.replay import rows, schemas
from sojourn.replay.progress import Progress
from sojourn.replay.string_hashes import hashes, shard_of
from sojourn.replay.waiting import Waiting
from sojourn.spark import parcels
from sojourn.spark.ddl import ddl
from sojourn.spark.heads import Head
from sojourn.spark.intake import KIND
from sojourn.spark.labels import labels
from sojourn.spark.ledger import Ledger
from sojourn.spark.pace import SOURCES, Pace, Rule, later
from sojourn.spark.payload import PayloadFormat
from sojourn.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

_NEWS = pa.schema(
    [
        ("shard", pa.int64()),  # its label
        ("kind", pa.int8()),
        ("now_ms", pa.int64()),
        ("keys", pa.int64()),
        ("body", pa.binary()),
    ]
)
_ENDS = pa.schema(
    [
        ("kind", pa.int8()),
        *((name, pa.int64()) for name in (*parcels.COUNTS, *parcels.HOLDINGS, "time_ms")),
        ("body", pa.binary()),
    ]
)
NEWS_DDL, ENDS_DDL = ddl(_NEWS), ddl(_ENDS)
_News, _Ends = Row(*_NEWS.names), Row(*_ENDS.names)

_TIME = {
    parcels.REQUIREMENTS: "submitted_ms",
    parcels.SIGNALS: "at_ms",
    parcels.SUBMISSIONS: "submitted_ms",
    parcels.CANCELS: "at_ms",
}
Bodies = dict[int, list[bytes]]  # of parcels by kind
_TABLE = {kind: name for name, kind in KIND.items()}


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


class _Shards(StatefulProcessor):
    """A stage: an engine for each shard, in the ledger."""

    _stage: str  # as the ledger calls it
    _kind: type[Progress | Waiting]

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        settle()
        plan = self._plan
        options = self._options()
        self._ledger = Ledger(
            handle, plan.name, self._stage, self._kind, options, plan.snapshot_every
        )

    def close(self) -> None:
        pass

    def handleInputRows(
        self, key: Any, arrived: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        bodies: Bodies = {kind: [] for kind in parcels.SCHEMAS}
        yield from self._take(int(key[0]), self._ledger.head(), arrived, bodies)

    def _take(
        self, shard: int, head: Head, arrived: Iterator[Row], bodies: Bodies
    ) -> Iterator[Row]:
        """Take a batch's rows, their bodies by kind; yield what they lead to."""
        raise NotImplementedError

    def _begin(self, key: Any, snapshot: bytes, pace: Pace) -> None:
        """Begin with the state of another checkpoint."""
        engine = self._kind.restore(snapshot)
        head = Head(pace=pace)
        self._note(head, engine)
        self._ledger.begin(int(key[0]), head, engine)

    def _options(self) -> dict[str, Any]:
        raise NotImplementedError

    def _note(self, head: Head, engine: Any) -> None:
        """Note in the head what is read even when the engine is not needed."""
        raise NotImplementedError


class KeyShards(_Shards):
    """The first stage: what is known of the keys, and from when each requirement holds."""

    _stage = "keys"
    _kind = Progress

    def _take(
        self, shard: int, head: Head, arrived: Iterator[Row], bodies: Bodies
    ) -> Iterator[Row]:
        least_ms: dict[int, int] = {}
        shown_ms: list[int | None] = [None] * len(SOURCES)
        wall_ms = 0
        for row in arrived:
            kind = row["kind"]
            if row["body"] is None:  # a tick
                wall_ms = row["wall_ms"]  # the same in all ticks of a batch
                if row["most_ms"] is not None:
                    source = SOURCES.index(_TABLE[kind])
                    shown_ms[source] = later(shown_ms[source], row["most_ms"])
                continue
            bodies[kind].append(row["body"])
            if row["least_ms"] is not None:
                least_ms[kind] = min(least_ms.get(kind, row["least_ms"]), row["least_ms"])
        before_ms = head.pace.now_ms
        rejected = bodies[parcels.REJECTED]
        for kind, least in least_ms.items():
            if before_ms is not None and least <= before_ms:
                bodies[kind], late = self._in_time(kind, bodies[kind], before_ms)
                rejected += late
        head.pace = head.pace.on(shown_ms, wall_ms, self._plan.rule)
        now_ms = head.pace.now_ms
        for kind in (parcels.SUBMISSIONS, parcels.CANCELS, parcels.REJECTED):
            for body in bodies[kind]:
                yield _News(shard, kind, now_ms, None, body)
        yield from self._apply(shard, head, bodies, before_ms)
        yield _News(shard, parcels.TICK, now_ms, head.names, None)

    def handleInitialState(self, key: Any, initialState: Row, timerValues: TimerValues) -> None:
        latest_ms, news_ms = tuple(initialState["latest_ms"]), tuple(initialState["news_ms"])
        pace = Pace(initialState["now_ms"], latest_ms, news_ms)
        self._begin(key, initialState["snapshot"], pace)

    def _options(self) -> dict[str, Any]:
        return {"forget_keys_after_ms": self._plan.forget_keys_after_ms}

    def _note(self, head: Head, engine: Any) -> None:
        head.next_ms, head.names, head.waiting = engine.sweep_ms, engine.keys, len(engine)

    def _apply(
        self, shard: int, head: Head, bodies: Bodies, before_ms: int | None
    ) -> Iterator[Row]:
        """Apply what concerns the engine, if anything does; yield the candidates."""
        now_ms = head.pace.now_ms
        requirements = parcels.joined(parcels.REQUIREMENTS, bodies[parcels.REQUIREMENTS])
        signals = parcels.joined(parcels.SIGNALS, bodies[parcels.SIGNALS])
        if requirements is None and signals is None and not head.is_due(now_ms):
            # It will be told the time when there is something for it.
            self._ledger.write_head(head)
            return
        engine = self._ledger.engine(shard, head)
        candidates = engine.apply(requirements, signals, now_ms, before_ms)
        self._note(head, engine)
        self._ledger.write(shard, head, engine, (requirements, signals, now_ms, before_ms))
        if candidates.num_rows:
            to = shard_of(hashes(candidates.column("id")), self._plan.shards)
            for n, part in parcels.split(candidates, to):
                body = parcels.seal(parcels.CANDIDATES, part).to_pybytes()
                yield _News(labels(self._plan.shards)[n], parcels.CANDIDATES, now_ms, None, body)

    def _in_time(
        self, kind: int, bodies: list[bytes], now_ms: int
    ) -> tuple[list[bytes], list[bytes]]:
        """Return the rows in time; late ones become rejected rows."""
        in_time, rejected = [], []
        for body in bodies:
            batch = parcels.unseal_batch(kind, body)
            late = batch.column(_TIME[kind]).to_numpy() <= now_ms
            if not late.any():
                in_time.append(body)
                continue
            if not late.all():
                in_time.append(parcels.seal(kind, batch.filter(pa.array(~late))).to_pybytes())
            if kind != parcels.REQUIREMENTS:  # these are told of with their operation
                lost = batch.filter(pa.array(late))
                rejected.append(_rejected(self._plan, kind, lost, rows.LATE))
        return in_time, rejected


class IdShards(_Shards):
    """The second stage: the operations that wait, and how they end."""

    _stage = "ids"
    _kind = Waiting

    def _take(
        self, shard: int, head: Head, arrived: Iterator[Row], bodies: Bodies
    ) -> Iterator[Row]:
        now_ms = keys = None
        for row in arrived:
            now_ms = row["now_ms"]  # the same in all rows of a batch, and never earlier
            if row["kind"] == parcels.REJECTED:
                yield _rejects(row["body"])
            elif row["kind"] == parcels.TICK:
                keys = row["keys"]
            else:
                bodies[row["kind"]].append(row["body"])
        yield from self._apply(shard, head, bodies, now_ms)
        yield _Ends(parcels.HELD, 0, 0, 0, 0, keys, head.names, head.waiting, now_ms, None)

    def handleInitialState(self, key: Any, initialState: Row, timerValues: TimerValues) -> None:
        self._begin(key, initialState["snapshot"], Pace(initialState["now_ms"]))

    def _options(self) -> dict[str, Any]:
        return {"remember_ms": self._plan.remember_ms}

    def _note(self, head: Head, engine: Any) -> None:
        times_ms = [at_ms for at_ms in (engine.next_ms, engine.sweep_ms) if at_ms is not None]
        head.next_ms = min(times_ms, default=None)
        head.names, head.waiting = engine.ids, len(engine)

    def _apply(self, shard: int, head: Head, bodies: Bodies, now_ms: int | None) -> Iterator[Row]:
        """Apply what concerns the engine, if anything does; yield what has ended."""
        operations = parcels.joined(parcels.SUBMISSIONS, bodies[parcels.SUBMISSIONS])
        candidates = parcels.joined(parcels.CANDIDATES, bodies[parcels.CANDIDATES])
        cancels = parcels.joined(parcels.CANCELS, bodies[parcels.CANCELS])
        nothing = operations is None and candidates is None and cancels is None
        if nothing and not head.is_due(now_ms):
            return
        engine = self._ledger.engine(shard, head)
        outcomes, duplicates = engine.apply(operations, candidates, cancels, now_ms)
        head.pace = Pace(now_ms)
        self._note(head, engine)
        self._ledger.write(shard, head, engine, (operations, candidates, cancels, now_ms))
        if outcomes.num_rows:
            yield _ends(outcomes)
        if duplicates.num_rows:
            body = _rejected(self._plan, parcels.SUBMISSIONS, duplicates, rows.DUPLICATE)
            yield _rejects(body)


def _ends(outcomes: pa.RecordBatch) -> Row:
    counted = pc.value_counts(outcomes.column("status")).to_pylist()
    counts = {count["values"]: count["counts"] for count in counted}
    statuses = (counts.get(status, 0) for status in parcels.COUNTS)
    body = parcels.seal(parcels.ENDED, outcomes).to_pybytes()
    return _Ends(parcels.ENDED, *statuses, *_NOTHING_HELD, body)


def _rejects(body: bytes) -> Row:
    count = parcels.unseal_batch(parcels.REJECTED, body).num_rows
    return _Ends(parcels.REJECTED, 0, 0, 0, count, *_NOTHING_HELD, body)


_NOTHING_HELD = (0, 0, 0, None)


def _rejected(plan: Plan, kind: int, batch: pa.RecordBatch, reason: str) -> bytes:
    """Return a parcel of rejected rows: the rows as they came, and why."""
    if kind == parcels.SUBMISSIONS:
        table, name = _as_they_came(plan, batch), rows.OPERATIONS
    else:
        table, name = pa.Table.from_batches([batch]), _TABLE[kind]
    rejected = rows.reject(table, name, np.arange(len(table)), reason)
    return bytes(parcels.seal(parcels.REJECTED, rejected))


def _as_they_came(plan: Plan, batch: pa.RecordBatch) -> pa.Table:
    """Return the rows of operations with the columns they had."""
    form = PayloadFormat.of(plan.columns)
    payloads = batch.column("payload")
    carried = form.decode(payloads)
    columns = {
        "id": batch.column("id"),
        "submitted_ms": batch.column("submitted_ms"),
        "timeout_ms": pa.array(
            batch.column("deadline_ms").to_numpy() - batch.column("submitted_ms").to_numpy()
        ),
        "requires": pa.array(form.requirements(payloads), schemas.REQUIRES),
    }
    columns |= {name: carried.column(name) for name in carried.column_names}
    return pa.table({name: columns[name] for name in plan.order})
