"""Names: ids and keys of any column type, as text.

Integers become digits. Bytes become text if they are UTF-8, else hex: `0x1f8b`. Each value is
converted by itself, so the same bytes have the same name in every table and on every engine.
"""

from __future__ import annotations

import pyarrow as pa

from sojourn.errors import BadTable
from sojourn.replay.arrays import one_piece


def as_text(column: pa.ChunkedArray, what: str) -> pa.Array:
    """Return a column of text, integers or bytes as strings in one piece."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):  # a UUID, say
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
        kind = column.type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if _is_binary(plain):
        return _text_of_bytes(column.cast(plain) if plain != kind else column)
    if not (
        pa.types.is_string(plain)
        or pa.types.is_large_string(plain)
        or pa.types.is_string_view(plain)
        or pa.types.is_null(plain)
        or pa.types.is_integer(plain)
        or (pa.types.is_decimal(plain) and plain.scale == 0)
    ):
        raise BadTable(f"{what} must be text, integers or bytes, found {kind}; cast it to text")
    try:
        return one_piece(column if pa.types.is_string(kind) else column.cast(pa.string()))
    except pa.ArrowInvalid:  # more than 2 GiB of text
        return one_piece(column.cast(pa.large_string()))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _text_of_bytes(column: pa.ChunkedArray) -> pa.Array:
    """Bytes are text if they are UTF-8, else hex: each value by itself, so that they still meet."""
    column = column.cast(pa.large_binary())
    try:
        return one_piece(column.cast(pa.string()))
    except pa.ArrowInvalid:
        return pa.array([text_of(value) for value in column.to_pylist()], pa.large_string())


def text_of(value: bytes | None) -> str | None:
    """Return bytes as text if they are UTF-8, else in hex."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
