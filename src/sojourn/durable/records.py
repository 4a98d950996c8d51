"""Records: commands checked, and laid out as bytes. docs/durable-format.md draws the layouts.

A submission is checked and encoded once, by the thread that brings it. These bytes, its content,
go into the journal, into snapshots and with the outcome, and stay in memory while it waits. What
stands in a content is read when somebody asks. Everything is little-endian; texts are UTF-8.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import re
import zlib
from collections.abc import Iterable, Iterator
from operator import index
from struct import Struct
from typing import Any, NamedTuple

from sojourn.durable.payloads import JSON, is_same_json, read_payload, write_payload
from sojourn.errors import OutOfRange, SojournError, WrongType

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
    from cython.cimports.libc.string import memcpy
    from cython.cimports.sojourn.core.collector import PyObject_GC_UnTrack
    from cython.cimports.sojourn.durable._bytes import get, put

TEXT_BYTES_MAX = 1024  # of an id, a key, a class or a subscription's name
REQUIREMENTS_MAX = 10_000
LONGEST_MS = 10**15  # 30,000 years, as far as a clock goes

# How many bytes follow the requirements, payload kind, needed, count, id, class and payload
# lengths, timeout_ms.
_HEAD = Struct("<BBHHHHIq")
_REQUIREMENT = Struct("<qH")  # offset, key length
_BATCH = Struct("<IIIII")  # signals, submissions, cancels, ended, forgotten
_COUNT = Struct("<I")
_LENGTH = Struct("<H")
_PARKED = Struct("<qqI")  # number, submitted_ms, content length
_PROGRESS = Struct("<qqH")  # progress, idle since ms, key length

if not cython.compiled:  # which has them as constants of C, in the .pxd
    _HEAD_SIZE = 22
    _REQUIREMENT_SIZE = 10
    _TRACE_SIZE = 25  # bytes: trace id, parent id, flags
_unpack_head = _HEAD.unpack_from
_unpack_requirement = _REQUIREMENT.unpack_from

_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")

# Of a submission that waits, as snapshots have it: number, submitted_ms, content.
Parked = tuple[int, int, bytes]


@cython.no_gc  # nothing in it can lead back to it
@cython.cclass
class Submission:
    """What is asked for, checked."""

    __slots__ = ("content", "id", "needed", "requires", "timeout_ms", "waiting")

    id: str
    requires: tuple[Any, ...]  # keys and offsets by turns
    needed: int
    timeout_ms: int
    content: bytes  # all of it
    waiting: Any  # the machine's


class BatchRecord(NamedTuple):
    """One batch of the journal: what was asked for, and what it ended."""

    signals: list[tuple[str, int]]
    submissions: list[bytes]  # contents
    cancelled: list[int]  # numbers of operations that were cancelled,
    ended: list[int]  # and of those that completed or expired
    forgotten: list[str]  # keys


def checked_submission(
    id: Any,
    requires: Any,
    timeout_ms: Any,
    needed: Any = None,
    class_: Any = "",
    payload: Any = None,
    traceparent: Any = None,
) -> Submission:
    """Return the submission, or say what is wrong with it."""
    size = _text_size(id, "id")
    if type(class_) is not str or class_:
        size += _text_size(class_, "class_")
    timeout_ms = _integer(timeout_ms, "timeout_ms")
    if not 0 <= timeout_ms <= LONGEST_MS:
        raise OutOfRange(f"timeout_ms must be ≥ 0 and ≤ {LONGEST_MS}, got {timeout_ms}")
    if type(requires) is not list and (
        isinstance(requires, (str, bytes)) or not isinstance(requires, Iterable)
    ):
        raise WrongType(f"requires must be a list of (key, offset), got {requires!r}")
    flat: list[Any] = []
    for requirement in requires:
        if type(requirement) is tuple and len(requirement) == 2:
            key, offset = requirement
        else:
            key, offset = _pair(requirement)
        size += _text_size(key, "a key") + _REQUIREMENT_SIZE
        flat.append(key)
        flat.append(checked_offset(offset))
    count = len(flat) // 2
    if not 1 <= count <= REQUIREMENTS_MAX:
        raise OutOfRange(
            f"requires must have 1 to {REQUIREMENTS_MAX} requirements (key, offset), got {count}"
        )
    if needed is None:
        needed = count
    else:
        needed = _integer(needed, "needed")
        if not 1 <= needed <= count:
            raise OutOfRange(
                f"needed must be between 1 and the number of requirements, {count}, "
                f"got {needed}; None means all"
            )
    kind = 0
    payload_bytes = b""
    if payload is not None:
        kind, payload_bytes = write_payload(payload)
    trace = b"" if traceparent is None else _trace(traceparent)
    size += _HEAD_SIZE + len(payload_bytes) + len(trace)
    content = _write_content(size, id, class_, timeout_ms, needed, flat, kind, payload_bytes, trace)
    return _submission(id, tuple(flat), needed, timeout_ms, content)


def _pair(requirement: Any) -> Any:
    try:
        key, offset = requirement
    except (TypeError, ValueError):
        raise WrongType(f"a requirement must be (key, offset), got {requirement!r}") from None
    return key, offset


def checked_submissions(rows: Iterable[Any]) -> tuple[list[Submission], list[Any]]:
    """Check each row for itself: return the good ones, and for each row None or its error."""
    good: list[Submission] = []
    errors: list[Any] = []
    for row in rows:
        try:
            good.append(_checked_row(row))
            errors.append(None)
        except SojournError as error:
            errors.append(error)
    return good, errors


def _checked_row(row: Any) -> Submission:
    """The submission of a row, the arguments of `submit` as a tuple or a dictionary."""
    if type(row) is tuple and len(row) == 3:
        return checked_submission(row[0], row[1], row[2])
    if isinstance(row, dict):
        try:
            return checked_submission(**row)
        except TypeError as error:
            if isinstance(error, SojournError):
                raise
            raise WrongType(f"a row has the arguments of submit, got {row!r}: {error}") from None
    if not isinstance(row, (tuple, list)) or not 3 <= len(row) <= 7:
        raise WrongType(
            "a row is (id, requires, timeout_ms), then needed, class_, payload and traceparent "
            f"if need be; got {row!r}"
        )
    return checked_submission(*row)


def _write_content(
    size: int,
    id: str,
    class_: str,
    timeout_ms: int,
    needed: int,
    flat: list[Any],
    kind: int,
    payload: bytes,
    trace: bytes,
) -> bytes:
    count = len(flat) // 2
    if cython.compiled:
        content = PyBytes_FromStringAndSize(cython.NULL, size)
        at = cython.cast("unsigned char *", PyBytes_AS_STRING(content))
        at[0] = len(trace)
        at[1] = kind
        put(at + 2, needed, 2)
        put(at + 4, count, 2)
        put(at + 10, len(payload), 4)
        put(at + 14, timeout_ms, 8)
        head = at
        at += _HEAD_SIZE
        length = 0
        text = PyUnicode_AsUTF8AndSize(id, cython.address(length))
        memcpy(at, text, length)
        at += length
        put(head + 6, length, 2)
        text = PyUnicode_AsUTF8AndSize(class_, cython.address(length))
        memcpy(at, text, length)
        at += length
        put(head + 8, length, 2)
        memcpy(at, PyBytes_AS_STRING(payload), len(payload))
        at += len(payload)
        for n in range(count):
            text = PyUnicode_AsUTF8AndSize(flat[2 * n], cython.address(length))
            put(at, flat[2 * n + 1], 8)
            put(at + 8, length, 2)
            memcpy(at + 10, text, length)
            at += 10 + length
        memcpy(at, PyBytes_AS_STRING(trace), len(trace))
        return content
    id_bytes, class_bytes = id.encode(), class_.encode()
    lengths = len(id_bytes), len(class_bytes), len(payload)
    parts = [
        _HEAD.pack(len(trace), kind, needed, count, *lengths, timeout_ms),
        id_bytes,
        class_bytes,
        payload,
    ]
    for n in range(0, 2 * count, 2):
        key_bytes = flat[n].encode()
        parts.append(_REQUIREMENT.pack(flat[n + 1], len(key_bytes)))
        parts.append(key_bytes)
    parts.append(trace)
    return b"".join(parts)


def read_submission(content: bytes) -> Submission:
    """Return what the content says."""
    requires: list[Any] = []
    if cython.compiled:
        start = cython.cast("const unsigned char *", PyBytes_AS_STRING(content))
        needed = get(start + 2, 2)
        id_length = get(start + 6, 2)
        timeout_ms = get(start + 14, 8)
        at = start + _HEAD_SIZE
        id = PyUnicode_DecodeUTF8(cython.cast("const char *", at), id_length, cython.NULL)
        at += id_length + get(start + 8, 2) + get(start + 10, 4)
        for _ in range(get(start + 4, 2)):
            length = get(at + 8, 2)
            requires.append(
                PyUnicode_DecodeUTF8(cython.cast("const char *", at + 10), length, cython.NULL)
            )
            requires.append(get(at, 8))
            at += 10 + length
    else:
        _, _, needed, count, id_length, class_length, payload_length, timeout_ms = _unpack_head(
            content
        )
        at = _HEAD_SIZE
        id = content[at : at + id_length].decode()
        at += id_length + class_length + payload_length
        for _ in range(count):
            offset, length = _unpack_requirement(content, at)
            at += _REQUIREMENT_SIZE
            requires.append(content[at : at + length].decode())
            requires.append(offset)
            at += length
    return _submission(id, tuple(requires), needed, timeout_ms, content)


def _submission(
    id: str, requires: tuple[Any, ...], needed: int, timeout_ms: int, content: bytes
) -> Submission:
    submission = Submission.__new__(Submission)
    submission.id = id
    submission.requires = requires
    if cython.compiled:
        PyObject_GC_UnTrack(requires)  # texts and numbers
    submission.needed = needed
    submission.timeout_ms = timeout_ms
    submission.content = content
    submission.waiting = None
    return submission


# What stands in a content.


def id_of(content: bytes) -> str:
    if cython.compiled:
        start = cython.cast("const unsigned char *", PyBytes_AS_STRING(content))
        text = cython.cast("const char *", start + _HEAD_SIZE)
        return PyUnicode_DecodeUTF8(text, get(start + 6, 2), cython.NULL)
    return content[_HEAD_SIZE : _HEAD_SIZE + _unpack_head(content)[4]].decode()


def timeout_of(content: bytes) -> int:
    if cython.compiled:
        return get(cython.cast("const unsigned char *", PyBytes_AS_STRING(content)) + 14, 8)
    return _unpack_head(content)[7]  # type: ignore[no-any-return]


def needed_of(content: bytes) -> int:
    return _unpack_head(content)[2]  # type: ignore[no-any-return]


def class_of(content: bytes) -> str:
    _, _, _, _, id_length, class_length, _, _ = _unpack_head(content)
    at = _HEAD_SIZE + id_length
    return content[at : at + class_length].decode()


def payload_of(content: bytes) -> Any:
    _, kind, _, _, id_length, class_length, payload_length, _ = _unpack_head(content)
    at = _HEAD_SIZE + id_length + class_length
    return read_payload(kind, content[at : at + payload_length])


def traceparent_of(content: bytes) -> str | None:
    length = content[0]
    if not length:
        return None
    trace = content[len(content) - length :]
    return f"00-{trace[:16].hex()}-{trace[16:24].hex()}-{trace[24:].hex()}"


def is_same(content: bytes, other: bytes) -> bool:
    """Whether two contents are of the same submission, on whatever trace."""
    if content == other:
        return True
    if content[1:_HEAD_SIZE] != other[1:_HEAD_SIZE] and not content[1] == other[1] == JSON:
        return False
    ours = content[1 : len(content) - content[0]]
    theirs = other[1 : len(other) - other[0]]
    if ours == theirs:
        return True
    if not content[1] == other[1] == JSON:
        return False
    our_payload, our_rest = _apart(content)
    their_payload, their_rest = _apart(other)
    return our_rest == their_rest and is_same_json(our_payload, their_payload)


def _apart(content: bytes) -> tuple[bytes, Any]:
    """The payload, and all the rest but the trace."""
    _, _, needed, count, id_length, class_length, payload_length, timeout_ms = _unpack_head(content)
    start = _HEAD_SIZE + id_length + class_length
    end = start + payload_length
    lengths = needed, count, id_length, class_length, timeout_ms
    rest = content[end : len(content) - content[0]]
    return content[start:end], (lengths, content[_HEAD_SIZE:start], rest)


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


def checked_id(id: Any) -> str:
    """Return the id, or say what is wrong with it."""
    _text_size(id, "id")
    return id  # type: ignore[no-any-return]


def checked_name(name: Any) -> str:
    """Return a name, of a subscription say, or say what is wrong with it."""
    _text_size(name, "name")
    return name  # type: ignore[no-any-return]


def checked_signal(key: Any, offset: Any) -> tuple[str, int]:
    """Return the signal, or say what is wrong with it."""
    _text_size(key, "key")
    return key, checked_offset(offset)


def checked_offset(offset: Any) -> int:
    """Return the offset as an integer of 64 bits, or say what is wrong with it."""
    offset = _integer(offset, "an offset")
    if not -(2**63) <= offset < 2**63:
        raise OutOfRange(f"an offset must fit into 64 bits, got {offset}")
    return offset  # type: ignore[no-any-return]


def _integer(value: Any, name: str) -> Any:
    if type(value) is int:
        return value
    try:
        return index(value)
    except TypeError:
        raise WrongType(
            f"{name} must be an integer, got {value!r} ({type(value).__name__})"
        ) from None


def _text_size(value: Any, name: str) -> int:
    """Return how many bytes of UTF-8 the text has, or say what is wrong with it."""
    if type(value) is not str:
        raise WrongType(f"{name} must be a str, got {value!r} ({type(value).__name__})")
    size = 0
    try:
        if cython.compiled:
            PyUnicode_AsUTF8AndSize(value, cython.address(size))
        else:
            size = len(value.encode())
    except UnicodeEncodeError as error:
        raise OutOfRange(f"{name} cannot be written as UTF-8: {error}") from None
    if not 1 <= size <= TEXT_BYTES_MAX:
        raise OutOfRange(f"{name} must have 1 to {TEXT_BYTES_MAX} bytes of UTF-8, got {size}")
    return size


def _trace(traceparent: Any) -> bytes:
    if type(traceparent) is not str:
        raise WrongType(
            f"traceparent must be a str, got {traceparent!r} ({type(traceparent).__name__})"
        )
    parts = _TRACEPARENT.fullmatch(traceparent)
    if parts is None:
        raise OutOfRange(
            "traceparent must be 00-<32 hex>-<16 hex>-<2 hex> in lower case, ids not all zero "
            f"(W3C Trace Context), got {traceparent[:100]!r}"
        )
    return bytes.fromhex("".join(parts.groups()))


# Batches and parts of snapshots.


def write_batch(record: BatchRecord) -> bytes:
    parts = [_BATCH.pack(*[len(part) for part in record])]
    for key, offset in record.signals:
        key_bytes = key.encode()
        parts.append(_REQUIREMENT.pack(offset, len(key_bytes)))
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
        offset, length = _REQUIREMENT.unpack_from(body, at)
        at += _REQUIREMENT.size
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
