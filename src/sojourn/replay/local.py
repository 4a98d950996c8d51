"""Resolve whole tables in this process: operations, signals and cancels in, outcomes out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import index
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sojourn.errors import BadTable, OutOfRange, WrongType
from sojourn.replay import rows, times
from sojourn.replay.endings import PENDING, STATUS, Endings
from sojourn.replay.steps import held_ms


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of the operations, and the rows that meant nothing, as pyarrow Tables."""

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
    operations = rows.as_table(operations, rows.OPERATIONS)  # which may be there only once
    wanted = rows.check_operations(operations)
    seen = rows.check_signals(signals)
    rejected = [wanted.rejected, seen.rejected]
    first = rows.first_of_duplicates(wanted.ids, wanted.submitted_ms)
    if not first.all():
        duplicates = wanted.numbers[~first]
        rejected.insert(1, rows.reject(operations, rows.OPERATIONS, duplicates, rows.DUPLICATE))
        wanted = wanted.keep(first)
    cancel_ms = has_cancel = None
    if cancels is not None:
        called_off = rows.check_cancels(cancels)
        rejected.append(called_off.rejected)
        # The earliest cancel at or after the submission: ids for keys, and times for offsets.
        cancel_ms, has_cancel = held_ms(
            called_off.ids, called_off.at_ms, called_off.at_ms, wanted.ids, wanted.submitted_ms
        )
    moments, holds = held_ms(seen.keys, seen.offsets, seen.at_ms, wanted.keys, wanted.offsets)
    endings = wanted.end(moments, holds, cancel_ms, has_cancel, until_ms)
    return Resolution(
        _outcomes(wanted, endings), _pending(wanted, endings), pa.concat_tables(rejected)
    )


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
    if isinstance(until_ms, datetime):
        return times.datetime_ms(until_ms)
    try:
        number = index(until_ms)
    except TypeError:
        raise WrongType(
            f"until_ms must be milliseconds, a datetime or None, got {until_ms!r} "
            f"({type(until_ms).__name__}); round it first, e.g. math.floor(seconds * 1000)"
        ) from None
    if not rows.LEAST <= number <= rows.MOST:
        raise OutOfRange(
            f"until_ms must fit 64 bits, got {number}; None means that everything ends"
        )
    return number


def _outcomes(wanted: rows.CleanOperations, endings: Endings) -> pa.Table:
    ended = endings.status != PENDING
    submitted_ms, timeout_ms = wanted.submitted_ms, wanted.timeout_ms
    extras, ids = wanted.extras, wanted.ids
    if not ended.all():
        endings = Endings(*(part[ended] for part in endings))
        submitted_ms, timeout_ms = submitted_ms[ended], timeout_ms[ended]
        mask = pa.array(ended)
        extras, ids = extras.filter(mask), ids.filter(mask)
    columns = {
        "id": ids,
        "status": pa.array(STATUS).take(pa.array(endings.status)),
        "at_ms": pa.array(endings.at_ms),
        "by_key": wanted.keys.take(pa.array(endings.by, mask=endings.by < 0)),
        "waited_ms": pa.array(endings.at_ms - submitted_ms),
        "condition_ms": pa.array(endings.condition_ms, mask=~endings.has_condition),
        "submitted_ms": pa.array(submitted_ms),
        "timeout_ms": pa.array(timeout_ms),
    }
    return _beside(columns, extras)


def _pending(wanted: rows.CleanOperations, endings: Endings) -> pa.Table:
    waiting = wanted.keep(endings.status == PENDING)
    columns = {
        "id": waiting.ids,
        "submitted_ms": pa.array(waiting.submitted_ms),
        "timeout_ms": pa.array(waiting.timeout_ms),
        "requires": waiting.requires(),
        "needed": pa.array(waiting.needed),
    }
    return _beside(columns, waiting.extras)


def _beside(columns: dict[str, pa.Array], extras: pa.Table) -> pa.Table:
    names = [*columns, *extras.column_names]
    return pa.table([*columns.values(), *extras.columns], names=names)
