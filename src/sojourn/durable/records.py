"""Records: commands checked, and laid out as bytes. docs/durable-format.md draws the layouts.

A submission is checked and encoded once, by the thread that brings it. These bytes, its content,
go into the journal, into snapshots, and stay in memory while it waits; two submissions are the
same if their contents are. Everything is little-endian; texts are UTF-8.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from operator import index
from struct import Struct
from typing import Any, NamedTuple

from sojourn.errors import OutOfRange, WrongType

if cython.compiled:
    from cython.cimports.sojourn._collector import PyObject_GC_UnTrack

TEXT_BYTES_MAX = 1024  # of an id, a key, a class or a subscription's name
PAYLOAD_BYTES_MAX = 1 << 20
REQUIREMENTS_MAX = 10_000
LONGEST_MS = 10**15  # 30,000 years, as far as a clock goes

_HEAD = Struct("<qHHHHIB")  # timeout_ms, needed, count, id, class and payload lengths, payload kind
_REQUIREMENT = Struct("<qH")  # offset, key length
_BATCH = Struct("<IIIII")  # signals, submissions, cancels, ended, forgotten
_COUNT = Struct("<I")
_LENGTH = Struct("<H")
_PARKED = Struct("<qqI")  # number, submitted_ms, content length
_PROGRESS = Struct("<qqH")  # progress, idle since ms, key length

_HEAD_SIZE = _HEAD.size
_REQUIREMENT_SIZE = _REQUIREMENT.size
_pack_head, _unpack_head = _HEAD.pack, _HEAD.unpack_from
_pack_requirement, _unpack_requirement = _REQUIREMENT.pack, _REQUIREMENT.unpack_from

_NO_PAYLOAD, _BYTES, _TEXT = 0, 1, 2

# Of a submission that waits, as snapshots have it: number, submitted_ms, content.
Parked = tuple[int, int, bytes]


@cython.no_gc  # nothing in it can lead back to it
@cython.cclass
class Submission:
    """What is asked for, checked."""

    __slots__ = (
        "class_",
        "content",
        "id",
        "needed",
        "payload",
        "requires",
        "timeout_ms",
        "waiting",
    )

    id: str
    requires: tuple[Any, ...]  # keys and offsets by turns
    needed: int
    timeout_ms: int
    class_: str
    payload: Any  # str, bytes or None
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
) -> Submission:
    """Return the submission, or say what is wrong with it."""
    id_bytes = _text(id, "id")
    class_bytes = _text(class_, "class_") if class_ else _no_text(class_, "class_")
    timeout_ms = _integer(timeout_ms, "timeout_ms")
    if not 0 <= timeout_ms <= LONGEST_MS:
        raise OutOfRange(f"timeout_ms must be ≥ 0 and ≤ {LONGEST_MS}, got {timeout_ms}")
    if isinstance(requires, (str, bytes)) or not isinstance(requires, Iterable):
        raise WrongType(f"requires must be a list of (key, offset), got {requires!r}")
    flat: list[Any] = []
    parts: list[bytes] = [b"", id_bytes, class_bytes, b""]
    count = 0
    for requirement in requires:
        try:
            key, offset = requirement
        except (TypeError, ValueError):
            raise WrongType(f"a requirement must be (key, offset), got {requirement!r}") from None
        key_bytes = _text(key, "a key")
        offset = checked_offset(offset)
        flat.append(key)
        flat.append(offset)
        parts.append(_pack_requirement(offset, len(key_bytes)))
        parts.append(key_bytes)
        count += 1
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
    kind = _NO_PAYLOAD
    payload_length = 0
    if payload is not None:
        kind, parts[3] = _payload(payload)
        payload_length = len(parts[3])
    parts[0] = _pack_head(
        timeout_ms, needed, count, len(id_bytes), len(class_bytes), payload_length, kind
    )
    return _submission(id, tuple(flat), needed, timeout_ms, class_, payload, b"".join(parts))


def read_submission(content: bytes) -> Submission:
    """Return what the content says."""
    timeout_ms, needed, count, id_length, class_length, payload_length, kind = _unpack_head(content)
    at = _HEAD_SIZE
    id = content[at : at + id_length].decode()
    at += id_length
    class_ = ""
    if class_length:
        class_ = content[at : at + class_length].decode()
        at += class_length
    payload: str | bytes | None = None
    if kind:
        payload = content[at : at + payload_length]
        if kind == _TEXT:
            payload = payload.decode()
        at += payload_length
    requires: list[Any] = []
    for _ in range(count):
        offset, length = _unpack_requirement(content, at)
        at += _REQUIREMENT_SIZE
        requires.append(content[at : at + length].decode())
        requires.append(offset)
        at += length
    return _submission(id, tuple(requires), needed, timeout_ms, class_, payload, content)


def _submission(
    id: str,
    requires: tuple[Any, ...],
    needed: int,
    timeout_ms: int,
    class_: str,
    payload: Any,
    content: bytes,
) -> Submission:
    submission = Submission.__new__(Submission)
    submission.id = id
    submission.requires = requires
    if cython.compiled:
        PyObject_GC_UnTrack(requires)  # texts and numbers
    submission.needed = needed
    submission.timeout_ms = timeout_ms
    submission.class_ = class_
    submission.payload = payload
    submission.content = content
    submission.waiting = None
    return submission


def fingerprint(content: bytes) -> bytes:
    """Return 16 bytes by which an ended operation's content is known."""
    return blake2b(content, digest_size=16).digest()


def checked_id(id: Any) -> str:
    """Return the id, or say what is wrong with it."""
    _text(id, "id")
    return id  # type: ignore[no-any-return]


def checked_name(name: Any) -> str:
    """Return a subscription's name, or say what is wrong with it."""
    _text(name, "name")
    return name  # type: ignore[no-any-return]


def checked_signal(key: Any, offset: Any) -> tuple[str, int]:
    """Return the signal, or say what is wrong with it."""
    _text(key, "key")
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


def _text(value: Any, name: str) -> bytes:
    if type(value) is not str:
        raise WrongType(f"{name} must be a str, got {value!r} ({type(value).__name__})")
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise OutOfRange(f"{name} cannot be written as UTF-8: {error}") from None
    if not 1 <= len(text) <= TEXT_BYTES_MAX:
        raise OutOfRange(f"{name} must have 1 to {TEXT_BYTES_MAX} bytes of UTF-8, got {len(text)}")
    return text


def _no_text(value: Any, name: str) -> bytes:
    if type(value) is not str:
        raise WrongType(f"{name} must be a str, got {value!r} ({type(value).__name__})")
    return b""


def _payload(payload: Any) -> tuple[int, bytes]:
    if type(payload) is str:
        kind = _TEXT
        try:
            payload = payload.encode()
        except UnicodeEncodeError as error:
            raise OutOfRange(f"payload cannot be written as UTF-8: {error}") from None
    elif type(payload) is bytes:
        kind = _BYTES
    else:
        raise WrongType(f"payload must be str, bytes or None, got {type(payload).__name__}")
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise OutOfRange(
            f"payload must have at most {PAYLOAD_BYTES_MAX} bytes, got {len(payload)}; "
            "store it elsewhere and pass its name"
        )
    return kind, payload


# Batches and parts of snapshots.


def write_batch(record: BatchRecord) -> bytes:
    parts = [_BATCH.pack(*[len(part) for part in record])]
    for key, offset in record.signals:
        key_bytes = key.encode()
        parts.append(_REQUIREMENT.pack(offset, len(key_bytes)))
        parts.append(key_bytes)
    for content in record.submissions:
        parts.append(_COUNT.pack(len(content)))
        parts.append(content)
    parts.append(_numbers(record.cancelled))
    parts.append(_numbers(record.ended))
    for key in record.forgotten:
        key_bytes = key.encode()
        parts.append(_LENGTH.pack(len(key_bytes)))
        parts.append(key_bytes)
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
