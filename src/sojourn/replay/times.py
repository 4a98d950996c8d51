"""Times and durations: columns of any type, as whole milliseconds.

    timestamps       of any unit; without a zone they are UTC
    dates            midnight, UTC
    durations        of any unit, for timeouts
    numbers          in the unit that the column's name ends with: `at_ms`, `at_s`, `at_us`, `at_ns`
    text             a number; a time as ISO 8601 has it; or a duration such as `30min`

Fractions of a millisecond are rounded down.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.core.time_texts import datetime_ms, duration_ms, moment_ms
from sojourn.errors import BadTable, OutOfRange, WrongType
from sojourn.replay.arrays import Integers, Mask, one_piece

LEAST = -(2**63)
MOST = 2**63 - 1

UNITS = ("ms", "s", "us", "ns")
# A unit in milliseconds is the first number divided by the second.
_SCALES = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
_NUMBER = re.compile(r"-?\d+(\.\d*)?")


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of integers; where one is missing the value is 0, where it is too large the nearest.

    A mask is None where it would be false throughout.
    """

    values: Integers
    null: Mask | None = None
    outside: Mask | None = None  # 64 bits
    unreadable: Mask | None = None  # text that is no number, time or duration


def moments(column: pa.ChunkedArray, unit: str, what: str) -> Numbers:
    """Return a column of times as milliseconds since 1970, or of whatever epoch numbers have."""
    column = _plain(column)
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("ms"))
        kind = column.type
    if pa.types.is_timestamp(kind):
        return _scaled(integers(column.cast(pa.int64()), what), kind.unit)
    return _read(column, unit, what, moment_ms, _MOMENTS)


def durations(column: pa.ChunkedArray, unit: str, what: str) -> Numbers:
    """Return a column of durations as milliseconds."""
    column = _plain(column)
    if pa.types.is_duration(column.type):
        return _scaled(integers(column.cast(pa.int64()), what), column.type.unit)
    return _read(column, unit, what, duration_ms, _DURATIONS)


def integers(column: pa.ChunkedArray, what: str) -> Numbers:
    """Return a column of whole numbers."""
    column = _plain(column)
    kind = column.type
    if is_text(kind):
        return _of_text(column, _never, None)
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_null(kind)
        or (pa.types.is_decimal(kind) and kind.scale == 0)
    ):
        raise BadTable(f"{what} must be integers, found {kind}; cast it to pyarrow.int64()")
    null = nulls(column)
    if null is not None:
        column = (
            pa.chunked_array([pa.array(np.zeros(len(column), dtype=np.int64))])
            if pa.types.is_null(kind)
            else pc.fill_null(column, pa.scalar(0, kind))
        )
    outside = _outside(column)
    if outside is None:
        return Numbers(one_piece(column.cast(pa.int64())).to_numpy(), null)
    nearest = [min(max(int(value), LEAST), MOST) for value in column.filter(outside).to_pylist()]
    inside = pc.if_else(outside, pa.scalar(0, kind), column)
    values = one_piece(inside.cast(pa.int64())).to_numpy().copy()
    mask = np.asarray(outside)
    values[mask] = nearest
    return Numbers(values, null, mask)


def checked_moment_ms(value: Any, name: str, advice: str) -> int:
    """Return a moment that a caller gives, in milliseconds; or say what is wrong with it."""
    try:
        at_ms = datetime_ms(value) if isinstance(value, datetime) else index(value)
    except TypeError:
        raise WrongType(
            f"{name} must be an integer number of milliseconds or a datetime, got {value!r} "
            f"({type(value).__name__}); round it first, e.g. math.floor(seconds * 1000)"
        ) from None
    if not LEAST <= at_ms <= MOST:
        raise OutOfRange(f"{name} must fit 64 bits, got {at_ms}; {advice}")
    return at_ms


def check_forward(now_ms: int | None, before_ms: int | None) -> None:
    """Raise OutOfRange if a time is before that of the last call; None says nothing."""
    if now_ms is not None and before_ms is not None and now_ms < before_ms:
        raise OutOfRange(f"now_ms must be ≥ {before_ms}, got {now_ms}; time does not go back")


def nulls(column: pa.Array | pa.ChunkedArray) -> Mask | None:
    """Say where a column is null; None if it nowhere is."""
    return None if column.null_count == 0 else np.asarray(pc.is_null(column))


_MOMENTS = "must be timestamps, or numbers in the unit that its name ends with"
_DURATIONS = (
    "must be durations, or numbers in the unit that its name ends with "
    "(a point in time goes into deadline_ms instead)"
)


def _read(
    column: pa.ChunkedArray,
    unit: str,
    what: str,
    of_text: Callable[[str], int | None],
    wanted: str,
) -> Numbers:
    """Numbers and text, which times and durations have in common."""
    kind = column.type
    if is_text(kind):
        return _of_text(column, of_text, unit)
    if pa.types.is_floating(kind):
        return _of_floats(column, unit)
    if pa.types.is_decimal(kind) and kind.scale > 0:
        up, down = _SCALES[unit]
        wide = pc.multiply(column.cast(pa.decimal256(60, kind.scale)), pa.scalar(Decimal(up)))
        wide = pc.floor(pc.divide(wide, pa.scalar(Decimal(down))))
        return integers(wide.cast(pa.decimal256(76, 0)), what)
    if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        raise BadTable(f"{what} {wanted}, found {kind}")
    return _scaled(integers(column, what), unit)


def _scaled(numbers: Numbers, unit: str) -> Numbers:
    up, down = _SCALES[unit]
    if up == down:
        return numbers
    if down > 1:
        return Numbers(numbers.values // down, numbers.null, numbers.outside, numbers.unreadable)
    above, below = numbers.values > MOST // up, numbers.values < -(MOST // up)
    outside = numbers.outside
    if above.any() or below.any():
        outside = above | below if outside is None else outside | above | below
    with np.errstate(over="ignore"):
        values = numbers.values * up
    if outside is not None:
        values[above], values[below] = MOST, LEAST
    return Numbers(values, numbers.null, outside, numbers.unreadable)


def _of_floats(column: pa.ChunkedArray, unit: str) -> Numbers:
    """Floats have nulls as NaN in pandas; 1767571200.123 is not exactly that many seconds."""
    up, down = _SCALES[unit]
    floats = pc.fill_null(column.cast(pa.float64()), np.nan)
    values = np.floor(np.round(one_piece(floats).to_numpy() * up / down, 3))
    null = np.isnan(values)
    outside = np.abs(values) >= 2.0**63
    clipped = np.where(null | outside, 0, values).astype(np.int64)
    clipped[outside] = np.where(values[outside] > 0, MOST, LEAST)
    return Numbers(clipped, _some(null), _some(outside))


def _of_text(
    column: pa.ChunkedArray, of_text: Callable[[str], int | None], unit: str | None
) -> Numbers:
    quick = _quickly(column, of_text, unit)
    if quick is not None:
        return quick
    values = np.zeros(len(column), dtype=np.int64)
    null, outside, unreadable = (np.zeros(len(column), dtype=np.bool_) for _ in range(3))
    up, down = _SCALES[unit or "ms"]
    for n, text in enumerate(column.to_pylist()):
        text = text.strip() if text is not None else ""
        if not text:
            null[n] = True
            continue
        number = _number(text)
        whole = of_text(text) if number is None else math.floor(number * up / down)
        if whole is None or (unit is None and number != whole):
            unreadable[n] = True
        else:
            values[n] = min(max(whole, LEAST), MOST)
            outside[n] = values[n] != whole
    return Numbers(values, _some(null), _some(outside), _some(unreadable))


def _quickly(
    column: pa.ChunkedArray, of_text: Callable[[str], int | None], unit: str | None
) -> Numbers | None:
    """Let Arrow read all the texts at once, where they are all alike; None where they are not."""
    text = column if pa.types.is_string(column.type) else column.cast(pa.large_string())
    forms = [pa.int64()]
    if of_text is moment_ms:
        forms += [pa.timestamp("us", "UTC"), pa.timestamp("us")]
    for form in forms:
        try:
            read = text.cast(form)
        except pa.ArrowInvalid:
            continue
        if pa.types.is_timestamp(form):
            return _scaled(integers(read.cast(pa.int64()), ""), "us")
        if pc.any(pc.match_substring(text, "x", ignore_case=True)).as_py():
            return None  # Arrow takes 0x10 for 16
        return _scaled(integers(read, ""), unit or "ms")
    return None


def _number(text: str) -> Fraction | None:
    return Fraction(text) if len(text) <= 400 and _NUMBER.fullmatch(text) else None


def _never(text: str) -> int | None:
    """No text that is not a number is an integer."""
    return None


def _outside(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Say where a column without nulls is outside 64 bits; None if it nowhere is."""
    kind = column.type
    if pa.types.is_uint64(kind):
        outside = pc.greater(column, pa.scalar(MOST, kind))
    elif pa.types.is_decimal(kind) and kind.precision > 18:
        wide = column.cast(pa.decimal256(76, 0))
        outside = pc.or_(
            pc.greater(wide, pa.scalar(Decimal(MOST), wide.type)),
            pc.less(wide, pa.scalar(Decimal(LEAST), wide.type)),
        )
    else:
        return None
    return outside if pc.any(outside).as_py() else None


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _some(mask: Mask) -> Mask | None:
    return mask if mask.any() else None
