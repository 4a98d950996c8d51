"""The stretch of a history that can be replayed: hours without a gap, up to the last.

    hours       20     21     22     23     00        21 was removed
    stretch                   [-----------------]     cut: what came before 22 is not known

Of a stretch that is not cut, everything is known from the first batch of the file on. Of one that
is, some operations were submitted before, and keys may have come some way before.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sojourn.errors import BadFile, NoSuchFile
from sojourn.history.folder import Folder, first_batch_of
from sojourn.history.hours import Hour
from sojourn.history.tables import SCHEMAS, TABLES, TIME


@dataclass
class Stretch:
    """The hours, and what is wrong with their files."""

    folder: Folder
    hours: list[Hour]
    removed: int  # hours before it that the folder has had
    faults: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Folder) -> Stretch:
        """Find the last stretch of the folder's history."""
        folder.identity()
        hours = folder.hours()
        if not hours:
            raise NoSuchFile(
                f"the history in {folder.path} is empty: nothing was recorded yet; "
                "what was taken is recorded within a minute"
            )
        begin = len(hours) - 1
        while begin and hours[begin - 1].last_batch + 1 == hours[begin].first_batch:
            if not _has_any_part(folder, hours[begin - 1]):
                break
            begin -= 1
        stretch = cls(folder, hours[begin:], begin)
        stretch.faults += stretch._file_faults()
        stretch.faults += stretch._strangers(hours)
        return stretch

    @property
    def is_cut(self) -> bool:
        """Whether there were batches before it."""
        return self.hours[0].first_batch != 1

    @property
    def first_ms(self) -> int:
        """The time of its first batch."""
        return self.hours[0].first_ms

    @property
    def last_ms(self) -> int:
        """The time of its last batch: up to then everything is known."""
        return self.hours[-1].last_ms

    def rows(self, table: str) -> int:
        """How many rows of the table were recorded."""
        return sum(hour.rows(table) for hour in self.hours)

    @contextlib.contextmanager
    def pinned(self) -> Iterator[Callable[[str], list[str]]]:
        """The files of a table that are there, under names that stay theirs meanwhile.

        A recorder may replace files of the last hour while they are read elsewhere: they get a
        second name, where that can be given.
        """
        aside = self.folder.path / f"_verifying-{uuid.uuid4().hex}"

        def pin(table: str, path: Path) -> Path:
            try:
                aside.mkdir(exist_ok=True)
                second = aside / f"{table}-{path.name}"
                second.hardlink_to(path)
                return second
            except OSError:  # not every disk can, nor may everybody write there
                return path

        def paths(table: str) -> list[str]:
            present = []
            for hour in self.hours:
                for part in hour.parts[table]:
                    path = self.folder.part_path(table, hour.name, part.name)
                    if path.exists():
                        present.append(pin(table, path) if hour is self.hours[-1] else path)
            return [str(path) for path in present]

        try:
            yield paths
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def read(self, table: str, columns: list[str]) -> pa.Table:
        """The rows of the table, in the order of batches."""
        schema = pa.schema([SCHEMAS[table].field(column) for column in columns])
        return pa.concat_tables([schema.empty_table(), *self.read_parts(table, columns)])

    def read_parts(self, table: str, columns: list[str]) -> Iterator[pa.Table]:
        """The same, file by file."""
        time = TIME[table]
        columns_to_read = columns if time in columns else [*columns, time]
        for hour in self.hours:
            for part in hour.parts[table]:
                if self.folder.part_path(table, hour.name, part.name).exists():
                    rows = self.folder.read_part(table, hour.name, part.name, columns_to_read)
                    if hour is self.hours[-1]:  # its recorder may have gone on meanwhile
                        rows = rows.filter(pc.less_equal(rows[time], self.last_ms))
                    yield rows.select(columns)

    def _file_faults(self) -> Iterator[str]:
        for hour in self.hours:
            for table in TABLES:
                for part in hour.parts[table]:
                    where = f"{table}/hour={hour.name}/{part.name}"
                    try:
                        rows, last_batch = self.folder.part_size(table, hour.name, part.name)
                    except BadFile as error:
                        yield str(error)
                        continue
                    has_grown = hour is self.hours[-1] and last_batch > hour.last_batch
                    if rows != part.rows and not (has_grown and rows > part.rows):
                        yield f"{where} has {rows} rows, and {part.rows} were recorded"

    def _strangers(self, hours: list[Hour]) -> Iterator[str]:
        """Files that no hour names, and that readers of the folder would read."""
        recorded = {
            (table, hour.name, part.name)
            for hour in hours
            for table in TABLES
            for part in hour.parts[table]
        }
        last_batch = hours[-1].last_batch
        for table in TABLES:
            for hour, name in self.folder.part_files(table):
                if (table, hour, name) in recorded or (first_batch_of(name) or 0) > last_batch:
                    continue
                yield f"{table}/hour={hour}/{name} is none of the recorded files"


def _has_any_part(folder: Folder, hour: Hour) -> bool:
    return any(
        folder.part_path(table, hour.name, part.name).exists()
        for table in TABLES
        for part in hour.parts[table]
    )
