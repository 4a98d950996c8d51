"""The journal: writes an engine's state, and what was applied to it, as bytes, and reads them back.

State at any moment = a snapshot + the entries written since, replayed in order. Both have one form:

    magic 8 | kind 4 | version 2 | batches 2 | length 8 | unpacked 8 | crc32 8 | body

    body = n, n numbers, then for each batch: length, Arrow IPC message

The crc covers the header before it, and the body as it is written. A large body is compressed with
LZ4: then `length` is smaller than `unpacked`. A batch is written without its schema, which follows
from the kind and the version. A batch that is None comes back as None.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sojourn.errors import SojournError, WrongType

VERSION = 1
_MAGIC = b"sojourn\n"
_HEADER = struct.Struct("<8s4sHHQQ")
_CRC = struct.Struct("<Q")
_SMALL = 1024  # bytes; what is below gains little from compression
_NONE = -1


class BadSnapshot(SojournError, ValueError):
    """Bytes that are no snapshot or journal entry of ours, or of another version, or damaged."""


def pack(kind: str, numbers: Sequence[int], batches: Sequence[pa.RecordBatch | None]) -> bytes:
    """Return numbers and batches as bytes, for `unpack` of the same kind."""
    parts: list[Any] = [struct.pack(f"<q{len(numbers)}q", len(numbers), *numbers)]
    for batch in batches:
        if batch is None:
            parts.append(struct.pack("<q", _NONE))
            continue
        message = batch.serialize()
        parts += [struct.pack("<q", message.size), message, bytes(-message.size % 8)]
    body = b"".join(parts)
    length = len(body)
    if length > _SMALL:
        packed = pa.compress(body, codec="lz4", asbytes=True)
        body = packed if len(packed) < length else body
    header = _HEADER.pack(_MAGIC, _four(kind), VERSION, len(batches), len(body), length)
    return header + _CRC.pack(zlib.crc32(body, zlib.crc32(header))) + body


def unpack(
    kind: str, data: Any, schemas: Sequence[pa.Schema]
) -> tuple[tuple[int, ...], list[Any]]:  # batches or None
    """Return the numbers and batches that were packed, or say what is wrong with the bytes."""
    try:
        view = memoryview(data)
    except TypeError:
        raise WrongType(
            f"expected the bytes of a sojourn {kind}, got {type(data).__name__}; "
            "use the bytes as they were written, whole"
        ) from None
    body = _checked_body(kind, view, len(schemas))
    (count,) = struct.unpack_from("<q", body)
    numbers = struct.unpack_from(f"<{count}q", body, 8)
    at = 8 + 8 * count
    batches: list[Any] = []
    for schema in schemas:
        (size,) = struct.unpack_from("<q", body, at)
        at += 8
        if size == _NONE:
            batches.append(None)
            continue
        batches.append(pa.ipc.read_record_batch(pa.py_buffer(body[at : at + size]), schema))
        at += size + -size % 8
    return numbers, batches


def in_schema(batch: pa.RecordBatch | None, schema: pa.Schema) -> pa.RecordBatch | None:
    """Return the batch with the columns and types of the schema."""
    if batch is None or batch.schema.equals(schema):
        return batch
    return batch.select(schema.names).cast(schema)


def joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of all batches, which are of this schema, as one batch."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _four(kind: str) -> bytes:
    return kind.encode("ascii").ljust(4)


def _checked_body(kind: str, data: memoryview, batches: int) -> memoryview:
    wanted = f"a sojourn {kind} of version {VERSION}"
    advice = "use the bytes as they were written, whole"
    start = _HEADER.size + _CRC.size
    if len(data) < start:
        raise BadSnapshot(f"expected {wanted}, found {len(data)} bytes, too few for one; {advice}")
    magic, found_kind, version, count, size, length = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise BadSnapshot(f"expected {wanted}, found bytes that start with {magic!r}; {advice}")
    if version != VERSION:
        raise BadSnapshot(
            f"expected {wanted}, found version {version}; "
            "read it with the release of sojourn that wrote it"
        )
    if found_kind != _four(kind) or count != batches:
        raise BadSnapshot(
            f"expected {wanted}, found one of kind {found_kind!r}; restore it with its own class"
        )
    body = data[start:]
    if len(body) != size:
        raise BadSnapshot(
            f"expected {wanted} of {size} bytes, found {len(body)}: it was cut; {advice}"
        )
    (crc,) = _CRC.unpack_from(data, _HEADER.size)
    if zlib.crc32(body, zlib.crc32(data[: _HEADER.size])) != crc:
        raise BadSnapshot(f"expected {wanted}, found damaged bytes: the checksum differs; {advice}")
    if size < length:
        return memoryview(pa.decompress(body, length, codec="lz4"))
    return body
