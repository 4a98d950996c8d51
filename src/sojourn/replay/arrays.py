"""Arrays: views of NumPy arrays and Arrow columns for loops, compiled or interpreted.

A text column is viewed as two arrays: where each string starts, and the bytes of all strings.

    "ab", "", "cde"      starts 0 2 2 5      bytes a b c d e
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LEAST = 16
_NARROW_BYTES = 2**31 - 1  # of text in one Arrow array of strings


def slab(count: int, kind: str) -> Any:
    """Return `count` zeros: 'q' 64-bit, 'i' 32-bit, 'B' bytes."""
    return np.zeros(count, dtype=kind).data


def grown(old: Any, count: int, kind: str) -> Any:
    """Return a slab with room for at least `count`, which starts with what is in the old one."""
    new = np.zeros(max(count, len(old) + len(old) // 2, _LEAST), dtype=kind)
    new[: len(old)] = old
    return new.data


def view(numbers: Any) -> memoryview:
    """Look at an array as the loops do; a mask as bytes."""
    numbers = np.ascontiguousarray(numbers)
    return memoryview(numbers.view(np.uint8) if numbers.dtype == np.bool_ else numbers)


def integers(column: Any, kind: str = "q") -> Any:
    """Look at a column of integers, or a NumPy array, as the loops do."""
    if isinstance(column, pa.Array):
        column = column.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(column, dtype=kind).data


def missing(column: pa.Array) -> Any:
    """Say of each row of a column, with 1 or 0, whether it is null."""
    if not column.null_count:
        return slab(len(column), "B")
    return column.is_null().to_numpy(zero_copy_only=False).astype("B").data


def text_parts(column: pa.Array) -> tuple[Any, Any]:
    """Look at a column of strings or bytes as where each starts, and the bytes of all."""
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    starts: Any = np.zeros(1, dtype=np.int64)  # Arrow may leave them out where there are no strings
    if len(column):
        starts = np.frombuffer(offsets, np.int64 if wide else np.int32)
        starts = starts[column.offset : column.offset + len(column) + 1]
    if data is None or not data.size:
        data = bytes(1)
    return view(starts.astype(np.int64, copy=False)), view(np.frombuffer(data, np.uint8))


def text_column(starts: Any, data: Any, valid: Any, kind: pa.DataType) -> pa.Array:
    """Return a column of strings or bytes, made of where each starts and the bytes of all."""
    there = np.asarray(valid)
    nulls = None
    if not there.all():
        nulls = pa.py_buffer(np.packbits(there, bitorder="little"))
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    wide = pa.large_binary() if binary else pa.large_string()
    buffers = [nulls, pa.py_buffer(starts), pa.py_buffer(data)]
    column = pa.Array.from_buffers(wide, len(there), buffers)
    return column if kind == wide else column.cast(kind)


def one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece, of wide strings if narrow ones cannot hold it."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_string(column.type) and column.nbytes > _NARROW_BYTES:
        column = column.cast(pa.large_string())
    return column.combine_chunks()


def in_order(times_ms: Any) -> Any:
    """Return the numbers of these times from the earliest to the latest."""
    times = np.asarray(times_ms)
    if (times[1:] >= times[:-1]).all():
        return np.arange(len(times)).data
    return np.argsort(times, kind="stable").data


def starts_of(counts: Integers) -> Integers:
    """Return where each group starts, and where the last one ends, given how large they are."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def within(starts: Integers) -> Integers:
    """Number the members of each group from 0."""
    return np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))


def repeated(numbers: Any) -> Any:
    """Return the numbers that are there again, in order; what is there n times, n - 1 times."""
    ordered = np.sort(numbers)
    return ordered[1:][ordered[1:] == ordered[:-1]]
