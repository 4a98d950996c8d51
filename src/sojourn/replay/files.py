"""Files: rows from Parquet or JSON lines, a file, a folder or a pattern; and the answer as folders.

A file that cannot be read, lacks a column or has one of the wrong type is an error that names the
file. In JSON lines every line stands for itself: one that is not a row is rejected, with the line
as it is, and the others go on.
"""

from __future__ import annotations

import glob
import gzip
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from sojourn.errors import BadFile, BadTable, NoSuchFile
from sojourn.replay import rows
from sojourn.replay.local import Resolution, resolve

NOT_JSON = "the line is not a JSON object"
NOT_UNICODE = "the line is not valid Unicode"

PARTS = ("outcomes", "pending", "rejected")

_PARQUET = (".parquet", ".pq")
_JSON = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")
_REQUIRES = pa.list_(pa.struct([("key", pa.string()), ("offset", pa.int64())]))
_SCHEMAS = {
    rows.OPERATIONS: pa.schema(
        [
            ("id", pa.string()),
            ("submitted_ms", pa.int64()),
            ("timeout_ms", pa.int64()),
            ("requires", _REQUIRES),
            ("needed", pa.int64()),
        ]
    ),
    rows.SIGNALS: pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())]),
    rows.CANCELS: pa.schema([("id", pa.string()), ("at_ms", pa.int64())]),
}
_CHECKS: dict[str, Any] = {
    rows.OPERATIONS: rows.check_operations,
    rows.SIGNALS: rows.check_signals,
    rows.CANCELS: rows.check_cancels,
}


class Read(NamedTuple):
    """What was in the files: the rows, and the lines that were no rows."""

    table: pa.Table
    rejected: pa.Table


def read(path: str | os.PathLike[str], name: str) -> Read:
    """Read the table `name` (operations, signals or cancels) from a file, a folder or a pattern.

    Of a folder everything below it is read, but for names that begin with `_` or `.`; what
    folders called `column=value` say becomes a column, as Spark writes it.
    """
    if name not in _SCHEMAS:
        raise BadTable(f"name must be one of {', '.join(_SCHEMAS)}, got {name!r}")
    found = [_read_file(file, extra, name) for file, extra in _files_of(path, name)]
    try:
        table = pa.concat_tables([part.table for part in found], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadTable(f"{name}: the files of {path} do not make one table; {error}") from None
    return Read(table, pa.concat_tables([part.rejected for part in found]))


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
    found = resolve(wanted.table, seen.table, called_off and called_off.table, until_ms)
    broken = [part.rejected for part in (wanted, seen, called_off) if part is not None]
    return Resolution(found.outcomes, found.pending, pa.concat_tables([*broken, found.rejected]))


def write(resolution: Any, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write outcomes, pending and rejected as Parquet, a folder each in `folder`.

    They are written aside and moved in place when complete, so a reader sees all of a folder or
    nothing of it. Folders that are there already are an error, or replaced with `overwrite`.
    """
    folder = Path(folder)
    there = [part for part in PARTS if (folder / part).exists()]
    if there and not overwrite:
        raise BadFile(
            f"{folder / there[0]} is there already; choose another folder or overwrite it"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix="_writing-", dir=folder))
    except OSError as error:
        raise BadFile(f"cannot write to {folder}: {error.strerror or error}") from None
    try:
        for part in PARTS:
            (aside / part).mkdir()
            pq.write_table(getattr(resolution, part), aside / part / "part-00000.parquet")
        for part in PARTS:
            if (folder / part).exists():
                (folder / part).rename(aside / f"old-{part}")
            (aside / part).rename(folder / part)
    except OSError as error:
        raise BadFile(f"cannot write to {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _files_of(path: str | os.PathLike[str], name: str) -> list[tuple[Path, dict[str, str | None]]]:
    """The files meant, each with what the names of its folders say."""
    root = Path(path)
    if root.is_file():
        return [(root, {})]
    if root.is_dir():
        found = [(file, _said(file.relative_to(root).parts[:-1])) for file in _below(root)]
        what = f"the folder {root} has no data files in it"
    else:
        matches = [Path(match) for match in sorted(glob.glob(str(root), recursive=True))]
        found = [(file, {}) for match in matches for file in _below(match)]
        what = f"there is no {root}"
    if not found:
        raise NoSuchFile(
            f"{name}: {what}; give a Parquet or JSON-lines file, a folder or a pattern"
        )
    return found


def _below(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file()
        and not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
    ]


def _said(folders: tuple[str, ...]) -> dict[str, str | None]:
    pairs = (folder.partition("=") for folder in folders if "=" in folder)
    return {
        unquote(column): None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
        for column, _, value in pairs
    }


def _read_file(file: Path, said: dict[str, str | None], name: str) -> Read:
    try:
        if _is_parquet(file):
            part = Read(_parquet(file), rows.REJECTED.empty_table())
        else:
            part = _json(file, name)
    except OSError as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{name}: cannot read {file}: {error.strerror or error}") from None
    table = part.table
    for column, value in said.items():
        if column not in table.column_names:
            table = table.append_column(column, pa.array([value] * len(table), pa.string()))
    try:
        _CHECKS[name](table.slice(0, 0))
    except BadTable as error:
        raise BadTable(f"{file}: {error}") from None
    return Read(table, part.rejected)


def _is_parquet(file: Path) -> bool:
    if file.name.endswith(_PARQUET):
        return True
    if file.name.endswith(_JSON):
        return False
    with file.open("rb") as opened:
        return opened.read(4) == b"PAR1"


def _parquet(file: Path) -> pa.Table:
    try:
        return pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise BadFile(
            f"{file} is not a Parquet file, or not a whole one ({_first_line(error)}); "
            "write it again, or take it out of the folder"
        ) from None


def _json(file: Path, name: str) -> Read:
    with gzip.open(file) if file.name.endswith(".gz") else file.open("rb") as opened:
        try:
            data = opened.read()
        except (EOFError, gzip.BadGzipFile) as error:
            raise BadFile(f"{file} is not a whole gzip file ({error}); write it again") from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    table = _json_at_once(data, name)
    part = _json_by_line(data, name) if table is None else Read(table, rows.REJECTED.empty_table())
    # A column that no line has a value in may be null everywhere, or not there at all.
    missing = [
        column
        for column in _SCHEMAS[name].names
        if column != "needed"
        and len(part.table)
        and part.table.column(column).null_count == len(part.table)
        and f'"{column}"'.encode() not in data
    ]
    return Read(part.table.drop_columns(missing), part.rejected)


def _json_at_once(data: bytes, name: str) -> pa.Table | None:
    """Let Arrow read it all; None if anything about it is unusual."""
    schema = _SCHEMAS[name]
    lines = sum(1 for line in io.BytesIO(data) if line.strip())
    if not lines:
        return schema.empty_table()
    while True:
        try:
            table = pj.read_json(
                io.BytesIO(data), parse_options=pj.ParseOptions(explicit_schema=schema)
            )
            table.validate(full=True)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        # Arrow takes strings that look like times for times; a line is a row, which it is not
        # strict about.
        times = [field for field in table.schema if pa.types.is_timestamp(field.type)]
        if not times:
            return table if len(table) == lines else None
        for field in times:
            schema = schema.append(pa.field(field.name, pa.string()))


def _json_by_line(data: bytes, name: str) -> Read:
    """Read a line at a time, and put those aside that are no rows."""
    good: list[dict[str, Any]] = []
    faults: list[str] = []
    texts: list[str] = []
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        row, fault = _row_of(line, name)
        if row is None:
            faults.append(fault)
            texts.append(line.decode("utf-8", "replace").strip())
        else:
            good.append(row)
    rejected = pa.table([[name] * len(texts), faults, texts], schema=rows.REJECTED)
    return Read(_table_of(good, name), rejected)


def _row_of(line: bytes, name: str) -> tuple[dict[str, Any] | None, str]:
    """Return the row, or what is wrong with the line."""
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
        if not isinstance(row, dict):
            return None, NOT_JSON
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        return None, NOT_UNICODE
    except (ValueError, RecursionError):
        return None, NOT_JSON
    faults = list(_faults(row, name))
    if any(is_malformed for _, is_malformed in faults):
        return None, faults[0][0]
    return row, ""


def _faults(row: dict[str, Any], name: str) -> Iterator[tuple[str, bool]]:
    """What is wrong with the values of a row, and whether they do not even fit their columns."""
    for field in _SCHEMAS[name]:
        value = row.get(field.name)
        if field.name == "requires":
            yield from _faults_of_requires(value)
        else:
            may_be_null = field.name == "needed"
            yield from _faults_of(value, field.name, pa.types.is_string(field.type), may_be_null)


def _faults_of_requires(value: Any) -> Iterator[tuple[str, bool]]:
    if value is None or value == []:
        yield rows.REQUIRES_EMPTY, False
    elif not isinstance(value, list) or not all(
        item is None or isinstance(item, dict) for item in value
    ):
        yield "requires is not a list of objects", True
    else:
        items = [item or {} for item in value]
        for item in items:
            yield from _faults_of(item.get("key"), "a required key", True)
        for item in items:
            yield from _faults_of(item.get("offset"), "a required offset", False)


def _faults_of(
    value: Any, what: str, is_text: bool, may_be_null: bool = False
) -> Iterator[tuple[str, bool]]:
    if value is None:
        if not may_be_null:
            yield f"{what} is null", False
    elif is_text:
        if not isinstance(value, str):
            yield f"{what} is not a string", True
    elif isinstance(value, bool) or not isinstance(value, int):
        yield f"{what} is not an integer", True
    elif not rows.LEAST <= value <= rows.MOST:
        if what == "needed":
            yield (rows.NEEDED_BELOW if value < 1 else rows.NEEDED_ABOVE), True
        else:
            yield f"{what} is outside 64 bits", True


def _table_of(good: list[dict[str, Any]], name: str) -> pa.Table:
    schema = _SCHEMAS[name]
    table = pa.Table.from_pylist(
        [{column: row.get(column) for column in schema.names} for row in good], schema
    )
    extras = dict.fromkeys(column for row in good for column in row if column not in schema.names)
    for column in extras:
        values = [row.get(column) for row in good]
        try:
            array = pa.array(values)
        except (pa.ArrowException, OverflowError):  # of several types: as JSON text
            array = pa.array(
                [v if v is None or isinstance(v, str) else json.dumps(v) for v in values],
                pa.string(),
            )
        table = table.append_column(column, array)
    return table


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
