"""The chapter being written: the hour at the end of a history, and the parts of it that grow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from sojourn.history.folder import Folder, part_name
from sojourn.history.hours import Hour, Part
from sojourn.history.tables import SCHEMAS, TABLES, RowBuffer


@dataclass(frozen=True)
class PartLimits:
    """How long a part may become before the next one is begun."""

    rows: int = 250_000
    bytes: int = 64 << 20

    def is_full(self, rows: pa.Table) -> bool:
        return len(rows) >= self.rows or rows.nbytes >= self.bytes


class Chapter:
    """Takes rows of one hour. What `write` has returned from is on disk, and counts."""

    hour: Hour

    def __init__(self, folder: Folder, hour: Hour, limits: PartLimits) -> None:
        self._folder = folder
        self._limits = limits
        self.hour = hour
        self._growing: dict[str, pa.Table] = {}  # the rows of each table's last part

    @classmethod
    def begin(
        cls, folder: Folder, name: str, batch: int, time_ms: int, limits: PartLimits
    ) -> Chapter:
        """An hour that begins with this batch; nothing is written yet."""
        nothing: dict[str, tuple[Part, ...]] = dict.fromkeys(TABLES, ())
        return cls(folder, Hour(name, batch, batch - 1, time_ms, time_ms, 0, nothing), limits)

    @classmethod
    def resume(cls, folder: Folder, hour: Hour, limits: PartLimits) -> Chapter:
        """Go on with an hour, from what counts of it."""
        chapter = cls(folder, hour, limits)
        for table in TABLES:
            part = hour.parts[table][-1]
            rows = folder.read_part(table, hour.name, part.name).slice(0, part.rows)
            if not limits.is_full(rows):
                chapter._growing[table] = rows
        return chapter

    def write(self, rows: RowBuffer, last_batch: int, last_ms: int, last_outcome: int) -> None:
        """Add the rows of the batches up to this one: to the files, then to what counts."""
        parts = {}
        for table, more in rows.tables().items():
            parts[table] = self._write_table(table, more, last_batch)
        self.hour = replace(
            self.hour,
            last_batch=last_batch,
            last_ms=last_ms,
            last_outcome=last_outcome,
            parts=parts,
        )
        self._folder.write_hour(self.hour)

    def _write_table(self, table: str, more: pa.Table, last_batch: int) -> tuple[Part, ...]:
        parts = self.hour.parts[table]
        if not len(more) and parts:
            return parts
        growing = self._growing.pop(table, None)
        if growing is None:
            growing = SCHEMAS[table].empty_table()
            parts = (*parts, Part(part_name(self.hour.last_batch + 1), 0))
        rows = pa.concat_tables([growing, more])
        name = parts[-1].name
        self._folder.write_part(table, self.hour.name, name, rows, last_batch)
        if not self._limits.is_full(rows):
            self._growing[table] = rows
        return (*parts[:-1], Part(name, len(rows)))
