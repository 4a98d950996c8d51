"""Rows added up as they come, in memory by the number of different rows, not of all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_ROWS_AT_ONCE = 500_000


class Sums:
    """Adds up all columns of tables by some of them, which come first in `schema`."""

    def __init__(self, schema: Any, by: int, *, at_once: int = _ROWS_AT_ONCE) -> None:
        self.schema = schema
        self._by = schema.names[:by]
        self._at_once = at_once  # so many more are gathered before they are added up
        self._sums = schema.empty_table()
        self._loose: list[Any] = []
        self._loose_rows = 0

    def add(self, columns: list[Any]) -> None:
        """Take in rows, a column at a time."""
        self._loose.append(pa.table(columns, schema=self.schema))
        self._loose_rows += len(self._loose[-1])
        if self._loose_rows > len(self._sums) + self._at_once:
            self.table()

    def table(self) -> Any:
        """What there is so far: each row once, in no order."""
        if self._loose:
            self._sums = self._added_up(pa.concat_tables([self._sums, *self._loose]))
            self._loose, self._loose_rows = [], 0
        return self._sums

    def __len__(self) -> int:
        """How many rows there are, without those that came in since they were last added up."""
        return len(self._sums)

    def _added_up(self, table: Any) -> Any:
        values = self.schema.names[len(self._by) :]
        sums = table.group_by(self._by).aggregate([(name, "sum") for name in values])
        return (
            sums.rename_columns({f"{name}_sum": name for name in values})
            .select(self.schema.names)
            .cast(self.schema)
        )
