"""Requirements: the column `requires` of operations, a list of (key, offset) in each row.

The lists are of structs, as in Arrow and Spark, or they are JSON text, so that a CSV file can have
them too.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.errors import BadTable
from sojourn.replay import times
from sojourn.replay.arrays import Integers, Mask, one_piece
from sojourn.replay.names import as_text
from sojourn.replay.times import Numbers

# As JSON has them: an offset may be text, and what it means is decided later.
AS_TEXT = pa.list_(pa.struct([("key", pa.string()), ("offset", pa.string())]))
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


class Requirements(NamedTuple):
    """How many each operation has, and all of them end to end."""

    counts: Integers
    keys: pa.Array
    offsets: Numbers
    unreadable: Mask | None  # of the operations


def read(column: pa.ChunkedArray, what: str) -> Requirements:
    """Read a column of requirements."""
    unreadable = None
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column, unreadable = _of_text(column)
    if pa.types.is_null(column.type):
        nothing = pa.chunked_array([], pa.null())
        counts = np.zeros(len(column), dtype=np.int64)
        return Requirements(
            counts, as_text(nothing, what), times.integers(nothing, what), unreadable
        )
    if not any(is_list(column.type) for is_list in _LISTS):
        raise _bad(what, column.type)
    item = column.type.value_type
    if pa.types.is_null(item):  # as Arrow infers it from lists that are all empty, or of None
        items = pc.list_flatten(column)
        return Requirements(
            _counts(column), as_text(items, what), times.integers(items, what), unreadable
        )
    if not pa.types.is_struct(item):
        raise _bad(what, column.type)
    for field in ("key", "offset"):
        if len(item.get_all_field_indices(field)) != 1:
            raise _bad(what, column.type)
    items = pa.chunked_array([chunk.flatten() for chunk in column.chunks], item)
    keys = as_text(pc.struct_field(items, "key"), f"{what}, its field 'key',")
    offsets = times.integers(pc.struct_field(items, "offset"), f"{what}, its field 'offset',")
    return Requirements(_counts(column), keys, offsets, unreadable)


def _of_text(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Mask | None]:
    lists: list[list[dict[str, Any]] | None] = []
    unreadable = np.zeros(len(column), dtype=np.bool_)
    for n, text in enumerate(column.to_pylist()):
        value = _json_or_none(text) if text and text.strip() else []
        items = of_json(value)
        unreadable[n] = items is None
        lists.append(items)
    return pa.chunked_array([pa.array(lists, AS_TEXT)]), unreadable


def of_json(value: Any) -> list[dict[str, Any]] | None:
    """Return the requirements that a JSON value means, in `AS_TEXT`; None if it is no list."""
    if value is None:
        return []
    if not isinstance(value, list):
        return None
    items = []
    for item in value:
        if item is not None and not isinstance(item, dict):
            return None
        key, offset = (item or {}).get("key"), (item or {}).get("offset")
        if isinstance(key, (bool, float, list, dict)):
            return None
        text = None if offset is None else json.dumps(offset).strip('"')
        items.append({"key": None if key is None else str(key), "offset": text})
    return items


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return "not JSON"


def _bad(what: str, kind: pa.DataType) -> BadTable:
    return BadTable(
        f"{what} must be lists of structs with the fields key (string) and offset (integer), "
        f"found {kind}"
    )


def _counts(column: pa.ChunkedArray) -> Integers:
    counts: Integers = one_piece(
        pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
    ).to_numpy()
    return counts
