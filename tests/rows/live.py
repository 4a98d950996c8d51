"""The live purgatory as an engine: the rows of a trace acted out, in time order, by hand.

Time is counted in half milliseconds, and a deadline comes half a millisecond late. So what
happens at a deadline comes before it, as a tie goes to completion. What happens in one
millisecond happens in this order:

    1. signals move their keys    2. operations arrive    3. the keys are checked    4. cancels
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sojourn import DelayedOperation, ManualClock, Purgatory
from sojourn.replay import rows
from tests.rows.oracle import OWN_COLUMNS, Answer, Row

if TYPE_CHECKING:
    from tests.rows.traces import Trace


News = Sequence[tuple[str, int]]
"""Keys and offsets that are signalled in one millisecond."""


class Stage:
    """The clock, the purgatory, the progress of the keys, and what has ended so far."""

    def __init__(self, start_ms: int) -> None:
        self.clock = ManualClock(2 * start_ms)
        self.purgatory = Purgatory(clock=self.clock)
        self.progress: dict[str, int] = {}
        self.parked: dict[str, Parked] = {}
        self.ended: list[Row] = []

    def move_keys(self, news: News) -> None:
        for key, offset in news:
            self.progress[key] = max(offset, self.progress.get(key, offset))

    def submit(self, row: Row) -> None:
        self.parked[row["id"]] = Parked(row, self)
        keys = {item["key"] for item in row["requires"]}
        self.purgatory.try_complete_else_watch(self.parked[row["id"]], keys)

    def check_keys(self, news: News) -> None:
        for key, _ in news:
            self.purgatory.check_and_complete(key)

    def cancel(self, id: str) -> None:
        if id in self.parked and self.parked[id].cancel():
            self.end(self.parked[id], "cancelled")

    def end(self, operation: Parked, status: str) -> None:
        row = operation.row
        end_ms = self.clock.now_ms // 2
        self.ended.append(
            {
                "id": row["id"],
                "status": status,
                "at_ms": end_ms,
                "by_key": operation.by_key if status == "completed" else None,
                "waited_ms": end_ms - row["submitted_ms"],
                "submitted_ms": row["submitted_ms"],
                "timeout_ms": row["timeout_ms"],
                **extras(row),
            }
        )


class Parked(DelayedOperation):
    """An operation of the trace, waiting."""

    def __init__(self, row: Row, stage: Stage) -> None:
        super().__init__(2 * row["timeout_ms"] + 1)
        self.row = row
        self.stage = stage
        self.held: dict[int, int] = {}  # by requirement, since when
        self.by_key: str | None = None

    def try_complete(self) -> bool:
        requires = self.row["requires"]
        for n, item in enumerate(requires):
            progress = self.stage.progress.get(item["key"])
            if progress is not None and progress >= item["offset"]:
                self.held.setdefault(n, self.stage.clock.now_ms)
        if len(self.held) < (self.row["needed"] or len(requires)):
            return False
        last = max(self.held.values())
        self.by_key = min(requires[n]["key"] for n, since in self.held.items() if since == last)
        return self.force_complete()

    def on_complete(self) -> None:
        self.stage.end(self, "expired" if self.is_expired else "completed")


def resolve(trace: Trace, stage_for: type[Stage] = Stage) -> Answer:
    operations, signals, cancels = trace.tables()
    wanted = rows.check_operations(operations)
    first = rows.first_of_duplicates(wanted.ids, wanted.submitted_ms)
    duplicates = rows.reject(operations, rows.OPERATIONS, wanted.numbers[~first], rows.DUPLICATE)
    seen, called_off = rows.check_signals(signals), rows.check_cancels(cancels)

    submissions: dict[int, list[Row]] = {}
    for n in wanted.numbers[first].tolist():
        row = trace.operations[n]
        submissions.setdefault(row["submitted_ms"], []).append(row)
    news: dict[int, list[tuple[str, int]]] = {}
    for key, offset, at_ms in zip(
        seen.names.to_pylist(), seen.offsets.tolist(), seen.at_ms.tolist(), strict=True
    ):
        news.setdefault(at_ms, []).append((key, offset))
    dropped: dict[int, list[str]] = {}
    for id, at_ms in zip(called_off.names.to_pylist(), called_off.at_ms.tolist(), strict=True):
        dropped.setdefault(at_ms, []).append(id)

    moments = sorted({*submissions, *news, *dropped})
    deadlines_ms = wanted.submitted_ms + wanted.timeout_ms
    last_ms = trace.until_ms
    if last_ms is None:
        last_ms = int(np.max(deadlines_ms, initial=moments[-1]))
    stage = stage_for(moments[0])
    with stage.purgatory:
        for now_ms in moments:
            if now_ms > last_ms:
                break
            stage.clock.advance(2 * now_ms - stage.clock.now_ms)
            stage.move_keys(news.get(now_ms, ()))
            for row in submissions.get(now_ms, ()):
                stage.submit(row)
            stage.check_keys(news.get(now_ms, ()))
            for id in dropped.get(now_ms, ()):
                stage.cancel(id)
        stage.clock.advance(max(0, 2 * last_ms + 1 - stage.clock.now_ms))

    ended = {row["id"] for row in stage.ended}
    pending = [
        {name: row[name] for name in ("id", "submitted_ms", "timeout_ms", "requires")}
        | {"needed": row["needed"] or len(row["requires"])}
        | extras(row)
        for rows_then in submissions.values()
        for row in rows_then
        if row["id"] not in ended
    ]
    rejected = [
        (row["table"], row["reason"], json.loads(row["row"]))
        for table in (wanted.rejected, duplicates, seen.rejected, called_off.rejected)
        for row in table.to_pylist()
    ]
    return Answer(stage.ended, pending, rejected)


def extras(row: Row) -> Row:
    return {name: row[name] for name in row if name not in OWN_COLUMNS}
