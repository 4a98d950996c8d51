"""Submissions: what a caller asks for, checked and laid out as bytes.

A submission is checked and encoded once, by the thread that brings it. These bytes, its content,
go into the journal, into snapshots and with the outcome, and stay in memory while it waits. Its
fields are read from the content when they are asked for. Everything is little-endian; texts are
UTF-8; docs/durable-format.md draws the layout.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections.abc import Iterable
from struct import Struct
from typing import Any

from sojourn.durable.checks import LONGEST_MS, call_with_row, checked_trace
from sojourn.durable.payloads import JSON, is_same_json, read_payload, write_payload
from sojourn.errors import OutOfRange, WrongType

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.unicode import (
        PyUnicode_AsUTF8AndSize,
        PyUnicode_DecodeUTF8,
    )
    from cython.cimports.libc.string import memcpy
    from cython.cimports.sojourn.core.collector import PyObject_GC_UnTrack
    from cython.cimports.sojourn.durable._bytes import get, put
else:
    from sojourn.durable.checks import checked_integer, checked_offset, text_size

REQUIREMENTS_MAX = 10_000

# How many bytes follow the requirements, payload kind, needed, count, id, class and payload
# lengths, timeout_ms.
_HEAD = Struct("<BBHHHHIq")
_REQUIREMENT = Struct("<qH")  # offset, key length

if not cython.compiled:  # which has them as constants of C, in the .pxd
    _HEAD_SIZE = 22
    _REQUIREMENT_SIZE = 10
_unpack_head = _HEAD.unpack_from
_unpack_requirement = _REQUIREMENT.unpack_from


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
    size = text_size(id, "id")
    if type(class_) is not str or class_:
        size += text_size(class_, "class_")
    timeout_ms = checked_integer(timeout_ms, "timeout_ms")
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
        size += text_size(key, "a key") + _REQUIREMENT_SIZE
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
        needed = checked_integer(needed, "needed")
        if not 1 <= needed <= count:
            raise OutOfRange(
                f"needed must be between 1 and the number of requirements, {count}, "
                f"got {needed}; None means all"
            )
    kind = 0
    payload_bytes = b""
    if payload is not None:
        kind, payload_bytes = write_payload(payload)
    trace = b"" if traceparent is None else checked_trace(traceparent)
    size += _HEAD_SIZE + len(payload_bytes) + len(trace)
    content = _write_content(size, id, class_, timeout_ms, needed, flat, kind, payload_bytes, trace)
    return _submission(id, tuple(flat), needed, timeout_ms, content)


def _pair(requirement: Any) -> Any:
    try:
        key, offset = requirement
    except (TypeError, ValueError):
        raise WrongType(f"a requirement must be (key, offset), got {requirement!r}") from None
    return key, offset


def checked_row(row: Any) -> Submission:
    """The submission of a row: the arguments of `submit` as a tuple or a dictionary."""
    if type(row) is tuple and len(row) == 3:
        return checked_submission(row[0], row[1], row[2])
    return call_with_row(checked_submission, row)


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


# The fields of a content.


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
    our_payload, our_rest = _split_payload(content)
    their_payload, their_rest = _split_payload(other)
    return our_rest == their_rest and is_same_json(our_payload, their_payload)


def _split_payload(content: bytes) -> tuple[bytes, Any]:
    """The payload, and all the rest but the trace."""
    _, _, needed, count, id_length, class_length, payload_length, timeout_ms = _unpack_head(content)
    start = _HEAD_SIZE + id_length + class_length
    end = start + payload_length
    lengths = needed, count, id_length, class_length, timeout_ms
    rest = content[end : len(content) - content[0]]
    return content[start:end], (lengths, content[_HEAD_SIZE:start], rest)
