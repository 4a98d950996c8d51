"""The same streaming question as Spark's guide would have it answered: state for each key and id.

    requirements, signals ─▶ by key: signals, who waits ─▶ by id: the operation, a timer ─▶ outcomes

Plain rows and plain state variables. It checks nothing, tells of no late row, remembers no id that
has ended and knows no cancels: that is left out in its favour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as fn
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPERATION = "id string, submitted_ms long, deadline_ms long, needed int"
_NEWS = f"{_OPERATION}, key string, moment long, submitted boolean"
_OUTCOME = "id string, status string, at_ms long, by_key string, waited_ms long"


def outcomes(operations: DataFrame, signals: DataFrame, delay_ms: int) -> DataFrame:
    """Say how operations end, as they end."""
    required = operations.select(
        "id",
        "submitted_ms",
        (fn.col("submitted_ms") + fn.col("timeout_ms")).alias("deadline_ms"),
        fn.coalesce("needed", fn.size("requires")).alias("needed"),
        fn.explode("requires").alias("required"),
        fn.timestamp_millis("submitted_ms").alias("moment"),
        fn.lit(None).cast("long").alias("at_ms"),
    ).select("*", "required.key", "required.offset")
    signalled = signals.withColumn("moment", fn.timestamp_millis("at_ms"))
    lines = required.drop("required").unionByName(signalled, allowMissingColumns=True)
    told = lines.withWatermark("moment", f"{delay_ms} milliseconds").drop("moment")
    news = told.groupBy("key").transformWithState(ByKey(), _NEWS, "Append", "EventTime")
    return news.groupBy("id").transformWithState(ById(), _OUTCOME, "Append", "EventTime")


def _fields(*names: str) -> StructType:
    return StructType(
        [StructField(name, StringType() if name in ("id", "key") else LongType()) for name in names]
    )


class ByKey(StatefulProcessor):
    """Signals of a key, and the requirements on it."""

    def init(self, handle: Any) -> None:
        self._signals = handle.getListState("signals", _fields("offset", "at_ms"))
        self._waiting = handle.getListState(
            "waiting", _fields("id", "offset", "submitted_ms", "deadline_ms", "needed")
        )

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        (name,) = key
        now_ms = timerValues.getCurrentWatermarkInMs()
        signals = [(row[0], row[1]) for row in self._signals.get()]
        waiting = [row for row in map(tuple, self._waiting.get()) if row[3] >= now_ms]
        arrived = []
        for row in rows:
            if row.id is None:
                arrived.append((row.offset, row.at_ms))
            else:
                waiter = (row.id, row.offset, row.submitted_ms, row.deadline_ms, row.needed)
                waiting.append(waiter)
                yield _news(waiter, name, _held_ms(waiter, signals), submitted=True)
        if arrived:
            for waiter in waiting:
                held_ms = _held_ms(waiter, arrived)
                if held_ms is not None:
                    yield _news(waiter, name, held_ms, submitted=False)
            self._signals.put(_frontier(signals + arrived))
        if waiting:
            self._waiting.put(waiting)
        else:
            self._waiting.clear()

    def close(self) -> None:
        pass


def _held_ms(waiter: tuple[Any, ...], signals: list[tuple[int, int]]) -> int | None:
    _, wanted, submitted_ms, _, _ = waiter
    reached = [at_ms for offset, at_ms in signals if offset >= wanted]
    return max(submitted_ms, min(reached)) if reached else None


def _frontier(signals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the signals that no other one outdoes, being further and no later."""
    kept: list[tuple[int, int]] = []
    for offset, at_ms in sorted(signals, key=lambda signal: (-signal[0], signal[1])):
        if not kept or at_ms < kept[-1][1]:
            kept.append((offset, at_ms))
    return kept


def _news(waiter: tuple[Any, ...], key: str, moment: int | None, *, submitted: bool) -> Row:
    id, _, submitted_ms, deadline_ms, needed = waiter
    return Row(
        id=id, submitted_ms=submitted_ms, deadline_ms=deadline_ms, needed=needed, key=key,
        moment=moment, submitted=submitted,
    )  # fmt: skip


class ById(StatefulProcessor):
    """An operation, the moments at which its requirements held, and a timer for its end."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._operation = handle.getValueState(
            "operation", _fields("submitted_ms", "deadline_ms", "needed", "ends_ms")
        )
        self._held = handle.getMapState("held", _fields("key"), _fields("moment"))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        found = self._operation.get()
        held = {} if found is None else self._moments()
        operation = None if found is None else tuple(found)
        for row in rows:
            if operation is None and row.submitted:
                operation = (row.submitted_ms, row.deadline_ms, row.needed, None)
            if operation is None or row.moment is None:
                continue
            if row.key not in held or row.moment < held[row.key]:
                held[row.key] = row.moment
                self._held.updateValue((row.key,), (row.moment,))
        if operation is not None:
            submitted_ms, deadline_ms, needed, before_ms = operation
            condition_ms = _condition_ms(held, needed)
            ends_ms = deadline_ms if condition_ms is None else min(condition_ms, deadline_ms)
            if ends_ms != before_ms:
                if before_ms is not None:
                    self._handle.deleteTimer(before_ms)
                self._handle.registerTimer(ends_ms)
                self._operation.update((submitted_ms, deadline_ms, needed, ends_ms))
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        found = self._operation.get()
        if found is None:
            return
        submitted_ms, deadline_ms, needed, ends_ms = found
        held = self._moments()
        condition_ms = _condition_ms(held, needed)
        completed = condition_ms is not None and condition_ms <= deadline_ms
        yield Row(
            id=key[0],
            status="completed" if completed else "expired",
            at_ms=ends_ms,
            by_key=min(k for k in held if held[k] == condition_ms) if completed else None,
            waited_ms=ends_ms - submitted_ms,
        )
        self._operation.clear()
        self._held.clear()

    def close(self) -> None:
        pass

    def _moments(self) -> dict[str, int]:
        return {key[0]: value[0] for key, value in self._held.iterator()}


def _condition_ms(held: dict[str, int], needed: int) -> int | None:
    return sorted(held.values())[needed - 1] if len(held) >= needed else None
