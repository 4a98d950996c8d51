"""Rejected rows: the reason why a row is rejected, and the row as JSON.

The JSON is made row by row, and only for rejected rows.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.replay.arrays import Integers, Mask
from sojourn.replay.names import text_of
from sojourn.replay.schemas import REJECTED
from sojourn.replay.times import Numbers

# Where Spark's readers put the text of a row that they could not read; and why, if that is known.
CORRUPT, CORRUPT_REASON = "_corrupt_record", "_corrupt_reason"

BROKEN = "it is not JSON, or not of the columns' types"

_NUMBERS = frozenset({"submitted_ms", "timeout_ms", "deadline_ms", "needed", "offset", "at_ms"})
_WHOLE = re.compile(r"-?[0-9]{1,19}")


class Verdict:
    """Which rows of a table are faulty; of several reasons the first one counts."""

    def __init__(self, table: pa.Table, name: str) -> None:
        self._table = table
        self._name = name
        self._reasons = [""]
        self._verdicts = np.zeros(len(table), dtype=np.int32)
        if CORRUPT in table.column_names and table[CORRUPT].null_count < len(table):
            self._blame_corrupt()

    def _blame_corrupt(self) -> None:
        broken = np.asarray(pc.is_valid(self._table[CORRUPT]))
        if CORRUPT_REASON not in self._table.column_names:
            self.blame(BROKEN, broken)
            return
        reasons = pc.fill_null(self._table[CORRUPT_REASON], BROKEN)
        for reason in pc.unique(reasons.filter(pa.array(broken))).to_pylist():
            self.blame(reason, broken & np.asarray(pc.equal(reasons, reason)))

    def blame(self, reason: str, faulty: Mask | None) -> None:
        if faulty is not None and faulty.any():
            self._verdicts[faulty & (self._verdicts == 0)] = len(self._reasons)
            self._reasons.append(reason)

    def blame_numbers(self, column: str, numbers: Numbers, what: str) -> None:
        self.blame(f"{column} is null", numbers.null)
        self.blame(f"{column} is not {what}", numbers.unreadable)
        self.blame(f"{column} is outside 64 bits", numbers.outside)

    @property
    def sound(self) -> Mask:
        sound: Mask = self._verdicts == 0
        return sound

    def rejected(self) -> pa.Table:
        if len(self._reasons) == 1:
            return REJECTED.empty_table()
        numbers = np.flatnonzero(self._verdicts)
        reasons = [self._reasons[n] for n in self._verdicts[numbers]]
        return reject(self._table, self._name, numbers, reasons)


def reject(table: pa.Table, name: str, numbers: Integers, reasons: str | list[str]) -> pa.Table:
    """Return the rejected table for these rows, with one reason for all or one for each."""
    lines = table.column(CORRUPT) if CORRUPT in table.column_names else None
    table = without_corrupt(table)
    try:
        texts = row_texts(table.take(pa.array(numbers)))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        # Arrow cannot take rows of every type, nor out of chunks with more than 2 GiB of text.
        texts = [text for n in numbers.tolist() for text in row_texts(table.slice(n, 1))]
    if lines is not None and lines.null_count < len(lines):
        whole = lines.take(pa.array(numbers)).to_pylist()
        texts = [text if line is None else line for text, line in zip(texts, whole, strict=True)]
    if isinstance(reasons, str):
        reasons = [reasons] * len(texts)
    return rejected_rows(name, reasons, texts)


def without_corrupt(table: pa.Table) -> pa.Table:
    """Return the table without the columns of rows that could not be read."""
    names = [name for name in (CORRUPT, CORRUPT_REASON) if name in table.column_names]
    return table.drop_columns(names)


def rejected_rows(name: str, reasons: list[str], texts: list[str]) -> pa.Table:
    """Return the rejected table for rows whose texts are known."""
    return pa.table([[name] * len(texts), reasons, texts], schema=REJECTED)


def row_texts(table: pa.Table) -> list[str]:
    """Return each row as JSON text, its columns in their order."""
    for n, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":  # Python has no such
            coarser = table.column(n).cast(pa.timestamp("us", field.type.tz), safe=False)
            table = table.set_column(n, field.name, coarser)
    try:
        rows = table.to_pylist()
    except (UnicodeDecodeError, ValueError, OverflowError):  # not all of Arrow's is Python's
        columns = [[_value(item) for item in column] for column in table.columns]
        rows = [
            dict(zip(table.column_names, values, strict=True))
            for values in zip(*columns, strict=True)
        ]
    return [json.dumps(_plain(_with_numbers(row)), ensure_ascii=False) for row in rows]


def _with_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """The row, with whole numbers as numbers, though its source knows no types, as CSV."""
    shown = {name: _number(value) if name in _NUMBERS else value for name, value in row.items()}
    requires = shown.get("requires")
    if isinstance(requires, list):
        shown["requires"] = [
            {name: _number(value) if name == "offset" else value for name, value in pair.items()}
            if isinstance(pair, dict)
            else pair
            for pair in requires
        ]
    return shown


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value


def _value(item: pa.Scalar) -> Any:
    try:
        return item.as_py()
    except (UnicodeDecodeError, ValueError, OverflowError):
        if hasattr(item, "as_buffer"):
            return str(item.cast(pa.binary()).as_py())
        return getattr(item, "value", None)  # a time beyond what Python tells, as its number


def _plain(value: Any) -> Any:
    """The value as JSON has it; what JSON cannot say is a string."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, datetime):  # of whatever type, in one form
        return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)
