"""The rows: which columns there are, which rows mean something, and why the others do not.

    operations   id, submitted_ms, timeout_ms, requires: list of (key, offset), needed    + your own
    signals      key, offset, at_ms
    cancels      id, at_ms

    submitted_ms, at_ms   times, as times.py reads them: timestamps, numbers, text
    timeout_ms            a duration; or instead of it deadline_ms, a time
    id, key               text, integers or bytes (as text, or in hex where they are not UTF-8)

A table without a column, or with one of the wrong type, is an error, and nothing is done. A row
that means nothing is rejected with the reason, and the others go on. So is a row of which a reader
could make nothing: its text is in the column `_corrupt_record`, where Spark's own readers put it.
Everything here works a column at a time, on tables of any size and on single record batches; only
the text of a rejected row is made row by row.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.errors import BadTable, UnitWarning, WrongType
from sojourn.replay import requirements, times
from sojourn.replay.codes import Codes, not_unique
from sojourn.replay.endings import Endings, end_all
from sojourn.replay.names import as_text, text_of
from sojourn.replay.times import LEAST as LEAST
from sojourn.replay.times import MOST as MOST
from sojourn.replay.times import Integers, Mask, Numbers

OPERATIONS = "operations"
SIGNALS = "signals"
CANCELS = "cancels"

OPERATION_COLUMNS = ("id", "submitted_ms", "timeout_ms", "requires", "needed")
SIGNAL_COLUMNS = ("key", "offset", "at_ms")
CANCEL_COLUMNS = ("id", "at_ms")
OUTCOME_COLUMNS = (
    *("id", "status", "at_ms", "by_key", "waited_ms"),
    *("condition_ms", "submitted_ms", "timeout_ms"),
)
# Of a stream, which does not wait to see when a condition holds that was too late.
STREAM_OUTCOME_COLUMNS = tuple(name for name in OUTCOME_COLUMNS if name != "condition_ms")
PENDING_COLUMNS = OPERATION_COLUMNS  # so that they can be fed back
# What times are called where they are asked for as timestamps.
TIMESTAMPS = {"submitted_ms": "submitted_at", "at_ms": "at", "condition_ms": "condition_at"}
NAME_TAKEN = (
    "operations have a column {name!r} of their own, which is what the timestamps are called; "
    "rename it, e.g. to 'operation_{name}'"
)
_NUMBERS = frozenset({"submitted_ms", "timeout_ms", "deadline_ms", "needed", "offset", "at_ms"})
_WHOLE = re.compile(r"-?[0-9]{1,19}")
# Where Spark's readers put the text of a row that they could not read; and why, if that is known.
CORRUPT, CORRUPT_REASON = "_corrupt_record", "_corrupt_reason"

REJECTED = pa.schema([("table", pa.string()), ("reason", pa.string()), ("row", pa.string())])
REQUIRES = pa.list_(pa.struct([("key", pa.string()), ("offset", pa.int64())]))
PENDING = pa.schema(
    [
        ("id", pa.string()),
        ("submitted_ms", pa.int64()),
        ("timeout_ms", pa.int64()),
        ("requires", REQUIRES),
        ("needed", pa.int64()),
    ]
)

ID_NULL = "id is null"
REQUIRES_EMPTY = "requires is null or empty"
REQUIRES_UNREADABLE = "requires is not a list of objects"
REQUIRED_KEY_NULL = "a required key is null"
REQUIRED_OFFSET_NULL = "a required offset is null"
REQUIRED_OFFSET_OUTSIDE = "a required offset is outside 64 bits"
NEEDED_BELOW = "needed is below 1"
NEEDED_ABOVE = "needed is above the number of requirements"
DEADLINE_OUTSIDE = "the deadline, submitted_ms + timeout_ms, is outside 64 bits"
DEADLINE_BEFORE = "the deadline is before the submission"
DEADLINE_TOO_FAR = "from the submission to the deadline is outside 64 bits"
DUPLICATE = "id is a duplicate of an earlier operation"
KEY_NULL = "key is null"
BROKEN = "it is not JSON, or not of the columns' types"

# The time of the years 2001 to 2103 in other units, taken for milliseconds.
_BANDS = {
    "seconds": ("s", 10**9),
    "microseconds": ("us", 10**15),
    "nanoseconds": ("ns", 10**18),
}
_BAND_WIDTH = 4.2


@dataclass(frozen=True, slots=True)
class CleanOperations:
    """The operations that mean something, a column each; requirements are laid end to end.

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

    def end(
        self,
        moments: Integers,
        holds: Mask,
        cancel_ms: Integers | None,
        has_cancel: Mask | None,
        until_ms: int | None,
        *,
        threads: int | None = None,
    ) -> Endings:
        """Say how each ends, given from when on requirements hold and when it is cancelled."""
        return end_all(
            self.submitted_ms,
            self.timeout_ms,
            self.needed,
            self.starts,
            moments,
            holds,
            self.keys,
            cancel_ms,
            has_cancel,
            until_ms,
            threads=threads,
        )

    def requires(self) -> pa.Array:
        """Return the requirements as a column."""
        items = pa.StructArray.from_arrays(
            [self.keys.cast(pa.string()), pa.array(self.offsets)], names=["key", "offset"]
        )
        return pa.ListArray.from_arrays(pa.array(self.starts.astype(np.int32)), items)

    def keep(self, mask: Mask) -> CleanOperations:
        """Return those operations for which the mask is true."""
        if mask.all():
            return self
        counts = np.diff(self.starts)
        kept = np.repeat(mask, counts)
        return CleanOperations(
            self.ids.filter(pa.array(mask)),
            self.submitted_ms[mask],
            self.timeout_ms[mask],
            self.needed[mask],
            _starts(counts[mask]),
            self.keys.filter(pa.array(kept)),
            self.offsets[kept],
            self.extras.filter(pa.array(mask)),
            self.numbers[mask],
            self.rejected,
        )


@dataclass(frozen=True, slots=True)
class CleanSignals:
    """The signals that mean something, a column each."""

    keys: pa.Array
    offsets: Integers
    at_ms: Integers
    numbers: Integers  # of the rows in the table they came from
    rejected: pa.Table

    def __len__(self) -> int:
        return len(self.at_ms)


@dataclass(frozen=True, slots=True)
class CleanCancels:
    """The cancels that mean something, a column each."""

    ids: pa.Array
    at_ms: Integers
    numbers: Integers
    rejected: pa.Table

    def __len__(self) -> int:
        return len(self.at_ms)


def check_operations(table: Any) -> CleanOperations:
    """Tell the operations that mean something from those that do not.

    Duplicates are not looked for: see `first_of_duplicates`.
    """
    table = as_table(table, OPERATIONS)
    verdict = _Verdict(table, OPERATIONS)
    id_column = _text(table, OPERATIONS, "id")
    verdict.blame(ID_NULL, times.nulls(id_column))
    submitted_name, submitted = _moments(table, OPERATIONS, "submitted")
    verdict.blame_numbers(submitted_name, submitted, "a time")
    timeout_ms = _timeouts(table, submitted, verdict)
    what = f"{OPERATIONS}: the column 'requires'"
    counts, keys, offset, unreadable = requirements.read(
        _column(table, OPERATIONS, "requires"), what
    )
    verdict.blame(REQUIRES_UNREADABLE, unreadable)
    verdict.blame(REQUIRES_EMPTY, counts == 0)
    for reason, faulty in (
        (REQUIRED_KEY_NULL, times.nulls(keys)),
        (REQUIRED_OFFSET_NULL, offset.null),
        ("a required offset is not an integer", offset.unreadable),
        (REQUIRED_OFFSET_OUTSIDE, offset.outside),
    ):
        if faulty is not None:
            owners = np.repeat(np.arange(len(table)), counts)
            verdict.blame(reason, np.bincount(owners[faulty], minlength=len(table)) > 0)
    needed_counts = counts
    if "needed" in table.column_names:
        needed = _integers(table, OPERATIONS, "needed")
        verdict.blame("needed is not an integer", needed.unreadable)
        needed_counts = (
            needed.values if needed.null is None else np.where(needed.null, counts, needed.values)
        )
        verdict.blame(NEEDED_BELOW, needed_counts < 1)
        verdict.blame(NEEDED_ABOVE, needed_counts > counts)
    with np.errstate(over="ignore"):
        latest_ms = MOST - np.maximum(timeout_ms, 0)
    verdict.blame(DEADLINE_OUTSIDE, submitted.values > latest_ms)
    everything = CleanOperations(
        id_column,
        submitted.values,
        timeout_ms,
        needed_counts,
        _starts(counts),
        keys,
        offset.values,
        _extras(table),
        np.arange(len(table)),
        verdict.rejected(),
    )
    return everything.keep(verdict.sound)


def check_signals(table: Any) -> CleanSignals:
    """Tell the signals that mean something from those that do not."""
    table = as_table(table, SIGNALS)
    verdict = _Verdict(table, SIGNALS)
    keys = _text(table, SIGNALS, "key")
    verdict.blame(KEY_NULL, times.nulls(keys))
    offset = _integers(table, SIGNALS, "offset")
    verdict.blame_numbers("offset", offset, "an integer")
    at_name, at = _moments(table, SIGNALS, "at")
    verdict.blame_numbers(at_name, at, "a time")
    rejected = verdict.rejected()
    numbers = np.arange(len(table))
    if not len(rejected):
        return CleanSignals(keys, offset.values, at.values, numbers, rejected)
    sound = verdict.sound
    return CleanSignals(
        keys.filter(pa.array(sound)),
        offset.values[sound],
        at.values[sound],
        numbers[sound],
        rejected,
    )


def check_cancels(table: Any) -> CleanCancels:
    """Tell the cancels that mean something from those that do not."""
    table = as_table(table, CANCELS)
    verdict = _Verdict(table, CANCELS)
    ids = _text(table, CANCELS, "id")
    verdict.blame(ID_NULL, times.nulls(ids))
    at_name, at = _moments(table, CANCELS, "at")
    verdict.blame_numbers(at_name, at, "a time")
    rejected = verdict.rejected()
    numbers = np.arange(len(table))
    if not len(rejected):
        return CleanCancels(ids, at.values, numbers, rejected)
    sound = verdict.sound
    return CleanCancels(ids.filter(pa.array(sound)), at.values[sound], numbers[sound], rejected)


CHECKS: dict[str, Any] = {
    OPERATIONS: check_operations,
    SIGNALS: check_signals,
    CANCELS: check_cancels,
}


def own_names(name: str, columns: Sequence[str]) -> list[str]:
    """Return those of a table's columns that are ours; of operations the others pass through."""
    wanted = [CORRUPT, CORRUPT_REASON]
    for column in COLUMNS[name]:
        stem, _, unit = column.rpartition("_")
        found = time_name(columns, stem) if unit == "ms" else column
        if found is None and column == "timeout_ms":
            found = time_name(columns, "deadline")
        wanted.append(found or column)
    return [column for column in columns if column in wanted]


def extra_names(columns: Sequence[str]) -> list[str]:
    """Return those columns of operations that pass through to the outcomes."""
    ours = set(own_names(OPERATIONS, columns))
    return [column for column in columns if column not in ours]


def time_name(columns: Sequence[str], stem: str) -> str | None:
    """Return the column that has the time called `stem`, whatever its unit: at_ms, else at_s, …"""
    names = (f"{stem}_{unit}" for unit in times.UNITS)
    return next((name for name in names if name in columns), None)


def first_of_duplicates(
    ids: pa.Array, submitted_ms: Integers, *, threads: int | None = None
) -> Mask:
    """Say of each operation whether it stays: of those with one id the earliest does.

    The earliest by `submitted_ms`, among equals by place.
    """
    first = np.ones(len(ids), dtype=np.bool_)
    suspects = not_unique(ids, threads)
    if suspects is not None:
        numbers = np.flatnonzero(suspects)
        codes = Codes(ids.take(pa.array(numbers))).codes
        order = np.lexsort((submitted_ms[numbers], codes))
        first[numbers[order[1:]]] = np.diff(codes[order]) != 0
    return first


def reject(table: Any, name: str, numbers: Integers, reasons: str | list[str]) -> pa.Table:
    """Return the rejected table for these rows, with one reason for all or one for each."""
    table = as_table(table, name)
    lines = table.column(CORRUPT) if CORRUPT in table.column_names else None
    table = table.drop_columns([n for n in (CORRUPT, CORRUPT_REASON) if n in table.column_names])
    try:
        texts = row_texts(table.take(pa.array(numbers)))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        # Arrow cannot take rows of every type, nor out of chunks with more than 2 GiB of text.
        texts = [text for n in numbers.tolist() for text in row_texts(table.slice(n, 1))]
    if lines is not None and lines.null_count < len(lines):
        whole = lines.take(pa.array(numbers)).to_pylist()
        texts = [text if line is None else line for text, line in zip(texts, whole, strict=True)]
    if isinstance(reasons, str):
        reasons = [reasons] * len(texts)
    return pa.table([[name] * len(texts), reasons, texts], schema=REJECTED)


def _with_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """The row, with whole numbers as numbers, though its source knows no types, as CSV."""
    shown = {name: _number(value) if name in _NUMBERS else value for name, value in row.items()}
    requires = shown.get("requires")
    if isinstance(requires, list):
        shown["requires"] = [
            {name: _number(value) if name == "offset" else value for name, value in pair.items()}
            if isinstance(pair, dict)
            else pair
            for pair in requires
        ]
    return shown


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value


def row_texts(table: pa.Table) -> list[str]:
    """Return each row as JSON text, its columns in their order."""
    for n, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":  # Python has no such
            coarser = table.column(n).cast(pa.timestamp("us", field.type.tz), safe=False)
            table = table.set_column(n, field.name, coarser)
    try:
        rows = table.to_pylist()
    except (UnicodeDecodeError, ValueError, OverflowError):  # not all of Arrow's is Python's
        columns = [[_value(item) for item in column] for column in table.columns]
        rows = [
            dict(zip(table.column_names, values, strict=True))
            for values in zip(*columns, strict=True)
        ]
    return [row_text(_with_numbers(row)) for row in rows]


def row_text(row: dict[str, Any]) -> str:
    """Return one row as JSON text; what JSON cannot say is said as a string."""
    return json.dumps(_plain(row), ensure_ascii=False)


def as_table(value: Any, name: str) -> pa.Table:
    """Look at what was given as one table: a table, record batches, rows, or anything Arrow."""
    if isinstance(value, pa.Table):
        return value
    try:
        if isinstance(value, pa.RecordBatch):
            return pa.Table.from_batches([value])
        if isinstance(value, pa.RecordBatchReader):
            return value.read_all()
        if hasattr(value, "__arrow_c_stream__"):
            return pa.table(value)
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict)):
            pieces = list(value)
            if pieces and all(isinstance(piece, dict) for piece in pieces):
                return _table_of(pieces)
            if pieces:
                return pa.concat_tables([as_table(piece, name) for piece in pieces])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadTable(f"{name}: its pieces do not make one table; {error}") from None
    raise WrongType(
        f"{name} must be a pyarrow Table or RecordBatch, or several batches of one schema, "
        f"got {_short(value)}; pyarrow.table(...) and pyarrow.Table.from_pylist(...) make one"
    )


def _table_of(dictionaries: list[dict[str, Any]]) -> pa.Table:
    """Make a table of rows; a column that only later rows have is a column too."""
    names = dict.fromkeys(chain.from_iterable(dictionaries))
    return pa.table({name: pa.array([row.get(name) for row in dictionaries]) for name in names})


class _Verdict:
    """Which rows of a table are faulty; of several reasons the first one counts."""

    def __init__(self, table: pa.Table, name: str) -> None:
        self._table = table
        self._name = name
        self._reasons = [""]
        self._verdicts = np.zeros(len(table), dtype=np.int32)
        if CORRUPT in table.column_names and table[CORRUPT].null_count < len(table):
            self._blame_corrupt()

    def _blame_corrupt(self) -> None:
        broken = np.asarray(pc.is_valid(self._table[CORRUPT]))
        if CORRUPT_REASON not in self._table.column_names:
            self.blame(BROKEN, broken)
            return
        reasons = pc.fill_null(self._table[CORRUPT_REASON], BROKEN)
        for reason in pc.unique(reasons.filter(pa.array(broken))).to_pylist():
            self.blame(reason, broken & np.asarray(pc.equal(reasons, reason)))

    def blame(self, reason: str, faulty: Mask | None) -> None:
        if faulty is not None and faulty.any():
            self._verdicts[faulty & (self._verdicts == 0)] = len(self._reasons)
            self._reasons.append(reason)

    def blame_numbers(self, column: str, numbers: Numbers, what: str) -> None:
        self.blame(f"{column} is null", numbers.null)
        self.blame(f"{column} is not {what}", numbers.unreadable)
        self.blame(f"{column} is outside 64 bits", numbers.outside)

    @property
    def sound(self) -> Mask:
        sound: Mask = self._verdicts == 0
        return sound

    def rejected(self) -> pa.Table:
        if len(self._reasons) == 1:
            return REJECTED.empty_table()
        numbers = np.flatnonzero(self._verdicts)
        reasons = [self._reasons[n] for n in self._verdicts[numbers]]
        return reject(self._table, self._name, numbers, reasons)


def _column(table: pa.Table, name: str, column: str) -> pa.ChunkedArray:
    found = table.schema.get_all_field_indices(column)
    if len(found) == 1:
        return table.column(found[0])
    if found:
        raise BadTable(
            f"{name}: there are {len(found)} columns {column!r}; drop or rename all but one"
        )
    hint = f"it takes {', '.join(COLUMNS[name])}"
    for other, columns in COLUMNS.items():
        if other != name and all(c in table.column_names for c in columns if c != "needed"):
            hint = f"these are the columns of {other}: are the two tables swapped?"
    raise BadTable(f"{name}: there is no column {column!r}, only {_names(table)}; {hint}")


def _extras(table: pa.Table) -> pa.Table:
    """Return the columns that pass through to the outcomes."""
    names = extra_names(table.column_names)
    for name in names:
        if name in OUTCOME_COLUMNS:
            raise BadTable(
                f"{OPERATIONS}: the column {name!r} would pass through to the outcomes, which have "
                f"a column of that name; rename it, e.g. to 'operation_{name}'"
            )
        _column(table, OPERATIONS, name)
    extras = table.select(names)
    for n, field in enumerate(extras.schema):  # Arrow cannot filter strings that are views
        if pa.types.is_string_view(field.type):
            extras = extras.set_column(n, field.name, extras.column(n).cast(pa.large_string()))
    return extras


def _text(table: pa.Table, name: str, column: str) -> pa.Array:
    return as_text(_column(table, name, column), f"{name}: the column {column!r}")


def _integers(table: pa.Table, name: str, column: str) -> Numbers:
    return times.integers(_column(table, name, column), f"{name}: the column {column!r}")


def _moments(table: pa.Table, name: str, stem: str) -> tuple[str, Numbers]:
    column = time_name(table.column_names, stem) or f"{stem}_ms"
    found = _column(table, name, column)
    moments = times.moments(found, column.rpartition("_")[2], f"{name}: the column {column!r}")
    if not pa.types.is_timestamp(found.type):
        _warn_of_units(table, name, column, moments.values)
    return column, moments


def _timeouts(table: pa.Table, submitted: Numbers, verdict: _Verdict) -> Integers:
    """Return how long each operation waits, or what its deadline makes of that."""
    column = time_name(table.column_names, "timeout")
    if column is not None or time_name(table.column_names, "deadline") is None:
        column = column or "timeout_ms"
        what = f"{OPERATIONS}: the column {column!r}"
        found = _column(table, OPERATIONS, column)
        timeout = times.durations(found, column.rpartition("_")[2], what)
        verdict.blame_numbers(column, timeout, "a duration")
        verdict.blame(f"{column} is negative", timeout.values < 0)
        return timeout.values
    column, deadline = _moments(table, OPERATIONS, "deadline")
    verdict.blame_numbers(column, deadline, "a time")
    verdict.blame(DEADLINE_BEFORE, deadline.values < submitted.values)
    with np.errstate(over="ignore"):
        timeout_ms = deadline.values - submitted.values
    verdict.blame(DEADLINE_TOO_FAR, timeout_ms < 0)
    return timeout_ms


def _warn_of_units(table: pa.Table, name: str, column: str, values: Integers) -> None:
    """Say so if numbers look like another unit: all of them, or some beside milliseconds."""
    if not len(values) or values.max() < 10**9:
        return
    if values.min() >= 10**12 and values.max() < _BAND_WIDTH * 10**12:
        return
    for words, (unit, least) in _BANDS.items():
        odd = (values >= least) & (values < _BAND_WIDTH * least)
        count = int(odd.sum())
        beside = (values >= 10**12) & (values < _BAND_WIDTH * 10**12)
        if count and (2 * count >= len(values) or beside.any()):
            row = reject(table, name, np.flatnonzero(odd)[:1], "")["row"][0].as_py()
            stem = column.rpartition("_")[0]
            warnings.warn(
                f"{name}: {column!r} looks like {words} in {count} of {len(values)} rows, where "
                f"{column.rpartition('_')[2]} is asked for, e.g. {row}; if it is, call the column "
                f"{stem}_{unit}",
                UnitWarning,
                stacklevel=3,
            )
            return


def _starts(counts: Integers) -> Integers:
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _value(item: pa.Scalar) -> Any:
    try:
        return item.as_py()
    except (UnicodeDecodeError, ValueError, OverflowError):
        if hasattr(item, "as_buffer"):
            return str(item.cast(pa.binary()).as_py())
        return getattr(item, "value", None)  # a time beyond what Python tells, as its number


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, datetime):  # of whatever type, in one form
        return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)


def _names(table: pa.Table) -> str:
    return ", ".join(repr(name) for name in table.column_names) or "no columns at all"


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


COLUMNS = {OPERATIONS: OPERATION_COLUMNS, SIGNALS: SIGNAL_COLUMNS, CANCELS: CANCEL_COLUMNS}
