"""The payload: what an operation's row carries besides its times, as one string of bytes a row.

The engines keep it without looking inside. It brings the extra columns to the outcomes, and the
whole row back when an operation turns out late or a duplicate:

    nulls | numbers, each at its width | lengths of the texts | text, text, … , requirements
    ^ a bit a column                                                          ^ 12 bytes + key, each

Columns of a fixed width are copied as they lie in memory. Lists, structs and maps go through
Python's pickle one by one: right, and slower.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.replay.arrays import one_piece, starts_of, text_column, text_parts

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

_ITEM = np.dtype([("offset", "<i8"), ("length", "<i4")])


class PayloadFormat:
    """How rows of these columns become bytes and come back; the requirements are always there."""

    def __init__(self, columns: pa.Schema) -> None:
        self.columns = columns
        self._fixed = [n for n, f in enumerate(columns) if _width(f.type)]
        self._loose = [n for n, f in enumerate(columns) if not _width(f.type)]
        fields: list[tuple[str, Any]] = [("nulls", f"V{max(1, (len(columns) + 7) // 8)}")]
        fields += [(f"c{n}", f"V{_width(columns.field(n).type)}") for n in self._fixed]
        fields += [(f"c{n}", "<i4") for n in self._loose]
        self._head = np.dtype(fields)

    def encode(self, table: pa.Table, requirements: pa.Array) -> pa.Array:
        """Return a binary array: each row's columns, and its requirements as they were packed."""
        head = np.zeros(len(table), dtype=self._head)
        nulls = np.zeros((len(table), self._head["nulls"].itemsize), dtype=np.uint8)
        for n in range(len(self.columns)):
            if table.column(n).null_count:
                empty = pc.is_null(table.column(n)).to_numpy(zero_copy_only=False)
                nulls[:, n // 8] |= empty.astype(np.uint8) << (n % 8)
        head["nulls"] = nulls.view(self._head["nulls"]).reshape(-1)
        for n in self._fixed:
            head[f"c{n}"] = _fixed_values(one_piece(table.column(n)))
        texts = []
        for n in self._loose:
            text = _as_bytes(one_piece(table.column(n)))
            head[f"c{n}"] = pc.binary_length(text).to_numpy(zero_copy_only=False)
            texts.append(text)
        # One column of a fixed width, and one of the rest: joined row by row.
        width = self._head.itemsize
        fixed = pa.Array.from_buffers(
            pa.binary(width), len(head), [None, pa.py_buffer(head.tobytes())]
        )
        return pc.binary_join_element_wise(fixed.cast(pa.binary()), *texts, requirements, b"")

    def decode(self, payloads: pa.Array) -> pa.Table:
        """Return the columns of the rows."""
        head, at, data = self._heads(payloads)
        nulls = head["nulls"].copy().view(np.uint8).reshape(len(head), self._head["nulls"].itemsize)
        arrays: dict[int, pa.Array] = {}
        for n, field in enumerate(self.columns):
            empty = (nulls[:, n // 8] >> (n % 8) & 1).astype(np.bool_)
            if n in self._fixed:
                arrays[n] = _fixed_array(field.type, head[f"c{n}"], empty)
        for n in self._loose:
            empty = (nulls[:, n // 8] >> (n % 8) & 1).astype(np.bool_)
            lengths = head[f"c{n}"].astype(np.int64)
            arrays[n] = _from_bytes(self.columns.field(n).type, data, at, lengths, empty)
            at = at + lengths
        return pa.table([arrays[n] for n in range(len(self.columns))], schema=self.columns)

    def requirements(self, payloads: pa.Array) -> list[list[dict[str, Any]]]:
        """Return the requirements of each row; for the few rows that are told to people."""
        head, at, data = self._heads(payloads)
        for n in self._loose:
            at = at + head[f"c{n}"]
        ends = np.asarray(text_parts(payloads)[0])[1:]
        found = []
        for place, end in zip(at.tolist(), ends.tolist(), strict=True):
            items = []
            while place < end:
                offset, length = np.frombuffer(data, _ITEM, count=1, offset=place)[0].tolist()
                place += _ITEM.itemsize
                key = data[place : place + length].tobytes().decode()
                items.append({"key": key, "offset": offset})
                place += length
            found.append(items)
        return found

    def _heads(self, payloads: pa.Array) -> tuple[Any, Places, Bytes]:
        width = self._head.itemsize
        bounds, data = (np.asarray(part) for part in text_parts(payloads))
        starts = bounds[:-1]
        windows = np.ndarray(
            shape=(max(0, len(data) - width + 1),), dtype=f"V{width}", buffer=data, strides=(1,)
        )
        head = windows[starts].view(self._head) if len(starts) else np.zeros(0, self._head)
        return head, starts + width, data


def pack_requirements(keys: pa.Array, offsets: Places, starts: Places) -> pa.Array:
    """Return a binary array: the requirements of each operation, end to end."""
    items = np.zeros(len(keys), dtype=_ITEM)
    items["offset"] = offsets
    items["length"] = pc.binary_length(keys).to_numpy(zero_copy_only=False)
    heads = pa.Array.from_buffers(
        pa.binary(_ITEM.itemsize), len(items), [None, pa.py_buffer(items.tobytes())]
    )
    joined = pc.binary_join_element_wise(heads.cast(pa.binary()), keys.cast(pa.binary()), b"")
    # The items lie in the order of the operations, so only the bounds change.
    bounds = np.asarray(text_parts(joined)[0])[starts].astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(starts) - 1, [None, pa.py_buffer(bounds), joined.buffers()[2]]
    )


def _width(kind: pa.DataType) -> int:
    """Return how many bytes each value takes; 0 if they differ."""
    if pa.types.is_boolean(kind):
        return 1
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return int(kind.bit_width) // 8
    return 0


def _fixed_values(array: pa.Array) -> Any:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    values = np.frombuffer(array.buffers()[1], dtype=f"V{_width(array.type)}")
    values = values[array.offset : array.offset + len(array)]
    if array.null_count:  # what lies under a null is anything; rows must have one form
        values = values.copy()
        values[pc.is_null(array).to_numpy(zero_copy_only=False)] = np.zeros(1, values.dtype)[0]
    return values


def _fixed_array(kind: pa.DataType, values: Any, empty: npt.NDArray[np.bool_]) -> pa.Array:
    valid = None
    if empty.any():
        valid = pa.py_buffer(np.packbits(~empty, bitorder="little"))
    if pa.types.is_boolean(kind):
        bits = np.packbits(np.ascontiguousarray(values).view(np.uint8) != 0, bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(bits)])
    return pa.Array.from_buffers(
        kind, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values).tobytes())]
    )


def _as_bytes(array: pa.Array) -> pa.Array:
    """Return values of any length as bytes; a null as none."""
    kind = array.type
    if not _is_text(kind):
        array = pa.array([None if v is None else pickle.dumps(v) for v in array.to_pylist()])
    return pc.fill_null(array.cast(pa.binary()), b"")


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _from_bytes(
    kind: pa.DataType, data: Bytes, at: Places, lengths: Places, empty: npt.NDArray[np.bool_]
) -> pa.Array:
    bounds = starts_of(lengths)
    gathered = data[np.repeat(at - bounds[:-1], lengths) + np.arange(bounds[-1])]
    if _is_text(kind):
        return text_column(bounds, gathered, ~empty, kind)
    text = text_column(bounds, gathered, ~empty, pa.large_binary())
    return pa.array([None if v is None else pickle.loads(v) for v in text.to_pylist()], kind)
