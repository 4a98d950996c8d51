"""The rows: the columns of each table, and the checks that accept or reject a row.

    operations   id, submitted_ms, timeout_ms, requires: list of (key, offset), needed    + your own
    signals      key, offset, at_ms
    cancels      id, at_ms

    submitted_ms, at_ms   times, as times.py reads them: timestamps, numbers, text
    timeout_ms            a duration; or instead of it deadline_ms, a time
    id, key               text, integers or bytes (as text, or in hex where they are not UTF-8)

A missing column, or one of the wrong type, is an error, and nothing is done. An invalid row is
rejected with the reason, and the others go on. A row that a reader could not parse is rejected too:
its text is in the column `_corrupt_record`, where Spark's own readers put it. All checks work on
whole columns, of tables of any size and of single record batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.replay import inputs, requirements, schemas, times
from sojourn.replay.arrays import Integers, Mask, repeated, starts_of, within
from sojourn.replay.codes import Codes
from sojourn.replay.endings import Endings, end_all
from sojourn.replay.inputs import CANCELS as CANCELS
from sojourn.replay.inputs import OPERATIONS as OPERATIONS
from sojourn.replay.inputs import SIGNALS as SIGNALS
from sojourn.replay.inputs import TABLES as TABLES
from sojourn.replay.inputs import as_table as as_table
from sojourn.replay.inputs import extra_names as extra_names
from sojourn.replay.inputs import our_columns as our_columns
from sojourn.replay.inputs import time_name as time_name
from sojourn.replay.rejected import BROKEN as BROKEN
from sojourn.replay.rejected import CORRUPT as CORRUPT
from sojourn.replay.rejected import CORRUPT_REASON as CORRUPT_REASON
from sojourn.replay.rejected import Verdict
from sojourn.replay.rejected import reject as reject
from sojourn.replay.schemas import REJECTED as REJECTED
from sojourn.replay.steps import Moments
from sojourn.replay.string_hashes import hashes
from sojourn.replay.times import LEAST as LEAST
from sojourn.replay.times import MOST as MOST
from sojourn.replay.times import Numbers

OPERATION_COLUMNS = tuple(schemas.OPERATIONS.names)
SIGNAL_COLUMNS = tuple(schemas.SIGNALS.names)
CANCEL_COLUMNS = tuple(schemas.CANCELS.names)
OUTCOME_COLUMNS = tuple(schemas.OUTCOMES.names)
# What times are called where they are asked for as timestamps.
TIMESTAMPS = {"submitted_ms": "submitted_at", "at_ms": "at", "condition_ms": "condition_at"}
NAME_TAKEN = (
    "operations have a column {name!r} of their own, which is what the timestamps are called; "
    "rename it, e.g. to 'operation_{name}'"
)

ID_NULL = "id is null"
REQUIRES_EMPTY = "requires is null or empty"
REQUIRES_UNREADABLE = "requires is not a list of objects"
REQUIRED_KEY_NULL = "a required key is null"
REQUIRED_OFFSET_NULL = "a required offset is null"
REQUIRED_OFFSET_UNREADABLE = "a required offset is not an integer"
REQUIRED_OFFSET_OUTSIDE = "a required offset is outside 64 bits"
NEEDED_UNREADABLE = "needed is not an integer"
NEEDED_BELOW = "needed is below 1"
NEEDED_ABOVE = "needed is above the number of requirements"
DEADLINE_OUTSIDE = "the deadline, submitted_ms + timeout_ms, is outside 64 bits"
DEADLINE_BEFORE = "the deadline is before the submission"
DEADLINE_TOO_FAR = "from the submission to the deadline is outside 64 bits"
DUPLICATE = "id is a duplicate of an earlier operation"
KEY_NULL = "key is null"
LATE = "late: its time is at or before the time already reached"


@dataclass(frozen=True, slots=True)
class CleanOperations:
    """The valid operations, a column each; requirements are laid end to end.

    Requirements of operation n are `starts[n]` up to `starts[n + 1]` of `keys` and `offsets`.
    """

    ids: pa.Array  # string, or large_string where 2 GiB are not enough; so are keys
    submitted_ms: Integers
    timeout_ms: Integers
    needed: Integers  # 1 up to the number of requirements
    starts: Integers
    keys: pa.Array
    offsets: Integers
    extras: pa.Table  # the columns that are not ours, in their order
    numbers: Integers  # of the rows in the table they came from
    rejected: pa.Table

    def __len__(self) -> int:
        return len(self.submitted_ms)

    @property
    def counts(self) -> Integers:
        """How many requirements each has."""
        return np.diff(self.starts)

    def end(
        self,
        held: Moments,
        cancelled: Moments | None,
        until_ms: int | None,
        *,
        threads: int | None = None,
    ) -> Endings:
        """Say how each ends, given from when on requirements hold and when it is cancelled."""
        moments, holds = held
        cancel_ms, has_cancel = cancelled or (None, None)
        return end_all(
            self.submitted_ms, self.timeout_ms, self.needed, self.starts, moments, holds, self.keys,
            cancel_ms, has_cancel, until_ms, threads=threads,
        )  # fmt: skip

    def requires(self) -> pa.Array:
        """Return the requirements as a column."""
        items = pa.StructArray.from_arrays(
            [self.keys.cast(pa.string()), pa.array(self.offsets)], names=["key", "offset"]
        )
        return pa.ListArray.from_arrays(pa.array(self.starts.astype(np.int32)), items)

    def table(self, schema: pa.Schema | None = schemas.OPERATIONS) -> pa.Table:
        """Return our columns; without a schema text beyond 2 GiB stays large."""
        columns = [self.ids, self.submitted_ms, self.timeout_ms, self.requires(), self.needed]
        if schema is None:
            return pa.table(columns, names=schemas.OPERATIONS.names)
        return pa.table(columns, schema=schema)

    def submissions(self, tags: Integers, payload: pa.Array | None = None) -> pa.RecordBatch:
        """Return the operations as the id side takes them; text beyond 2 GiB stays large."""
        columns = [
            self.ids,
            tags,
            self.submitted_ms,
            self.submitted_ms + self.timeout_ms,
            self.needed.astype(np.int32),
            self.counts.astype(np.int32),
            pa.nulls(len(self), pa.binary()) if payload is None else payload,
        ]
        return pa.record_batch(columns, names=schemas.SUBMISSIONS.names)

    def requirements(self, tags: Integers) -> pa.RecordBatch:
        """Return the requirements as the key side takes them; text beyond 2 GiB stays large."""
        owners = np.repeat(np.arange(len(self)), self.counts)
        columns = [
            self.ids.take(pa.array(owners)),
            tags[owners],
            within(self.starts).astype(np.int32),
            self.keys,
            self.offsets,
            self.submitted_ms[owners],
            (self.submitted_ms + self.timeout_ms)[owners],
        ]
        return pa.record_batch(columns, names=schemas.REQUIREMENTS.names)

    def keep(self, mask: Mask) -> CleanOperations:
        """Return those operations for which the mask is true."""
        if mask.all():
            return self
        of_kept = np.repeat(mask, self.counts)
        return CleanOperations(
            self.ids.filter(pa.array(mask)),
            self.submitted_ms[mask],
            self.timeout_ms[mask],
            self.needed[mask],
            starts_of(self.counts[mask]),
            self.keys.filter(pa.array(of_kept)),
            self.offsets[of_kept],
            self.extras.filter(pa.array(mask)),
            self.numbers[mask],
            self.rejected,
        )


@dataclass(frozen=True, slots=True)
class CleanEvents:
    """The valid signals or cancels, a column each.

    A cancel stands for itself with its time as its offset. So the earliest cancel at or after a
    submission is found as a requirement's moment is: the first event of the name whose offset is
    not below the one asked for.
    """

    names: pa.Array  # keys of signals, ids of cancels
    offsets: Integers
    at_ms: Integers
    numbers: Integers  # of the rows in the table they came from
    rejected: pa.Table

    def __len__(self) -> int:
        return len(self.at_ms)

    def keep(self, mask: Mask) -> CleanEvents:
        """Return those events for which the mask is true."""
        if mask.all():
            return self
        return CleanEvents(
            self.names.filter(pa.array(mask)),
            self.offsets[mask],
            self.at_ms[mask],
            self.numbers[mask],
            self.rejected,
        )

    def until(self, until_ms: int | None) -> CleanEvents:
        """Return those events that have happened by then; all if no time is given."""
        return self if until_ms is None else self.keep(self.at_ms <= until_ms)

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the events in the schema of signals or of cancels; large text stays large."""
        columns = [self.names, self.offsets, self.at_ms]
        if "offset" not in schema.names:
            del columns[1]
        return pa.record_batch(columns, names=schema.names)


def check_operations(table: Any) -> CleanOperations:
    """Return the valid operations, and the others as rejected rows.

    Duplicates are not looked for: see `first_of_duplicates`.
    """
    table = as_table(table, OPERATIONS)
    verdict = Verdict(table, OPERATIONS)
    ids = inputs.texts(table, OPERATIONS, "id")
    verdict.blame(ID_NULL, times.nulls(ids))
    submitted_name, submitted = inputs.moments(table, OPERATIONS, "submitted")
    verdict.blame_numbers(submitted_name, submitted, "a time")
    timeout_ms = _timeouts(table, submitted, verdict)
    what = f"{OPERATIONS}: the column 'requires'"
    counts, keys, offset, unreadable = requirements.read(
        inputs.column(table, OPERATIONS, "requires"), what
    )
    verdict.blame(REQUIRES_UNREADABLE, unreadable)
    verdict.blame(REQUIRES_EMPTY, counts == 0)
    for reason, faulty in (
        (REQUIRED_KEY_NULL, times.nulls(keys)),
        (REQUIRED_OFFSET_NULL, offset.null),
        (REQUIRED_OFFSET_UNREADABLE, offset.unreadable),
        (REQUIRED_OFFSET_OUTSIDE, offset.outside),
    ):
        if faulty is not None:
            owners = np.repeat(np.arange(len(table)), counts)
            verdict.blame(reason, np.bincount(owners[faulty], minlength=len(table)) > 0)
    needed_counts = counts
    if "needed" in table.column_names:
        needed = inputs.integers(table, OPERATIONS, "needed")
        verdict.blame(NEEDED_UNREADABLE, needed.unreadable)
        needed_counts = (
            needed.values if needed.null is None else np.where(needed.null, counts, needed.values)
        )
        verdict.blame(NEEDED_BELOW, needed_counts < 1)
        verdict.blame(NEEDED_ABOVE, needed_counts > counts)
    with np.errstate(over="ignore"):
        latest_ms = MOST - np.maximum(timeout_ms, 0)
    verdict.blame(DEADLINE_OUTSIDE, submitted.values > latest_ms)
    everything = CleanOperations(
        ids,
        submitted.values,
        timeout_ms,
        needed_counts,
        starts_of(counts),
        keys,
        offset.values,
        inputs.extras(table),
        np.arange(len(table)),
        verdict.rejected(),
    )
    return everything.keep(verdict.sound)


def check_signals(table: Any) -> CleanEvents:
    """Return the valid signals, and the others as rejected rows."""
    return _check_events(table, SIGNALS)


def check_cancels(table: Any) -> CleanEvents:
    """Return the valid cancels, and the others as rejected rows."""
    return _check_events(table, CANCELS)


CHECKS: dict[str, Any] = {
    OPERATIONS: check_operations,
    SIGNALS: check_signals,
    CANCELS: check_cancels,
}


def first_of_duplicates(
    ids: pa.Array, submitted_ms: Integers, *, threads: int | None = None
) -> Mask:
    """Say of each operation whether it stays: of those with one id the earliest does.

    The earliest by `submitted_ms`, among equals by place.
    """
    first = np.ones(len(ids), dtype=np.bool_)
    # Different ids have the same hash so rarely that one can afford to look closer.
    id_hashes = hashes(ids, threads=threads)
    again = repeated(id_hashes)
    if len(again):
        numbers = np.flatnonzero(np.isin(id_hashes, again))
        names = Codes(ids.take(pa.array(numbers))).codes
        order = np.lexsort((submitted_ms[numbers], names))
        first[numbers[order[1:]]] = np.diff(names[order]) != 0
    return first


def _check_events(table: Any, name: str) -> CleanEvents:
    table = as_table(table, name)
    verdict = Verdict(table, name)
    names = inputs.texts(table, name, TABLES[name].names[0])
    verdict.blame(KEY_NULL if name == SIGNALS else ID_NULL, times.nulls(names))
    offset = inputs.integers(table, name, "offset") if name == SIGNALS else None
    if offset is not None:
        verdict.blame_numbers("offset", offset, "an integer")
    at_name, at = inputs.moments(table, name, "at")
    verdict.blame_numbers(at_name, at, "a time")
    offsets = at.values if offset is None else offset.values
    numbers = np.arange(len(table))
    every = CleanEvents(names, offsets, at.values, numbers, verdict.rejected())
    return every.keep(verdict.sound)


def _timeouts(table: pa.Table, submitted: Numbers, verdict: Verdict) -> Integers:
    """Return how long each operation waits, or what its deadline makes of that."""
    column = time_name(table.column_names, "timeout")
    if column is not None or time_name(table.column_names, "deadline") is None:
        column = column or "timeout_ms"
        what = f"{OPERATIONS}: the column {column!r}"
        durations = inputs.column(table, OPERATIONS, column)
        timeout = times.durations(durations, column.rpartition("_")[2], what)
        verdict.blame_numbers(column, timeout, "a duration")
        verdict.blame(f"{column} is negative", timeout.values < 0)
        return timeout.values
    column, deadline = inputs.moments(table, OPERATIONS, "deadline")
    verdict.blame_numbers(column, deadline, "a time")
    verdict.blame(DEADLINE_BEFORE, deadline.values < submitted.values)
    with np.errstate(over="ignore"):
        timeout_ms = deadline.values - submitted.values
    verdict.blame(DEADLINE_TOO_FAR, timeout_ms < 0)
    return timeout_ms
