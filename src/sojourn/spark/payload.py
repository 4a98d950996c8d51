"""The payload: the columns of an operation besides its times, as one byte string for each row.

The engines keep it unread. It carries the extra columns to the outcomes, and the whole row to the
rejected rows if the operation is late or a duplicate:

    nulls | numbers, each at its width | lengths of the texts | text, text, … , requirements
    ^ a bit a column                                                          ^ 12 bytes + key, each

Columns of a fixed width are copied as they are in memory. A struct is a text with its fields,
encoded like a row. A list or a map is a text with its items, each encoded like a row of one column:

    1 | nulls | numbers | lengths | text, text, …          1 | count | lengths | item, item, …

Checkpoints of earlier versions have such values as Python pickles, which begin with 128.
"""

from __future__ import annotations

import io
import pickle
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.errors import BadTable
from sojourn.replay.arrays import Mask, one_piece, starts_of, text_column, text_parts

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

_ITEM = np.dtype([("offset", "<i8"), ("length", "<i4")])
_NESTED, _PICKLED = 1, 128  # the first byte of a struct, a list or a map
# What pickles of Arrow's values are made of, besides what is built in.
_IN_PICKLES = ("datetime", "decimal", "zoneinfo", "pytz")


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

    @classmethod
    def of(cls, columns: bytes) -> PayloadFormat:
        """Return that of a schema as Arrow serializes it."""
        return cls(pa.ipc.read_schema(pa.py_buffer(columns)))

    def encode(self, table: pa.Table, requirements: pa.Array) -> pa.Array:
        """Return a binary array: each row's columns, and its requirements as they were packed."""
        return self._joined([one_piece(c) for c in table.columns], len(table), requirements)

    def _joined(self, columns: list[pa.Array], count: int, *more: pa.Array) -> pa.Array:
        head = np.zeros(count, dtype=self._head)
        nulls = np.zeros((count, self._head["nulls"].itemsize), dtype=np.uint8)
        for n, column in enumerate(columns):
            if column.null_count:
                nulls[:, n // 8] |= _is_null(column).astype(np.uint8) << (n % 8)
        head["nulls"] = nulls.view(self._head["nulls"]).reshape(-1)
        for n in self._fixed:
            head[f"c{n}"] = _fixed_values(columns[n])
        texts = []
        for n in self._loose:
            texts.append(_as_bytes(columns[n]))
            head[f"c{n}"] = pc.binary_length(texts[-1]).to_numpy(zero_copy_only=False)
        # One column of a fixed width, and one of the rest: joined row by row.
        return pc.binary_join_element_wise(_as_binary(head), *texts, *more, b"")

    def decode(self, payloads: pa.Array) -> pa.Table:
        """Return the columns of the rows."""
        head, at, data = self._heads(payloads)
        nulls = head["nulls"].copy().view(np.uint8).reshape(len(head), self._head["nulls"].itemsize)
        arrays: list[pa.Array] = []
        for n, field in enumerate(self.columns):
            empty = (nulls[:, n // 8] >> (n % 8) & 1).astype(np.bool_)
            if n in self._fixed:
                arrays.append(_fixed_array(field.type, head[f"c{n}"], empty))
            else:
                lengths = head[f"c{n}"].astype(np.int64)
                arrays.append(_from_bytes(field.type, _gathered(data, at, lengths, empty)))
                at = at + lengths
        return pa.table(arrays, schema=self.columns)

    def requirements(self, payloads: pa.Array) -> list[list[dict[str, Any]]]:
        """Return the requirements of each row; used for rejected rows, which are few."""
        head, at, data = self._heads(payloads)
        for n in self._loose:
            at = at + head[f"c{n}"]
        ends = np.asarray(text_parts(payloads)[0])[1:]
        rows = []
        for place, end in zip(at.tolist(), ends.tolist(), strict=True):
            items = []
            while place < end:
                offset, length = np.frombuffer(data, _ITEM, count=1, offset=place)[0].tolist()
                place += _ITEM.itemsize
                key = data[place : place + length].tobytes().decode()
                items.append({"key": key, "offset": offset})
                place += length
            rows.append(items)
        return rows

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
    joined = pc.binary_join_element_wise(_as_binary(items), keys.cast(pa.binary()), b"")
    return _grouped(joined, starts)


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
    end = array.offset + len(array)
    values = np.frombuffer(array.buffers()[1] or b"", f"V{_width(array.type)}", count=end)
    values = values[array.offset :]
    if array.null_count:  # what lies under a null is anything; rows must have one form
        values = values.copy()
        values[_is_null(array)] = np.zeros(1, values.dtype)[0]
    return values


def _fixed_array(kind: pa.DataType, values: Any, empty: Mask) -> pa.Array:
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
    if not _is_text(kind) and not pa.types.is_null(kind):
        body = _nested_bytes(array)
        marked = pc.binary_join_element_wise(bytes([_NESTED]), body, b"")
        array = pc.if_else(array.is_valid(), marked, pa.scalar(b""))
    return pc.fill_null(array.cast(pa.binary()), b"")


def _from_bytes(kind: pa.DataType, values: pa.Array) -> pa.Array:
    """Return what `_as_bytes` was given; bytes that are null for a null."""
    if _is_text(kind):
        return values.cast(kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    bounds, data = (np.asarray(part) for part in text_parts(values))
    is_valid = np.asarray(values.is_valid())
    is_old = is_valid & (data[np.minimum(bounds[:-1], len(data) - 1)] == _PICKLED)
    is_new = is_valid & ~is_old
    bodies = _gathered(data, bounds[:-1][is_new] + 1, np.diff(bounds)[is_new] - 1)
    old = [_unpickled(value) for value in values.filter(pa.array(is_old)).to_pylist()]
    both = pa.concat_arrays([_from_nested_bytes(kind, bodies), pa.array(old, kind)])
    places = np.where(is_old, len(bodies) + np.cumsum(is_old), np.cumsum(is_new)) - 1
    return both.take(pa.array(places, mask=~is_valid))


def _nested_bytes(array: pa.Array) -> pa.Array:
    """Return structs, lists or maps as bytes; those of a null mean nothing."""
    kind = array.type
    if pa.types.is_struct(kind):
        return PayloadFormat(pa.schema(list(kind)))._joined(array.flatten(), len(array))
    if not (pa.types.is_list(kind) or pa.types.is_map(kind)):
        raise BadTable(f"a column of type {kind} cannot be kept; cast it to another type")
    lists = array.cast(_as_list(kind))
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    items = lists.flatten()
    rows = PayloadFormat(pa.schema([("item", items.type)]))._joined([items], len(items))
    starts = starts_of(counts)
    lengths = pc.binary_length(rows).to_numpy(zero_copy_only=False).astype("<i4")
    heads = (_as_binary(counts.astype("<i4")), _grouped(_as_binary(lengths), starts))
    return pc.binary_join_element_wise(*heads, _grouped(rows, starts), b"")


def _from_nested_bytes(kind: pa.DataType, values: pa.Array) -> pa.Array:
    """Return what `_nested_bytes` was given; there are no nulls."""
    if pa.types.is_struct(kind):
        fields = PayloadFormat(pa.schema(list(kind))).decode(values)
        children = [one_piece(column) for column in fields.columns]
        return pa.Array.from_buffers(kind, len(values), [None], children=children)
    bounds, data = (np.asarray(part) for part in text_parts(values))
    at = bounds[:-1]
    counts = _numbers(data, at, np.ones(len(at), dtype=np.int64))
    lengths = _numbers(data, at + 4, counts)
    starts = starts_of(counts)
    ends = starts_of(lengths)
    # The items of one value lie end to end, behind their lengths.
    first = np.repeat(at + 4 + 4 * counts - ends[starts[:-1]], counts)
    rows = _gathered(data, first + ends[:-1], lengths)
    item = _as_list(kind).value_type
    items = PayloadFormat(pa.schema([("item", item)])).decode(rows)
    buffers = [None, pa.py_buffer(starts.astype(np.int32))]
    return pa.Array.from_buffers(
        kind, len(values), buffers, children=[one_piece(items.column("item"))]
    )


def _as_list(kind: pa.DataType) -> pa.DataType:
    """Return the type of a list, or of a map, as that of a list."""
    if pa.types.is_map(kind):
        return pa.list_(pa.struct([kind.key_field, kind.item_field]))
    return kind


def _numbers(data: Bytes, at: Places, counts: Places) -> Places:
    """Return numbers of four bytes: at each place so many, end to end."""
    raw = _gathered(data, at, 4 * counts)
    _, raw_data = text_parts(raw)
    numbers: Places = np.asarray(raw_data)[: 4 * int(counts.sum())].view("<i4").astype(np.int64)
    return numbers


def _gathered(data: Bytes, at: Places, lengths: Places, empty: Mask | None = None) -> pa.Array:
    """Return the bytes at each place as a binary array; null where it is empty."""
    bounds = starts_of(lengths)
    gathered = data[np.repeat(at - bounds[:-1], lengths) + np.arange(bounds[-1])]
    valid = np.ones(len(at), dtype=np.bool_) if empty is None else ~empty
    return text_column(bounds, gathered, valid, pa.large_binary())


def _as_binary(records: Any) -> pa.Array:
    """Return an array of a fixed width as bytes."""
    buffers = [None, pa.py_buffer(records.tobytes())]
    fixed = pa.Array.from_buffers(pa.binary(records.itemsize), len(records), buffers)
    return fixed.cast(pa.binary())


def _grouped(pieces: pa.Array, starts: Places) -> pa.Array:
    """Join the bytes of each group; they lie in that order, so only the bounds change."""
    bounds, data = text_parts(pieces)
    buffers = [None, pa.py_buffer(np.asarray(bounds)[starts].astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, buffers)


def _is_null(array: pa.Array) -> Mask:
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False))


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


class _Unpickler(pickle.Unpickler):
    """Reads pickles of plain values, and of nothing that could do anything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _zone_maker
        if module not in _IN_PICKLES:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a value")
        return super().find_class(module, name)


def _zone_maker(owner: Any, name: str) -> Any:
    """Return what a pickled time zone is made with; the only attribute that pickles ask for."""
    if owner is not ZoneInfo or name != "_unpickle":
        raise pickle.UnpicklingError(f"{name} of {owner} is no part of a value")
    return getattr(ZoneInfo, name)


def _unpickled(value: bytes) -> Any:
    return _Unpickler(io.BytesIO(value)).load()
