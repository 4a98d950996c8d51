"""Formats: read one file as a table of the columns it has, and the lines that are not rows.

    .parquet .pq                 or whatever begins with PAR1
    .csv .tsv                    a header, then rows; every value is text
    .json .jsonl .ndjson, others a JSON object a line

CSV and JSON may be compressed: .gz, .bz2, .zst, .lz4, .br. A line that is not a row is rejected
with its text, and the other lines are read. `rows.py` decides what the values mean; here only
JSON's own types are checked.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.json as pj
import pyarrow.parquet as pq

from sojourn.errors import BadFile
from sojourn.replay import requirements, rows
from sojourn.replay.columns import DURATION, INTEGER, REQUIRES, TEXT, TIME
from sojourn.replay.rejected import rejected_rows
from sojourn.replay.stores import File

NOT_JSON = "the line is not a JSON object"
NOT_UNICODE = "the line is not valid Unicode"

Kinds = Mapping[str, str]  # what columns hold; a column that is not in it passes through

_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")
_CODECS = {".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".tsv")
_MAGIC = b"PAR1"
_HEAD_BYTES = 1 << 18


class Read(NamedTuple):
    """What was read: the valid rows, and the rejected ones."""

    table: pa.Table
    rejected: pa.Table

    def __len__(self) -> int:
        return len(self.table) + len(self.rejected)


def read(
    file: File,
    name: str,
    kinds: Kinds,
    groups: tuple[int, int] | None = None,
    *,
    head: bool = False,
) -> Read:
    """Read a file of the table `name`; of Parquet only these row groups, if they are given.

    With `head` only what comes first is read, to see what the file is like.
    """
    try:
        if is_parquet(file):
            return Read(_parquet(file, groups, head), rows.REJECTED.empty_table())
        data = _data(file, head).removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{name}: cannot read {file}: {error.strerror or error}") from None
    return _csv(data, file, name) if _ending(file) in _CSV else _json(data, name, kinds)


def is_parquet(file: File) -> bool:
    ending = _ending(file)
    if ending in _PARQUET:
        return True
    if ending in (*_CSV, ".json", ".jsonl", ".ndjson"):
        return False
    with file.open() as opened:
        return bool(opened.read(4) == _MAGIC)


def row_groups(file: File) -> list[int]:
    """Return how many bytes each row group of a Parquet file takes."""
    with _opened(file) as parquet:
        metadata = parquet.metadata
        return [metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups)]


def column(file: File, name: str, groups: tuple[int, int] | None) -> pa.ChunkedArray | None:
    """Read one column of a Parquet file; None if it is not Parquet, or has no such column."""
    if not is_parquet(file):
        return None
    with _opened(file) as parquet:
        if name not in parquet.schema_arrow.names:
            return None
        try:
            some = range(parquet.num_row_groups) if groups is None else range(*groups)
            return parquet.read_row_groups(list(some), [name]).column(name)
        except (pa.ArrowException, OSError) as error:
            raise _not_parquet(file, error) from None


def _ending(file: File) -> str:
    endings = PurePosixPath(file.path).suffixes
    if endings and endings[-1] in _COMPRESSED:
        endings.pop()
    return endings[-1] if endings else ""


# Parquet.


def _parquet(file: File, groups: tuple[int, int] | None, head: bool) -> pa.Table:
    with _opened(file) as parquet:
        try:
            if head:
                first = next(parquet.iter_batches(batch_size=1_000), None)
                return pa.Table.from_batches([first] if first else [], parquet.schema_arrow)
            if groups is None:
                return parquet.read()
            return parquet.read_row_groups(list(range(*groups)))
        except (pa.ArrowException, OSError) as error:
            raise _not_parquet(file, error) from None


def _opened(file: File) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file.open())
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise _not_parquet(file, error) from None


def _not_parquet(file: File, error: BaseException) -> BadFile:
    why = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
    return BadFile(
        f"{file} is not a Parquet file, or not a whole one ({why}); "
        "write it again, or take it out of the folder"
    )


# Compressed or plain.


def _data(file: File, head: bool) -> bytes:
    ending = PurePosixPath(file.path).suffix
    with file.open() as raw:
        try:
            if ending == ".gz":
                return _bytes(gzip.GzipFile(fileobj=raw), head)
            if ending == ".bz2":
                return _bytes(bz2.BZ2File(raw), head)
            if ending in _CODECS:
                return _bytes(pa.CompressedInputStream(raw, _CODECS[ending]), head)
            return _bytes(raw, head)
        except (EOFError, gzip.BadGzipFile, pa.ArrowException, OSError) as error:
            if ending not in _COMPRESSED or (isinstance(error, OSError) and error.errno):
                raise
            name = {".gz": "gzip", ".bz2": "bzip2"}.get(ending) or _CODECS[ending]
            raise BadFile(f"{file} is not a whole {name} file ({error}); write it again") from None


def _bytes(stream: Any, head: bool) -> bytes:
    data: bytes = stream.read(_HEAD_BYTES) if head else stream.read()
    # The last line may be cut, and must not be taken for a broken one.
    return data[: data.rfind(b"\n") + 1] if head and len(data) == _HEAD_BYTES else data


# CSV.


def _csv(data: bytes, file: File, name: str) -> Read:
    data, rejected = _without_broken_text(data, name)
    header, _, _ = data.partition(b"\n")
    if not header.strip():
        return Read(pa.table({}), rejected)
    first = header.decode()
    # The delimiter that occurs most often in the header.
    delimiter = max(",;\t|", key=first.count)
    names = next(csv.reader([first.strip("\r")], delimiter=delimiter))
    torn: list[tuple[str, str]] = []

    def put_aside(row: Any) -> str:
        reason = f"the line has {row.actual_columns} values, not {row.expected_columns}"
        torn.append((reason, row.text or ""))
        return "skip"

    try:
        table = pcsv.read_csv(
            io.BytesIO(data),
            pcsv.ReadOptions(use_threads=False, column_names=names, skip_rows=1),
            pcsv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=put_aside
            ),
            pcsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, OSError) as error:
        if "Empty CSV" in str(error):
            table = pa.table({column: pa.array([], pa.string()) for column in names})
        else:
            raise BadFile(f"{file} is not a CSV file with a header ({error})") from None
    return Read(table, pa.concat_tables([rejected, _rejected(name, torn)]))


def _without_broken_text(data: bytes, name: str) -> tuple[bytes, pa.Table]:
    """Reject lines that are not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        pass
    else:
        return data, rows.REJECTED.empty_table()
    good, bad = [], []
    for line in data.split(b"\n"):
        try:
            line.decode()
            good.append(line)
        except UnicodeDecodeError:
            bad.append((NOT_UNICODE, line.decode("utf-8", "replace").strip()))
    return b"\n".join(good), _rejected(name, bad)


# JSON.


def _json(data: bytes, name: str, kinds: Kinds) -> Read:
    table = _json_at_once(data, kinds)
    if table is not None:
        return Read(table, rows.REJECTED.empty_table())
    return parse_lines(data.split(b"\n"), name, kinds)


def _json_at_once(data: bytes, kinds: Kinds) -> pa.Table | None:
    """Let Arrow read it all; None if anything about it is unusual."""
    lines = sum(1 for line in io.BytesIO(data) if line.strip())
    if not lines:
        return pa.table({})
    schema = pa.schema([])
    while True:
        try:
            table = pj.read_json(
                io.BytesIO(data), parse_options=pj.ParseOptions(explicit_schema=schema)
            )
            table.validate(full=True)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        # Arrow turns text that looks like a time into a time; that is left to rows.py.
        stamps = [f.name for f in table.schema if pa.types.is_timestamp(f.type)]
        if not stamps:
            break
        for column in stamps:
            schema = schema.append(pa.field(column, pa.string()))
    # Each line must be one row; Arrow does not insist on that.
    usual = all(_is_usual(field.type, kinds.get(field.name)) for field in table.schema)
    return table if len(table) == lines and usual else None


def _is_usual(type_: pa.DataType, kind: str | None) -> bool:
    if kind is None or pa.types.is_null(type_):
        return True
    if kind == REQUIRES:
        if not pa.types.is_list(type_) or not pa.types.is_struct(type_.value_type):
            return False
        fields = {field.name: field.type for field in type_.value_type}
        return _is_usual(fields.get("key", pa.bool_()), TEXT) and _is_usual(
            fields.get("offset", pa.bool_()), INTEGER
        )
    return bool(pa.types.is_int64(type_) or (pa.types.is_string(type_) and kind != INTEGER))


def parse_lines(lines: Iterable[bytes], name: str, kinds: Kinds) -> Read:
    """Read a line at a time; reject lines that are not rows."""
    good: list[dict[str, Any]] = []
    bad: list[tuple[str, str]] = []
    for line in lines:
        if not line.strip():
            continue
        row, fault = _row_of(line, kinds)
        if row is None:
            bad.append((fault, line.decode("utf-8", "replace").strip()))
        else:
            good.append(row)
    columns = dict.fromkeys(column for row in good for column in row)
    table = pa.table(
        {c: _array([row.get(c) for row in good], kinds.get(c)) for c in columns} if columns else {}
    )
    return Read(table, _rejected(name, bad))


def _row_of(line: bytes, kinds: Kinds) -> tuple[dict[str, Any] | None, str]:
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
    for column, kind in kinds.items():
        fault = _fault(row.get(column), column, kind)
        if fault is not None:
            return None, fault
    return row, ""


def _fault(value: Any, what: str, kind: str) -> str | None:
    """Say what is wrong with a value, if it is of a type that the column cannot have."""
    if value is None:
        return None
    if kind == REQUIRES:
        return _fault_of_requires(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if kind == TEXT:
        return None if isinstance(value, str) or is_number else f"{what} is not a string"
    if is_number:
        return None if rows.LEAST <= value <= rows.MOST else _outside(value, what)
    if kind == INTEGER:
        is_text = isinstance(value, str) and value.strip().lstrip("-").isdecimal()
        return None if is_text else f"{what} is not an integer"
    return None if isinstance(value, (str, float)) else f"{what} is not a {kind}"


def _outside(value: int, what: str) -> str:
    if what == "needed":
        return rows.NEEDED_BELOW if value < 1 else rows.NEEDED_ABOVE
    return f"{what} is outside 64 bits"


def _fault_of_requires(value: Any) -> str | None:
    if isinstance(value, str):  # JSON in JSON; rows.py looks into it
        return None
    if not isinstance(value, list) or not all(i is None or isinstance(i, dict) for i in value):
        return rows.REQUIRES_UNREADABLE
    for field, kind in (("key", TEXT), ("offset", INTEGER)):
        for item in value:
            fault = _fault((item or {}).get(field), f"a required {field}", kind)
            if fault is not None:
                return fault
    return None


def _array(values: list[Any], kind: str | None) -> pa.Array:
    """Make a column of values that fit it, in a type that holds them all."""
    if kind == REQUIRES:
        if any(isinstance(value, str) for value in values):
            texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
            return pa.array(texts, pa.string())
        lists = [requirements.of_json(value) for value in values]
        return pa.array(lists, requirements.AS_TEXT)
    if kind == TEXT:
        return pa.array([None if v is None else str(v) for v in values], pa.string())
    if kind in (TIME, DURATION, INTEGER):
        if all(v is None or (isinstance(v, int) and -(2**63) <= v < 2**63) for v in values):
            return pa.array(values, pa.int64())
        return pa.array([_number_text(v) for v in values], pa.string())
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):  # of several types: as JSON text
        texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
        return pa.array(texts, pa.string())


def _number_text(value: Any) -> str | None:
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f") if math.isfinite(value) else str(value)
    return None if value is None else str(value)


def _rejected(name: str, bad: list[tuple[str, str]]) -> pa.Table:
    return rejected_rows(name, [reason for reason, _ in bad], [text for _, text in bad])


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
