"""Inputs: turn what users pass into one table, and its columns into our types.

A missing column, or one of the wrong type, is an error that names the table and the column. A value
that does not fit is no error: see `times.Numbers`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from sojourn.errors import BadTable, UnitWarning, WrongType
from sojourn.replay import schemas, times
from sojourn.replay.arrays import Integers
from sojourn.replay.names import as_text
from sojourn.replay.rejected import CORRUPT, CORRUPT_REASON, row_texts, without_corrupt
from sojourn.replay.times import Numbers

OPERATIONS = "operations"
SIGNALS = "signals"
CANCELS = "cancels"

TABLES = {
    OPERATIONS: schemas.OPERATIONS,
    SIGNALS: schemas.SIGNALS,
    CANCELS: schemas.CANCELS,
}

# The time of the years 2001 to 2103 in other units, taken for milliseconds.
_BANDS = {
    "seconds": ("s", 10**9),
    "microseconds": ("us", 10**15),
    "nanoseconds": ("ns", 10**18),
}
_BAND_WIDTH = 4.2


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


def our_columns(name: str, columns: Sequence[str]) -> list[str]:
    """Return those of a table's columns that are ours; of operations the others pass through."""
    wanted = [CORRUPT, CORRUPT_REASON]
    for column in TABLES[name].names:
        stem, _, unit = column.rpartition("_")
        time_column = time_name(columns, stem) if unit == "ms" else column
        if time_column is None and column == "timeout_ms":
            time_column = time_name(columns, "deadline")
        wanted.append(time_column or column)
    return [column for column in columns if column in wanted]


def extra_names(columns: Sequence[str]) -> list[str]:
    """Return those columns of operations that pass through to the outcomes."""
    ours = set(our_columns(OPERATIONS, columns))
    return [column for column in columns if column not in ours]


def time_name(columns: Sequence[str], stem: str) -> str | None:
    """Return the column that has the time called `stem`, whatever its unit: at_ms, else at_s, …"""
    names = (f"{stem}_{unit}" for unit in times.UNITS)
    return next((name for name in names if name in columns), None)


def column(table: pa.Table, name: str, column: str) -> pa.ChunkedArray:
    """Return a column of the table `name`, or raise BadTable if there is none, or more than one."""
    places = table.schema.get_all_field_indices(column)
    if len(places) == 1:
        return table.column(places[0])
    if places:
        raise BadTable(
            f"{name}: there are {len(places)} columns {column!r}; drop or rename all but one"
        )
    hint = f"it takes {', '.join(TABLES[name].names)}"
    for other, schema in TABLES.items():
        if other != name and all(c in table.column_names for c in schema.names if c != "needed"):
            hint = f"these are the columns of {other}: are the two tables swapped?"
    there = ", ".join(repr(name) for name in table.column_names) or "no columns at all"
    raise BadTable(f"{name}: there is no column {column!r}, only {there}; {hint}")


def texts(table: pa.Table, name: str, text_column: str) -> pa.Array:
    """Return a column of ids or keys as strings."""
    return as_text(column(table, name, text_column), f"{name}: the column {text_column!r}")


def integers(table: pa.Table, name: str, number_column: str) -> Numbers:
    """Return a column of whole numbers."""
    what = f"{name}: the column {number_column!r}"
    return times.integers(column(table, name, number_column), what)


def moments(table: pa.Table, name: str, stem: str) -> tuple[str, Numbers]:
    """Return the column of times called `stem`, and its times; warn of a doubtful unit."""
    time_column = time_name(table.column_names, stem) or f"{stem}_ms"
    values = column(table, name, time_column)
    unit = time_column.rpartition("_")[2]
    read = times.moments(values, unit, f"{name}: the column {time_column!r}")
    if not pa.types.is_timestamp(values.type):
        _warn_of_units(table, name, time_column, read.values)
    return time_column, read


def extras(table: pa.Table) -> pa.Table:
    """Return the columns of operations that pass through to the outcomes."""
    names = extra_names(table.column_names)
    for name in names:
        if name in schemas.OUTCOMES.names:
            raise BadTable(
                f"{OPERATIONS}: the column {name!r} would pass through to the outcomes, which have "
                f"a column of that name; rename it, e.g. to 'operation_{name}'"
            )
        column(table, OPERATIONS, name)
    passing = table.select(names)
    for n, field in enumerate(passing.schema):  # Arrow cannot filter strings that are views
        if pa.types.is_string_view(field.type):
            passing = passing.set_column(n, field.name, passing.column(n).cast(pa.large_string()))
    return passing


def _table_of(dictionaries: list[dict[str, Any]]) -> pa.Table:
    """Make a table of rows; a column that only later rows have is a column too."""
    names = dict.fromkeys(chain.from_iterable(dictionaries))
    return pa.table({name: pa.array([row.get(name) for row in dictionaries]) for name in names})


def _warn_of_units(table: pa.Table, name: str, time_column: str, values: Integers) -> None:
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
            stem, _, its_unit = time_column.rpartition("_")
            row = row_texts(without_corrupt(table).slice(int(odd.argmax()), 1))[0]
            warnings.warn(
                f"{name}: {time_column!r} looks like {words} in {count} of {len(values)} rows, "
                f"where {its_unit} is asked for, e.g. {row}; "
                f"if it is, call the column {stem}_{unit}",
                UnitWarning,
                stacklevel=3,
            )
            return


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
