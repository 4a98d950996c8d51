"""Sources: the tables that a replay or a stream has written, read as often as anybody asks.

A folder holds Parquet or JSON-lines files. JSON is read by the rule of `replay.formats`, one file
at a time: a stream writes many small ones. Lines leave out what is null, and whole files can be
empty, so the columns of a folder are gathered from several files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from sojourn.errors import BadFile, SojournError
from sojourn.replay import formats, stores
from sojourn.replay.columns import INTEGER, TEXT

_TYPES = {
    **dict.fromkeys(
        ("at_ms", "waited_ms", "condition_ms", "submitted_ms", "timeout_ms"), pa.int64()
    ),
    **dict.fromkeys(("id", "status", "by_key", "table", "reason", "row"), pa.string()),
}
_KINDS = {name: INTEGER if kind == pa.int64() else TEXT for name, kind in _TYPES.items()}
_ALWAYS = ("by_key",)  # null in every row of some files
_FILES_TO_LOOK_AT = 64  # for the columns
_BATCH_ROWS = 131_072


class BadOutcomes(SojournError, ValueError):
    """What was given is not what a replay or a stream writes."""


@dataclass(frozen=True)
class Source:
    """A table: the names of its columns, and a way to read some of them, from the beginning."""

    names: list[str]
    read: Callable[[list[str]], Iterator[Any]]


def source_of_table(table: Any) -> Source:
    """A table that is in memory."""
    return Source(
        table.column_names,
        lambda columns: iter(table.select(columns).to_batches(max_chunksize=_BATCH_ROWS)),
    )


def source_of_folder(folder: Path) -> Source:
    """The rows of the Parquet or JSON-lines files below a folder."""
    files = data_files(folder)
    if not files:
        raise BadOutcomes(f"there are no files in {folder}; has the job ended?")
    endings = {path.suffix for path in files}
    if endings == {".parquet"}:
        names, read = _parquet(folder, files)
    elif endings <= {".json", ".jsonl", ".ndjson"}:
        names, read = _json(files)
    else:
        raise BadOutcomes(
            f"{folder} must hold .parquet files or .json ones, found {', '.join(sorted(endings))}"
        )

    def read_some(columns: list[str]) -> Iterator[Any]:
        missing = [name for name in columns if name not in names]
        if missing:
            raise BadOutcomes(
                f"{files[0].parent} must have a column {missing[0]}, found {', '.join(names)}"
            )
        return read(columns)

    return Source(names, read_some)


def data_files(folder: Path) -> list[Path]:
    """The files below a folder; those whose name begins with _ or . are not data."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    )


Reader = Callable[[list[str]], Iterator[Any]]


def _parquet(folder: Path, files: list[Path]) -> tuple[list[str], Reader]:
    try:
        # A stream that has run for long may have begun with fewer columns than it has now.
        oldest, newest = (pick(files, key=lambda path: path.stat().st_mtime) for pick in (min, max))
        schemas = [ds.dataset([str(path)], format="parquet").schema for path in {oldest, newest}]
        schema = pa.unify_schemas(schemas)
        dataset = ds.dataset([str(path) for path in files], schema=schema, format="parquet")
    except (pa.ArrowInvalid, OSError) as error:
        raise BadOutcomes(f"cannot read {folder}: {error}") from error

    def read(columns: list[str]) -> Iterator[Any]:
        # Few batches ahead: a column of a hundred million rows must not pile up in memory.
        batches = dataset.scanner(
            columns=columns, batch_size=_BATCH_ROWS, batch_readahead=4, fragment_readahead=1
        ).to_batches()
        try:
            yield from batches
        except (pa.ArrowInvalid, OSError) as error:
            raise BadOutcomes(f"cannot read {files[0]}: {error}") from error

    return schema.names, read


def _json(files: list[Path]) -> tuple[list[str], Reader]:
    filled = [path for path in files if path.stat().st_size]
    if not filled:  # a stream that has had nothing to say so far
        return list(_TYPES), lambda columns: iter(())
    names_in_files = [
        name
        for path in filled[:_FILES_TO_LOOK_AT]
        for name in _json_table(path, head=True).column_names
    ]
    names = list(dict.fromkeys([*names_in_files, *_ALWAYS]))

    def read(columns: list[str]) -> Iterator[Any]:
        for path in filled:
            table = _json_table(path)
            chosen = {name: _column(table, name, path) for name in columns}
            yield from pa.table(chosen).to_batches(max_chunksize=_BATCH_ROWS)

    return names, read


def _json_table(path: Path, *, head: bool = False) -> Any:
    file = stores.file(str(path), path.stat().st_size)
    try:
        table, rejected = formats.read(file, "outcomes", _KINDS, head=head)
    except BadFile as error:
        raise BadOutcomes(f"cannot read {path}: {error}") from error
    if len(rejected):
        row = rejected.slice(0, 1).to_pylist()[0]
        raise BadOutcomes(f"cannot read {path}: {row['reason']}: {row['row'][:100]!r}")
    return table


def _column(table: Any, name: str, path: Path) -> Any:
    """The column in the type that it always has; null where the lines leave it out."""
    if name not in table.column_names:
        return pa.nulls(len(table), _TYPES.get(name, pa.string()))
    column = table[name]
    try:
        return column.cast(_TYPES[name]) if name in _TYPES else column
    except pa.ArrowInvalid as error:
        raise BadOutcomes(f"cannot read {path}: column {name}: {error}") from error
