"""Files: rows from Parquet, CSV or JSON lines, wherever they are.

One rule for every engine: `stores.py` says which files a path means, `formats.py` what is in each,
`columns.py` which of its columns are ours, `rows.py` which rows mean something. What comes out has
the columns of `SCHEMAS` and, of operations, those that pass through. A file that cannot be read,
lacks a column or has one of the wrong type is an error that names the file.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import pyarrow as pa

from sojourn.errors import BadTable
from sojourn.replay import formats, lakes, rows, times
from sojourn.replay.answer import PARTS as PARTS
from sojourn.replay.answer import write as write
from sojourn.replay.columns import Columns
from sojourn.replay.formats import NOT_JSON as NOT_JSON
from sojourn.replay.formats import NOT_UNICODE as NOT_UNICODE
from sojourn.replay.local import Resolution, resolve
from sojourn.replay.stores import File

SCHEMAS = {
    rows.OPERATIONS: rows.PENDING,
    rows.SIGNALS: pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())]),
    rows.CANCELS: pa.schema([("id", pa.string()), ("at_ms", pa.int64())]),
}


class Read(NamedTuple):
    """What was in the files: the rows that mean something, and those that do not."""

    table: pa.Table
    rejected: pa.Table

    def __len__(self) -> int:
        return len(self.table) + len(self.rejected)


def read(path: str | os.PathLike[str], name: str, columns: Columns | None = None) -> Read:
    """Read the table `name` (operations, signals or cancels) from wherever the path leads.

    What folders called `column=value` say becomes a column of text. `columns` says where our
    columns come from, if they are not there by name.
    """
    columns = columns or Columns(checked_name(name))
    found = [read_file(file, columns) for file in lakes.find(path, name)]
    try:
        table = pa.concat_tables([part.table for part in found], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadTable(f"{name}: the files of {path} do not make one table; {error}") from None
    return Read(table, pa.concat_tables([part.rejected for part in found]))


def checked_name(name: str) -> str:
    if name not in SCHEMAS:
        raise BadTable(f"name must be one of {', '.join(SCHEMAS)}, got {name!r}")
    return name


def read_file(
    file: File, columns: Columns, groups: tuple[int, int] | None = None, *, head: bool = False
) -> Read:
    """Read one file, or some row groups of it; with `head` only what comes first."""
    name = columns.table
    table, broken = formats.read(file, name, columns.kinds(), groups, head=head)
    if not len(table) and not table.column_names:  # an empty file has no columns to look at
        return Read(SCHEMAS[name].empty_table(), broken)
    for column, value in file.said:
        if column not in table.column_names:
            table = table.append_column(column, pa.array([value] * len(table), pa.string()))
    try:
        if columns != Columns(name):
            table = columns.of(table)
        canonical, rejected = _canonical(table, name)
    except BadTable as error:
        raise BadTable(f"{file}: {error}") from None
    return Read(canonical, pa.concat_tables([broken, rejected]))


def _canonical(table: pa.Table, name: str) -> tuple[pa.Table, pa.Table]:
    """Return the rows that mean something, in the columns of `SCHEMAS`; and the others."""
    if name == rows.SIGNALS:
        seen = rows.check_signals(table)
        arrays = [seen.keys, seen.offsets, seen.at_ms]
        return pa.table(arrays, schema=SCHEMAS[name]), seen.rejected
    if name == rows.CANCELS:
        off = rows.check_cancels(table)
        return pa.table([off.ids, off.at_ms], schema=SCHEMAS[name]), off.rejected
    wanted = rows.check_operations(table)
    needed = pa.nulls(len(wanted), pa.int64())
    if "needed" in table.column_names:  # as it was: null means all
        given = times.integers(table["needed"], "needed")
        needed = pa.array(given.values, mask=given.null).take(pa.array(wanted.numbers))
    arrays = [wanted.ids, wanted.submitted_ms, wanted.timeout_ms, wanted.requires(), needed]
    clean = pa.table(arrays, schema=SCHEMAS[name])
    for column in wanted.extras.column_names:
        clean = clean.append_column(wanted.extras.field(column), wanted.extras[column])
    return clean, wanted.rejected


def resolve_files(
    operations: str | os.PathLike[str],
    signals: str | os.PathLike[str],
    cancels: str | os.PathLike[str] | None = None,
    until_ms: int | None = None,
) -> Resolution:
    """Do as `resolve` does with what is in the files; lines that are no rows are rejected too."""
    wanted = read(operations, rows.OPERATIONS)
    seen = read(signals, rows.SIGNALS)
    called_off = read(cancels, rows.CANCELS) if cancels is not None else None
    return resolve_read(wanted, seen, called_off, until_ms)


def resolve_read(
    operations: Read, signals: Read, cancels: Read | None = None, until_ms: int | None = None
) -> Resolution:
    """Do as `resolve` does with what was read; what was rejected then is rejected too."""
    called_off = None if cancels is None else cancels.table  # which may have no rows
    found = resolve(operations.table, signals.table, called_off, until_ms)
    broken = [part.rejected for part in (operations, signals, cancels) if part is not None]
    return Resolution(found.outcomes, found.pending, pa.concat_tables([*broken, found.rejected]))
