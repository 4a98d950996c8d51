"""Resolve whole tables in this process: operations, signals and cancels in, outcomes out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sojourn.errors import BadTable
from sojourn.replay import rows, times
from sojourn.replay.endings import PENDING, STATUS, Endings
from sojourn.replay.steps import Steps


@dataclass(frozen=True, slots=True)
class Resolution:
    """How the operations ended, which are pending, and the rejected rows, as pyarrow Tables."""

    outcomes: pa.Table
    pending: pa.Table
    rejected: pa.Table

    def with_timestamps(self) -> Resolution:
        """Return the same with times as timestamps, too: `at` beside `at_ms`, and so on."""
        return Resolution(
            with_timestamps(self.outcomes), with_timestamps(self.pending), self.rejected
        )

    def __repr__(self) -> str:
        return (
            f"<Resolution outcomes={len(self.outcomes)} pending={len(self.pending)} "
            f"rejected={len(self.rejected)}>"
        )


def resolve(
    operations: Any, signals: Any, cancels: Any = None, until_ms: int | datetime | None = None
) -> Resolution:
    """Say of every operation how and when it ended: completed, expired or cancelled.

    Takes pyarrow Tables, record batches, a reader or a generator of them, rows as dictionaries, or
    anything else that is Arrow. With `until_ms`, milliseconds or a datetime, only what happened up
    to then is looked at, and operations that had not ended are pending. Without it every operation
    ends. Outcomes and pending come in the order of the operations' rows.
    """
    until_ms = checked_until_ms(until_ms)
    operations = rows.as_table(operations, rows.OPERATIONS)  # it may be readable only once
    every = rows.check_operations(operations)
    events = [rows.check_signals(signals)]
    if cancels is not None:
        events.append(rows.check_cancels(cancels))
    clean, duplicates = without_duplicates(operations, every)
    endings = Index(*map(steps_of, events)).end(clean, until_ms)
    rejected = [every.rejected, duplicates, *(part.rejected for part in events)]
    return Resolution(
        _outcomes(clean, endings), _pending(clean, endings), pa.concat_tables(rejected)
    )


class Index(NamedTuple):
    """Signals and cancels, in which operations look up when they end."""

    signals: Steps
    cancels: Steps | None = None

    def end(
        self,
        operations: rows.CleanOperations,
        until_ms: int | None,
        *,
        threads: int | None = None,
    ) -> Endings:
        """Say how operations end that have no duplicates among them."""
        held = self.signals.held_ms(operations.keys, operations.offsets, threads=threads)
        cancelled = None
        if self.cancels is not None:  # ids for keys, and times for offsets
            cancelled = self.cancels.held_ms(
                operations.ids, operations.submitted_ms, threads=threads
            )
        return operations.end(held, cancelled, until_ms, threads=threads)


def steps_of(events: rows.CleanEvents, *, threads: int | None = None) -> Steps:
    """Return the steps that these events make."""
    return Steps(events.names, events.offsets, events.at_ms, threads=threads)


def without_duplicates(
    table: pa.Table, clean: rows.CleanOperations, *, threads: int | None = None
) -> tuple[rows.CleanOperations, pa.Table]:
    """Return the operations that stay, of those of the table, and the others as rejected."""
    first = rows.first_of_duplicates(clean.ids, clean.submitted_ms, threads=threads)
    if first.all():
        return clean, rows.REJECTED.empty_table()
    duplicates = rows.reject(table, rows.OPERATIONS, clean.numbers[~first], rows.DUPLICATE)
    return clean.keep(first), duplicates


def with_timestamps(table: pa.Table) -> pa.Table:
    """Add `at`, `submitted_at` and `condition_at`, in UTC, where there are those milliseconds."""
    for column, name in rows.TIMESTAMPS.items():
        if column not in table.column_names:
            continue
        if name in table.column_names:
            raise BadTable(rows.NAME_TAKEN.format(name=name))
        place = table.column_names.index(column) + 1
        stamps = pc.cast(table[column], pa.timestamp("ms", "UTC"))
        table = table.add_column(place, name, stamps)
    return table


def checked_until_ms(until_ms: Any) -> int | None:
    """Return `until_ms` as a 64-bit integer or None, or say what is wrong with it."""
    if until_ms is None:
        return None
    return times.checked_moment_ms(until_ms, "until_ms", "None means that everything ends")


def _outcomes(clean: rows.CleanOperations, endings: Endings) -> pa.Table:
    ended = endings.status != PENDING
    submitted_ms, timeout_ms = clean.submitted_ms, clean.timeout_ms
    extras, ids = clean.extras, clean.ids
    if not ended.all():
        endings = Endings(*(part[ended] for part in endings))
        submitted_ms, timeout_ms = submitted_ms[ended], timeout_ms[ended]
        mask = pa.array(ended)
        extras, ids = extras.filter(mask), ids.filter(mask)
    columns = {
        "id": ids,
        "status": pa.array(STATUS).take(pa.array(endings.status)),
        "at_ms": pa.array(endings.at_ms),
        "by_key": clean.keys.take(pa.array(endings.by, mask=endings.by < 0)),
        "waited_ms": pa.array(endings.at_ms - submitted_ms),
        "condition_ms": pa.array(endings.condition_ms, mask=~endings.has_condition),
        "submitted_ms": pa.array(submitted_ms),
        "timeout_ms": pa.array(timeout_ms),
    }
    return _beside(pa.table(columns), extras)


def _pending(clean: rows.CleanOperations, endings: Endings) -> pa.Table:
    pending = clean.keep(endings.status == PENDING)
    return _beside(pending.table(None), pending.extras)


def _beside(own: pa.Table, extras: pa.Table) -> pa.Table:
    names = [*own.column_names, *extras.column_names]
    return pa.table([*own.columns, *extras.columns], names=names)
