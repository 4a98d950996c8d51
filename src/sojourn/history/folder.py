"""The folder of a history, as it lies on disk.

    history/
        _history.json                                    which history it is
        _hours/hour=2026-11-15T22.json                   hours.py: what counts of that hour
        operations/hour=2026-11-15T22/part-000000000001.parquet
        signals/hour=2026-11-15T22/part-000000000001.parquet
        cancels/…  outcomes/…  forgotten/…

A part is named after the first batch it may hold rows of. While it is small, it grows: a longer
one is written beside it under a name that readers pass over, synced, and renamed over it. A reader
sees the shorter or the longer one, never a row twice. An hour that has any batch has a part of
each table, which may be empty, so that readers always find the columns.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.durable import disk
from sojourn.errors import BadFile, NoSuchFile
from sojourn.history.hours import FORMAT, Hour
from sojourn.history.tables import SCHEMAS, TABLES

_IDENTITY = "_history.json"
_HOURS = "_hours"
_UNFINISHED = re.compile(r"\.(part-\d+\.parquet|hour=.+\.json|_history\.json)\.unfinished")
_PART = re.compile(r"part-(\d+)\.parquet")
_LAST_BATCH = b"sojourn.last_batch"


class Folder:
    """Where a history lies. Only its recorder writes; anybody may read meanwhile."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"<Folder {str(self.path)!r}>"

    # Which history it is.

    def create(self) -> str:
        """Make it the folder of a history, unless it is one; return the history's identity."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if (self.path / _IDENTITY).exists():
                return self.identity()
            others = [each.name for each in self.path.iterdir() if not each.name.startswith("_")]
            if others:
                raise BadFile(
                    f"{self.path} is not empty and holds no history ({sorted(others)[0]} is in "
                    "it); give a folder of its own"
                )
            for name in (_HOURS, *TABLES):
                (self.path / name).mkdir(exist_ok=True)
            disk.sync(self.path)
            identity = uuid.uuid4().hex
            text = json.dumps({"format": FORMAT, "identity": identity})
            _write(self.path / _IDENTITY, text.encode())
            return identity
        except OSError as error:
            raise _not_written(self.path, error) from error

    def identity(self) -> str:
        """Which history it holds."""
        path = self.path / _IDENTITY
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            number, identity = fields["format"], str(fields["identity"])
        except FileNotFoundError:
            raise NoSuchFile(
                f"{self.path} holds no history: there is no {path}; give the folder that "
                "`sojourn serve --history` names"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise BadFile(f"{path} cannot be read ({error!r}); restore it from a copy") from None
        if number > FORMAT:
            raise BadFile(f"{path} was written by a newer version of sojourn; use that one")
        return identity

    # Hours.

    def hours(self) -> list[Hour]:
        """What counts, hour by hour."""
        hours = []
        for path in self._hour_paths():
            with contextlib.suppress(FileNotFoundError):  # it was removed just now
                hours.append(Hour.from_json(path.read_text(encoding="utf-8"), path))
        return sorted(hours, key=lambda hour: hour.first_batch)

    def last_hour(self) -> Hour | None:
        """The last one; None if nothing was recorded yet."""
        hours = self.hours()
        return hours[-1] if hours else None

    def write_hour(self, hour: Hour) -> None:
        """From now on this is what counts of the hour."""
        try:
            _write(self.path / _HOURS / f"hour={hour.name}.json", hour.to_json().encode())
        except OSError as error:
            raise _not_written(self.path, error) from error

    def _hour_paths(self) -> list[Path]:
        folder = self.path / _HOURS
        return [path for path in folder.glob("hour=*.json") if path.is_file()]

    # Parts.

    def part_path(self, table: str, hour: str, name: str) -> Path:
        return self.path / table / f"hour={hour}" / name

    def write_part(self, table: str, hour: str, name: str, rows: pa.Table, last_batch: int) -> None:
        """Put the rows in place, instead of those that the part had."""
        path = self.part_path(table, hour, name)
        rows = rows.replace_schema_metadata({_LAST_BATCH: str(last_batch)})
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True)
                disk.sync(path.parent.parent)
            unfinished = path.with_name(f".{name}.unfinished")
            pq.write_table(rows, unfinished, compression="zstd", write_page_checksum=True)
            _put_in_place(unfinished, path)
        except OSError as error:
            raise _not_written(path, error) from error

    def read_part(
        self, table: str, hour: str, name: str, columns: list[str] | None = None
    ) -> pa.Table:
        """The rows of a part, also those that do not count yet.

        A column that parts did not have when it was written is null.
        """
        with self._opened(self.part_path(table, hour, name)) as file:
            rows = file.read(columns=columns)
            schema = SCHEMAS[table]
            if columns is not None:
                schema = pa.schema([schema.field(column) for column in columns])
            for field in schema:
                if field.name not in rows.column_names:
                    rows = rows.append_column(field, pa.nulls(len(rows), field.type))
            return rows.select(schema.names).replace_schema_metadata(None).cast(schema)

    def part_size(self, table: str, hour: str, name: str) -> tuple[int, int]:
        """How many rows the part has, and the last batch whose rows are in it."""
        with self._opened(self.part_path(table, hour, name)) as file:
            metadata = file.schema_arrow.metadata or {}
            return file.metadata.num_rows, int(metadata.get(_LAST_BATCH, b"0"))

    def part_files(self, table: str) -> Iterator[tuple[str, str]]:
        """Hour and name of every file that readers of the table see."""
        root = self.path / table
        for path in sorted(root.rglob("*")):
            inside = path.relative_to(root).parts
            if path.is_file() and not any(part.startswith(("_", ".")) for part in inside):
                yield "/".join(inside[:-1]).removeprefix("hour="), path.name

    def remove_leftovers(self) -> int:
        """Remove what a recorder that was killed left unfinished; return how many files.

        That is files under unfinished names, and parts of batches that no hour covers yet.
        """
        last = self.last_hour()
        last_batch = last.last_batch if last else 0
        leftovers = [
            path for path in self.path.rglob(".*.unfinished") if _UNFINISHED.fullmatch(path.name)
        ]
        for table in TABLES:
            for hour, name in self.part_files(table):
                if (first_batch_of(name) or 0) > last_batch:
                    leftovers.append(self.part_path(table, hour, name))
        for path in leftovers:
            path.unlink()
        return len(leftovers)

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Iterator[Any]:
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                yield file
        except FileNotFoundError:
            raise NoSuchFile(f"{path} is gone; the history names it") from None
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, BadFile):
                raise
            raise BadFile(f"{path} cannot be read: {error}; restore it from a copy") from error


def part_name(first_batch: int) -> str:
    """The name of a part whose rows begin with that batch."""
    return f"part-{first_batch:012d}.parquet"


def first_batch_of(name: str) -> int | None:
    """The batch that a part's name says; None if it is no name of ours."""
    match = _PART.fullmatch(name)
    return int(match[1]) if match else None


def _write(path: Path, content: bytes) -> None:
    """Write a small file: it is there whole, and on disk, or as it was."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(content)
    _put_in_place(unfinished, path)


def _put_in_place(unfinished: Path, path: Path) -> None:
    """Sync the file, then give it its name, then sync that."""
    disk.sync(unfinished)
    os.replace(unfinished, path)
    disk.sync(path.parent)


def _not_written(path: Path, error: OSError) -> BadFile:
    if isinstance(error, BadFile):
        return error
    return BadFile(f"the history in {path} cannot be written: {error.strerror or error}")
