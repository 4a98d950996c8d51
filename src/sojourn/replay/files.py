"""Files: read rows from Parquet, CSV or JSON lines, local or remote.

Every engine reads by the same rules: `stores.py` lists the files of a path, `formats.py` reads one
file, `columns.py` picks our columns, and `rows.py` checks the rows. The result has the columns of
`rows.TABLES`; operations also keep the columns that pass through. A file that cannot be read, lacks
a column or has one of the wrong type is an error that names the file.
"""

from __future__ import annotations

import os

import pyarrow as pa

from sojourn.errors import BadTable
from sojourn.replay import formats, journal, lakes, rows, times
from sojourn.replay.answer import PARTS as PARTS
from sojourn.replay.answer import write as write
from sojourn.replay.columns import Columns
from sojourn.replay.formats import NOT_JSON as NOT_JSON
from sojourn.replay.formats import NOT_UNICODE as NOT_UNICODE
from sojourn.replay.formats import Read as Read
from sojourn.replay.local import Resolution, resolve
from sojourn.replay.stores import File


def read(path: str | os.PathLike[str], name: str, columns: Columns | None = None) -> Read:
    """Read the table `name` (operations, signals or cancels) from wherever the path leads.

    What folders called `column=value` say becomes a column of text. `columns` says where our
    columns come from, if they are not there by name.
    """
    columns = columns or Columns(checked_name(name))
    parts = [read_file(file, columns) for file in lakes.find(path, name)]
    try:
        table = pa.concat_tables([part.table for part in parts], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadTable(f"{name}: the files of {path} do not make one table; {error}") from None
    return Read(table, pa.concat_tables([part.rejected for part in parts]))


def checked_name(name: str) -> str:
    if name not in rows.TABLES:
        raise BadTable(f"name must be one of {', '.join(rows.TABLES)}, got {name!r}")
    return name


def read_file(
    file: File, columns: Columns, groups: tuple[int, int] | None = None, *, head: bool = False
) -> Read:
    """Read one file, or some row groups of it; with `head` only what comes first."""
    name = columns.table
    table, broken = formats.read(file, name, columns.kinds(), groups, head=head)
    if not len(table) and not table.column_names:  # an empty file has no columns to look at
        return Read(rows.TABLES[name].empty_table(), broken)
    for column, value in file.partition_values:
        if column not in table.column_names:
            table = table.append_column(column, pa.array([value] * len(table), pa.string()))
    try:
        if columns != Columns(name):
            table = columns.apply(table)
        canonical, rejected = _canonical(table, name)
    except BadTable as error:
        raise BadTable(f"{file}: {error}") from None
    return Read(canonical, pa.concat_tables([broken, rejected]))


def _canonical(table: pa.Table, name: str) -> tuple[pa.Table, pa.Table]:
    """Return the valid rows, in the columns of `rows.TABLES`; and the rejected ones."""
    clean = rows.CHECKS[name](table)
    if name != rows.OPERATIONS:
        batch = journal.in_schema(clean.batch(rows.TABLES[name]), rows.TABLES[name])
        return pa.Table.from_batches([batch]), clean.rejected
    needed = pa.nulls(len(clean), pa.int64())
    if "needed" in table.column_names:  # as it was: null means all
        numbers = times.integers(table["needed"], "needed")
        needed = pa.array(numbers.values, mask=numbers.null).take(pa.array(clean.numbers))
    canonical = clean.table().set_column(4, "needed", needed)
    for column in clean.extras.column_names:
        canonical = canonical.append_column(clean.extras.field(column), clean.extras[column])
    return canonical, clean.rejected


def resolve_files(
    operations: str | os.PathLike[str],
    signals: str | os.PathLike[str],
    cancels: str | os.PathLike[str] | None = None,
    until_ms: int | None = None,
) -> Resolution:
    """Resolve the rows of these files; lines that are not rows are rejected too."""
    return resolve_read(
        read(operations, rows.OPERATIONS),
        read(signals, rows.SIGNALS),
        read(cancels, rows.CANCELS) if cancels is not None else None,
        until_ms,
    )


def resolve_read(
    operations: Read, signals: Read, cancels: Read | None = None, until_ms: int | None = None
) -> Resolution:
    """Resolve tables that were read; rows that reading rejected are rejected here too."""
    cancel_table = None if cancels is None else cancels.table  # which may have no rows
    resolution = resolve(operations.table, signals.table, cancel_table, until_ms)
    rejected = [part.rejected for part in (operations, signals, cancels) if part is not None]
    rejected.append(resolution.rejected)
    return Resolution(resolution.outcomes, resolution.pending, pa.concat_tables(rejected))
