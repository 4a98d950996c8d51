"""Records: batches of the journal and parts of snapshots as bytes, and the checksums of rows.

docs/durable-format.md draws the layouts. Everything is little-endian; texts are UTF-8.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
    from cython.cimports.libc.string import memcpy
    from cython.cimports.sojourn.durable._bytes import put

_BATCH = Struct("<IIIII")  # signals, submissions, cancels, ended, forgotten
_SIGNAL = Struct("<qH")  # offset, key length
_COUNT = Struct("<I")
_LENGTH = Struct("<H")
_PARKED = Struct("<qqI")  # number, submitted_ms, content length
_PROGRESS = Struct("<qqH")  # progress, idle since ms, key length

# Of a submission that waits, as snapshots have it: number, submitted_ms, content.
Parked = tuple[int, int, bytes]


class BatchRecord(NamedTuple):
    """One batch of the journal: what was asked for, and what it ended."""

    signals: list[tuple[str, int]]
    submissions: list[bytes]  # contents
    cancelled: list[int]  # numbers of operations that were cancelled,
    ended: list[int]  # and of those that completed or expired
    forgotten: list[str]  # keys


def write_batch(record: BatchRecord) -> bytes:
    parts = [_BATCH.pack(*[len(part) for part in record])]
    for key, offset in record.signals:
        key_bytes = key.encode()
        parts.append(_SIGNAL.pack(offset, len(key_bytes)))
        parts.append(key_bytes)
    parts.append(_framed(record.submissions))
    parts.append(_numbers(record.cancelled))
    parts.append(_numbers(record.ended))
    for key in record.forgotten:
        key_bytes = key.encode()
        parts.append(_LENGTH.pack(len(key_bytes)))
        parts.append(key_bytes)
    return b"".join(parts)


def _framed(contents: list[bytes]) -> bytes:
    """The contents, each with its length before it."""
    if cython.compiled:
        size = 0
        for content in contents:
            size += 4 + len(content)
        framed = PyBytes_FromStringAndSize(cython.NULL, size)
        at = cython.cast("unsigned char *", PyBytes_AS_STRING(framed))
        for content in contents:
            put(at, len(content), 4)
            memcpy(at + 4, PyBytes_AS_STRING(content), len(content))
            at += 4 + len(content)
        return framed
    parts = []
    for content in contents:
        parts.append(_COUNT.pack(len(content)))
        parts.append(content)
    return b"".join(parts)


def read_batch(body: bytes) -> BatchRecord:
    signal_count, submission_count, cancelled_count, ended_count, forgotten_count = (
        _BATCH.unpack_from(body)
    )
    at = _BATCH.size
    signals = []
    for _ in range(signal_count):
        offset, length = _SIGNAL.unpack_from(body, at)
        at += _SIGNAL.size
        signals.append((body[at : at + length].decode(), offset))
        at += length
    submissions = []
    for _ in range(submission_count):
        (length,) = _COUNT.unpack_from(body, at)
        at += _COUNT.size
        submissions.append(body[at : at + length])
        at += length
    cancelled = list(Struct(f"<{cancelled_count}q").unpack_from(body, at))
    at += 8 * cancelled_count
    ended = list(Struct(f"<{ended_count}q").unpack_from(body, at))
    at += 8 * ended_count
    forgotten = []
    for _ in range(forgotten_count):
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        forgotten.append(body[at : at + length].decode())
        at += length
    return BatchRecord(signals, submissions, cancelled, ended, forgotten)


def write_parked(parked: list[Parked]) -> bytes:
    parts = [_COUNT.pack(len(parked))]
    for number, submitted_ms, content in parked:
        parts.append(_PARKED.pack(number, submitted_ms, len(content)))
        parts.append(content)
    return b"".join(parts)


def read_parked(body: bytes) -> Iterator[Parked]:
    (count,) = _COUNT.unpack_from(body)
    at = _COUNT.size
    for _ in range(count):
        number, submitted_ms, length = _PARKED.unpack_from(body, at)
        at += _PARKED.size
        yield number, submitted_ms, body[at : at + length]
        at += length


def write_progress(progress: list[tuple[str, int, int]]) -> bytes:
    parts = [_COUNT.pack(len(progress))]
    for key, offset, idle_since_ms in progress:
        key_bytes = key.encode()
        parts.append(_PROGRESS.pack(offset, idle_since_ms, len(key_bytes)))
        parts.append(key_bytes)
    return b"".join(parts)


def read_progress(body: bytes) -> list[tuple[str, int, int]]:
    (count,) = _COUNT.unpack_from(body)
    at = _COUNT.size
    progress = []
    for _ in range(count):
        offset, idle_since_ms, length = _PROGRESS.unpack_from(body, at)
        at += _PROGRESS.size
        progress.append((body[at : at + length].decode(), offset, idle_since_ms))
        at += length
    return progress


def _numbers(numbers: list[int]) -> bytes:
    return Struct(f"<{len(numbers)}q").pack(*numbers)


def hashes_of(ids: list[str], prime: int) -> list[int]:
    """The hashes of ids: the UTF-8, as one large number, modulo a prime below 2**48.

    Whoever does not know the prime cannot make ids that have the same.
    """
    if cython.compiled:
        hashes = []
        length = 0
        for id in ids:
            text = cython.cast(
                "const unsigned char *", PyUnicode_AsUTF8AndSize(id, cython.address(length))
            )
            rest = 0
            n = length & 1
            if n:
                rest = text[0]
            while n < length:
                rest = ((rest << 16) | (text[n] << 8) | text[n + 1]) % prime
                n += 2
            hashes.append(rest)
        return hashes
    return [int.from_bytes(id.encode(), "big") % prime for id in ids]


def checksum_of(*fields: Any) -> int:
    """The CRC-32 of the fields, each with its kind and length."""
    parts = []
    for value in fields:
        if type(value) is int:
            parts.append(b"i")
            parts.append(value.to_bytes(8, "little", signed=True))
        elif type(value) is bytes:
            parts.append(b"b")
            parts.append(_COUNT.pack(len(value)))
            parts.append(value)
        elif value is None:
            parts.append(b"n")
        else:
            text = value.encode()
            parts.append(b"t")
            parts.append(_COUNT.pack(len(text)))
            parts.append(text)
    return zlib.crc32(b"".join(parts))
