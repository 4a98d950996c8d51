"""Slabs: rows of numbers that grow, and Arrow columns looked at as such."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_LEAST = 16


def slab(count: int, kind: str) -> Any:
    """Return `count` zeros: 'q' 64-bit, 'i' 32-bit, 'B' bytes."""
    return np.zeros(count, dtype=kind).data


def grown(old: Any, count: int, kind: str) -> Any:
    """Return a slab with room for at least `count`, which starts with what is in the old one."""
    new = np.zeros(max(count, len(old) + len(old) // 2, _LEAST), dtype=kind)
    new[: len(old)] = old
    return new.data


def integers(column: Any, kind: str = "q") -> Any:
    """Look at a column of integers, or a NumPy array, as a row of them."""
    if isinstance(column, pa.Array):
        column = column.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(column, dtype=kind).data


def missing(column: pa.Array) -> Any:
    """Say of each row of a column, with 1 or 0, whether it is null."""
    if not column.null_count:
        return slab(len(column), "B")
    return column.is_null().to_numpy(zero_copy_only=False).astype("B").data


def in_order(times_ms: Any) -> Any:
    """Return the numbers of these times from the earliest to the latest."""
    times = np.asarray(times_ms)
    if (times[1:] >= times[:-1]).all():
        return np.arange(len(times)).data
    return np.argsort(times, kind="stable").data


def text_parts(column: pa.Array) -> tuple[Any, Any]:
    """Look at a column of strings or bytes as where each starts, and the bytes of all."""
    wide = pa.large_binary() if _is_binary(column.type) else pa.large_string()
    if column.type != wide:
        column = column.cast(wide)
    if not len(column):
        return slab(1, "q"), slab(1, "B")
    _, starts, data = column.buffers()
    first = column.offset
    places = np.frombuffer(starts, dtype=np.int64)[first : first + len(column) + 1]
    if data is None or not data.size:
        return places.data, slab(1, "B")
    return places.data, np.frombuffer(data, dtype=np.uint8).data


def text_column(starts: Any, data: Any, valid: Any, kind: pa.DataType) -> pa.Array:
    """Return a column of strings or bytes, made of where each starts and the bytes of all."""
    there = np.asarray(valid)
    nulls = None
    if not there.all():
        nulls = pa.py_buffer(np.packbits(there, bitorder="little"))
    wide = pa.large_binary() if _is_binary(kind) else pa.large_string()
    buffers = [nulls, pa.py_buffer(starts), pa.py_buffer(data)]
    column = pa.Array.from_buffers(wide, len(there), buffers)
    return column if kind == wide else column.cast(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
