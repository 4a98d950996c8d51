"""The rows: which columns there are, which rows mean something, and why the others do not.

    operations   id, submitted_ms, timeout_ms, requires: list of (key, offset), needed    + your own
    signals      key, offset, at_ms
    cancels      id, at_ms

A table without a column, or with one of the wrong type, is an error, and nothing is done. A row
that means nothing is rejected with the reason, and the others go on. Everything here works a
column at a time, on tables of any size and on single record batches; only the text of a rejected
row is made row by row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.errors import BadTable, WrongType
from sojourn.replay.codes import Codes, not_unique

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

OPERATIONS = "operations"
SIGNALS = "signals"
CANCELS = "cancels"

OPERATION_COLUMNS = ("id", "submitted_ms", "timeout_ms", "requires", "needed")
SIGNAL_COLUMNS = ("key", "offset", "at_ms")
CANCEL_COLUMNS = ("id", "at_ms")
OUTCOME_COLUMNS = ("id", "status", "at_ms", "by_key", "waited_ms", "condition_ms")
PENDING_COLUMNS = ("id", "submitted_ms", "timeout_ms")

REJECTED = pa.schema([("table", pa.string()), ("reason", pa.string()), ("row", pa.string())])

ID_NULL = "id is null"
SUBMITTED_NULL = "submitted_ms is null"
SUBMITTED_OUTSIDE = "submitted_ms is outside 64 bits"
TIMEOUT_NULL = "timeout_ms is null"
TIMEOUT_OUTSIDE = "timeout_ms is outside 64 bits"
TIMEOUT_NEGATIVE = "timeout_ms is negative"
REQUIRES_EMPTY = "requires is null or empty"
REQUIRED_KEY_NULL = "a required key is null"
REQUIRED_OFFSET_NULL = "a required offset is null"
REQUIRED_OFFSET_OUTSIDE = "a required offset is outside 64 bits"
NEEDED_BELOW = "needed is below 1"
NEEDED_ABOVE = "needed is above the number of requirements"
DEADLINE_OUTSIDE = "the deadline, submitted_ms + timeout_ms, is outside 64 bits"
DUPLICATE = "id is a duplicate of an earlier operation"
KEY_NULL = "key is null"
OFFSET_NULL = "offset is null"
OFFSET_OUTSIDE = "offset is outside 64 bits"
AT_NULL = "at_ms is null"
AT_OUTSIDE = "at_ms is outside 64 bits"

LEAST = -(2**63)
MOST = 2**63 - 1


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
    extras = _extras(table)
    id_column = _text(table, OPERATIONS, "id")
    submitted = _integers(table, OPERATIONS, "submitted_ms")
    timeout = _integers(table, OPERATIONS, "timeout_ms")
    counts, keys, offset = _requirements(table)
    needed_counts = counts
    verdict = _Verdict(len(table))
    verdict.blame(ID_NULL, _nulls(id_column))
    verdict.blame(SUBMITTED_NULL, submitted.null)
    verdict.blame(SUBMITTED_OUTSIDE, submitted.outside)
    verdict.blame(TIMEOUT_NULL, timeout.null)
    verdict.blame(TIMEOUT_OUTSIDE, timeout.outside)
    verdict.blame(TIMEOUT_NEGATIVE, timeout.values < 0)
    verdict.blame(REQUIRES_EMPTY, counts == 0)
    for reason, faulty in (
        (REQUIRED_KEY_NULL, _nulls(keys)),
        (REQUIRED_OFFSET_NULL, offset.null),
        (REQUIRED_OFFSET_OUTSIDE, offset.outside),
    ):
        if faulty is not None:
            owners = np.repeat(np.arange(len(table)), counts)
            verdict.blame(reason, np.bincount(owners[faulty], minlength=len(table)) > 0)
    if "needed" in table.column_names:
        needed = _integers(table, OPERATIONS, "needed")
        needed_counts = (
            needed.values if needed.null is None else np.where(needed.null, counts, needed.values)
        )
        verdict.blame(NEEDED_BELOW, needed_counts < 1)
        verdict.blame(NEEDED_ABOVE, needed_counts > counts)
    with np.errstate(over="ignore"):
        latest_ms = MOST - np.maximum(timeout.values, 0)
    verdict.blame(DEADLINE_OUTSIDE, submitted.values > latest_ms)
    everything = CleanOperations(
        id_column,
        submitted.values,
        timeout.values,
        needed_counts,
        _starts(counts),
        keys,
        offset.values,
        extras,
        np.arange(len(table)),
        verdict.rejected(table, OPERATIONS),
    )
    return everything.keep(verdict.sound)


def check_signals(table: Any) -> CleanSignals:
    """Tell the signals that mean something from those that do not."""
    table = as_table(table, SIGNALS)
    keys = _text(table, SIGNALS, "key")
    offset = _integers(table, SIGNALS, "offset")
    at = _integers(table, SIGNALS, "at_ms")
    verdict = _Verdict(len(table))
    verdict.blame(KEY_NULL, _nulls(keys))
    verdict.blame(OFFSET_NULL, offset.null)
    verdict.blame(OFFSET_OUTSIDE, offset.outside)
    verdict.blame(AT_NULL, at.null)
    verdict.blame(AT_OUTSIDE, at.outside)
    rejected = verdict.rejected(table, SIGNALS)
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
    ids = _text(table, CANCELS, "id")
    at = _integers(table, CANCELS, "at_ms")
    verdict = _Verdict(len(table))
    verdict.blame(ID_NULL, _nulls(ids))
    verdict.blame(AT_NULL, at.null)
    verdict.blame(AT_OUTSIDE, at.outside)
    rejected = verdict.rejected(table, CANCELS)
    numbers = np.arange(len(table))
    if not len(rejected):
        return CleanCancels(ids, at.values, numbers, rejected)
    sound = verdict.sound
    return CleanCancels(ids.filter(pa.array(sound)), at.values[sound], numbers[sound], rejected)


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
    try:
        texts = row_texts(table.take(pa.array(numbers)))
    except pa.ArrowNotImplementedError:  # Arrow cannot take rows of every type
        texts = [text for n in numbers.tolist() for text in row_texts(table.slice(n, 1))]
    if isinstance(reasons, str):
        reasons = [reasons] * len(texts)
    return pa.table([[name] * len(texts), reasons, texts], schema=REJECTED)


def row_texts(table: pa.Table) -> list[str]:
    """Return each row as JSON text, its columns in their order."""
    try:
        rows = table.to_pylist()
    except (UnicodeDecodeError, ValueError):  # not all that Arrow can hold is a Python value
        columns = [[_value(item) for item in column] for column in table.columns]
        rows = [
            dict(zip(table.column_names, values, strict=True))
            for values in zip(*columns, strict=True)
        ]
    return [row_text(row) for row in rows]


def row_text(row: dict[str, Any]) -> str:
    """Return one row as JSON text; what JSON cannot say is said as a string."""
    return json.dumps(_plain(row), ensure_ascii=False)


def as_table(value: Any, name: str) -> pa.Table:
    """Look at what was given as one table: a table, record batches, or anything that is Arrow."""
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
            pieces = [as_table(piece, name) for piece in value]
            if pieces:
                return pa.concat_tables(pieces)
    except pa.ArrowInvalid as error:
        raise BadTable(f"{name}: its pieces do not make one table; {error}") from None
    raise WrongType(
        f"{name} must be a pyarrow Table or RecordBatch, or several batches of one schema, "
        f"got {_short(value)}; pyarrow.table(...) and pyarrow.Table.from_pylist(...) make one"
    )


class _Verdict:
    """Which rows of a table are faulty; of several reasons the first one counts."""

    def __init__(self, rows: int) -> None:
        self._reasons = [""]
        self._verdicts = np.zeros(rows, dtype=np.int8)

    def blame(self, reason: str, faulty: Mask | None) -> None:
        if faulty is not None and faulty.any():
            self._verdicts[faulty & (self._verdicts == 0)] = len(self._reasons)
            self._reasons.append(reason)

    @property
    def sound(self) -> Mask:
        sound: Mask = self._verdicts == 0
        return sound

    def rejected(self, table: pa.Table, name: str) -> pa.Table:
        if len(self._reasons) == 1:
            return REJECTED.empty_table()
        numbers = np.flatnonzero(self._verdicts)
        return reject(table, name, numbers, [self._reasons[n] for n in self._verdicts[numbers]])


@dataclass(frozen=True, slots=True)
class _Integers:
    """A column of integers; where it is null the value is 0, where outside 64 bits the nearest."""

    values: Integers
    null: Mask | None
    outside: Mask | None


def _column(table: pa.Table, name: str, column: str) -> pa.ChunkedArray:
    found = table.schema.get_all_field_indices(column)
    if len(found) == 1:
        return table.column(found[0])
    raise BadTable(
        f"{name}: there are {len(found)} columns {column!r}; drop or rename all but one"
        if found
        else f"{name}: there is no column {column!r}, only {_names(table)}; "
        f"it takes {', '.join(_COLUMNS[name])}"
    )


def _extras(table: pa.Table) -> pa.Table:
    """Return the columns that pass through to the outcomes."""
    names = [name for name in table.column_names if name not in OPERATION_COLUMNS]
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
    return _as_text(_column(table, name, column), f"{name}: the column {column!r}")


def _as_text(column: pa.ChunkedArray, what: str) -> pa.Array:
    """Return a column of strings in one piece."""
    kind = column.type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (
        pa.types.is_string(plain)
        or pa.types.is_large_string(plain)
        or pa.types.is_string_view(plain)
        or pa.types.is_null(plain)
    ):
        raise BadTable(f"{what} must be strings, found {kind}; cast it, e.g. to pyarrow.string()")
    try:
        return _one_piece(column if pa.types.is_string(kind) else column.cast(pa.string()))
    except pa.ArrowInvalid:  # more than 2 GiB of text
        return _one_piece(column.cast(pa.large_string()))


def _integers(table: pa.Table, name: str, column: str) -> _Integers:
    return _as_integers(_column(table, name, column), f"{name}: the column {column!r}")


def _as_integers(column: pa.ChunkedArray, what: str) -> _Integers:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_null(kind)
        or (pa.types.is_decimal(kind) and kind.scale == 0)
    ):
        raise BadTable(
            f"{what} must be integers, found {kind}; cast it, e.g. to pyarrow.int64() "
            "(times are whole milliseconds)"
        )
    null = _nulls(column)
    if null is not None:
        column = (
            pa.chunked_array([pa.array(np.zeros(len(column), dtype=np.int64))])
            if pa.types.is_null(kind)
            else pc.fill_null(column, pa.scalar(0, kind))
        )
    outside = _outside(column)
    if outside is None:
        return _Integers(_numbers(column.cast(pa.int64())), null, None)
    nearest = [min(max(int(value), LEAST), MOST) for value in column.filter(outside).to_pylist()]
    values = _numbers(pc.if_else(outside, pa.scalar(0, kind), column).cast(pa.int64())).copy()
    mask = np.asarray(outside)
    values[mask] = nearest
    return _Integers(values, null, mask)


def _outside(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Say where a column without nulls is outside 64 bits; None if it nowhere is."""
    kind = column.type
    if pa.types.is_uint64(kind):
        outside = pc.greater(column, pa.scalar(MOST, kind))
    elif pa.types.is_decimal(kind) and kind.precision > 18:
        wide = column.cast(pa.decimal256(76, 0))
        outside = pc.or_(
            pc.greater(wide, pa.scalar(Decimal(MOST), wide.type)),
            pc.less(wide, pa.scalar(Decimal(LEAST), wide.type)),
        )
    else:
        return None
    return outside if pc.any(outside).as_py() else None


def _requirements(table: pa.Table) -> tuple[Integers, pa.Array, _Integers]:
    """Return how many each operation has, and all their keys and offsets, end to end."""
    what = f"{OPERATIONS}: the column 'requires'"
    column = _column(table, OPERATIONS, "requires")
    if pa.types.is_null(column.type):
        nothing = pa.chunked_array([], pa.null())
        counts = np.zeros(len(table), dtype=np.int64)
        return counts, _as_text(nothing, what), _as_integers(nothing, what)
    if not any(is_list(column.type) for is_list in _LISTS):
        raise _no_requirements(what, column.type)
    item = column.type.value_type
    if pa.types.is_null(item):  # as Arrow infers it from lists that are all empty, or of None
        return _counts(column), *_null_requirements(pc.list_flatten(column), what)
    if not pa.types.is_struct(item):
        raise _no_requirements(what, column.type)
    for field in ("key", "offset"):
        if len(item.get_all_field_indices(field)) != 1:
            raise _no_requirements(what, column.type)
    items = pa.chunked_array([chunk.flatten() for chunk in column.chunks], item)
    keys = _as_text(pc.struct_field(items, "key"), f"{what}, its field 'key',")
    offsets = _as_integers(pc.struct_field(items, "offset"), f"{what}, its field 'offset',")
    return _counts(column), keys, offsets


def _null_requirements(items: pa.ChunkedArray, what: str) -> tuple[pa.Array, _Integers]:
    return _as_text(items, what), _as_integers(items, what)


def _no_requirements(what: str, found: pa.DataType) -> BadTable:
    return BadTable(
        f"{what} must be lists of structs with the fields key (string) and offset (integer), "
        f"found {found}"
    )


def _counts(column: pa.ChunkedArray) -> Integers:
    return _numbers(pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64()))


def _starts(counts: Integers) -> Integers:
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _nulls(column: pa.Array | pa.ChunkedArray) -> Mask | None:
    if column.null_count == 0:
        return None
    return np.asarray(pc.is_null(column))


def _numbers(column: pa.ChunkedArray) -> Integers:
    numbers: Integers = _one_piece(column).to_numpy()
    return numbers


def _one_piece(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def _value(item: pa.Scalar) -> Any:
    try:
        return item.as_py()
    except (UnicodeDecodeError, ValueError):
        return str(item.cast(pa.binary()).as_py()) if hasattr(item, "as_buffer") else str(item)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
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


_COLUMNS = {OPERATIONS: OPERATION_COLUMNS, SIGNALS: SIGNAL_COLUMNS, CANCELS: CANCEL_COLUMNS}
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
