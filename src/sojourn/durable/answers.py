"""Answers: what the verbs return. Cheap to make: what nobody asks for is not read."""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any, NamedTuple
from zlib import crc32

from sojourn.durable.records import BatchRecord, checksum_of
from sojourn.durable.submissions import (
    checked_submission,
    class_of,
    needed_of,
    payload_of,
    traceparent_of,
)
from sojourn.errors import OutOfRange, SojournError

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
    from cython.cimports.libc.string import memcpy
    from cython.cimports.sojourn.durable._bytes import put
else:
    from sojourn.durable.records import hashes_of
    from sojourn.durable.submissions import id_of, read_submission, timeout_of

WAITING = "waiting"
COMPLETED = "completed"
EXPIRED = "expired"
CANCELLED = "cancelled"
STATUSES = (WAITING, COMPLETED, EXPIRED, CANCELLED)  # by their numbers in the file

ACCEPTED = "accepted"
DUPLICATE = "duplicate"
UNCHANGED = "unchanged"
ENDED = "ended"
UNKNOWN = "unknown"
REFUSED = "refused"


@cython.no_gc  # nothing in it can lead back to it
@cython.cclass
class Operation:
    """An operation as the file has it: waiting, or ended. It does not change.

    What was submitted is kept as bytes and read when it is asked for: `payload` is a new object
    each time.
    """

    __slots__ = ("_at_ms", "_number", "by_key", "content", "status", "submitted_ms")

    status: str  #: "waiting", "completed", "expired" or "cancelled"
    submitted_ms: int
    by_key: str | None  #: which key completed it
    content: bytes  #: what was submitted, as docs/durable-format.md draws it

    def __init__(
        self,
        id: str,
        requires: Any,
        timeout_ms: int,
        needed: int | None = None,
        class_: str = "",
        payload: Any = None,
        traceparent: str | None = None,
        *,
        status: str = WAITING,
        submitted_ms: int = 0,
        at_ms: int | None = None,
        by_key: str | None = None,
        number: int | None = None,
    ) -> None:
        if status not in STATUSES:
            raise OutOfRange(f"status must be one of {', '.join(STATUSES)}, got {status!r}")
        self.content = checked_submission(
            id, requires, timeout_ms, needed, class_, payload, traceparent
        ).content
        self.status = STATUSES[STATUSES.index(status)]
        self.submitted_ms = submitted_ms
        self._at_ms = at_ms or 0
        self.by_key = by_key
        self._number = number or 0

    @property
    def id(self) -> str:
        """Its id."""
        return id_of(self.content)

    @property
    def deadline_ms(self) -> int:
        """When it expires."""
        return self.submitted_ms + timeout_of(self.content)

    @property
    def timeout_ms(self) -> int:
        """For how long it waits at most."""
        return timeout_of(self.content)

    @property
    def at_ms(self) -> int | None:
        """When it ended; None while it waits."""
        return None if self.status == WAITING else self._at_ms

    @property
    def waited_ms(self) -> int | None:
        """How long it waited; None while it does."""
        return None if self.status == WAITING else self._at_ms - self.submitted_ms

    @property
    def number(self) -> int | None:
        """That of its outcome in the feed; None while it waits."""
        return self._number or None

    @property
    def requires(self) -> tuple[tuple[str, int], ...]:
        """What it waits for, or did: (key, offset), in the order given."""
        requires = read_submission(self.content).requires
        return tuple(zip(requires[::2], requires[1::2], strict=True))

    @property
    def needed(self) -> int:
        """How many of them have to hold."""
        return needed_of(self.content)

    @property
    def class_(self) -> str:
        """Its class; empty if none was given."""
        return class_of(self.content)

    @property
    def payload(self) -> Any:
        """The payload, as it was given."""
        return payload_of(self.content)

    @property
    def traceparent(self) -> str | None:
        """The trace it was first submitted on (W3C Trace Context)."""
        return traceparent_of(self.content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return hash(_fields(self))

    def __repr__(self) -> str:
        return (
            f"Operation(id={self.id!r}, status={self.status!r}, "
            f"submitted_ms={self.submitted_ms}, deadline_ms={self.deadline_ms}, "
            f"timeout_ms={self.timeout_ms}, at_ms={self.at_ms}, by_key={self.by_key!r}, "
            f"class_={self.class_!r}, payload={self.payload!r}, number={self.number}, "
            f"requires={self.requires!r}, needed={self.needed}, traceparent={self.traceparent!r})"
        )

    def __reduce__(self) -> Any:
        return new_operation, (
            self.content,
            self.status,
            self.submitted_ms,
            self._at_ms,
            self.by_key,
            self._number,
        )


def new_operation(
    content: bytes, status: str, submitted_ms: int, at_ms: int, by_key: Any, number: int
) -> Operation:
    """Make one from what is in the file; at_ms and number are 0 while it waits."""
    operation = Operation.__new__(Operation)
    operation.content = content
    operation.status = status
    operation.submitted_ms = submitted_ms
    operation._at_ms = at_ms
    operation.by_key = by_key
    operation._number = number
    return operation


def outcome_rows(outcomes: list[Operation], told_ms: int, prime: int) -> list[tuple[Any, ...]]:
    """Ended operations as rows for the file: docs/durable-format.md."""
    hashes = hashes_of([operation.id for operation in outcomes], prime)
    rows = []
    for n in range(len(outcomes)):
        operation = outcomes[n]
        status = STATUSES.index(operation.status)
        row = (
            operation._number,
            hashes[n],
            status,
            operation.submitted_ms,
            operation._at_ms,
            operation.by_key,
            told_ms,
            operation.content,
        )
        if cython.compiled:
            checksum = _row_checksum(operation, hashes[n], status, told_ms)
        else:
            checksum = checksum_of(*row)
        rows.append((*row, checksum))
    return rows


def operation_of(row: tuple[Any, ...]) -> Operation | None:
    """The operation of such a row; None if the checksum is wrong."""
    number, id_hash, status, submitted_ms, at_ms, by_key, told_ms, content, checksum = row
    operation = new_operation(content, STATUSES[status], submitted_ms, at_ms, by_key, number)
    if cython.compiled:
        is_right = checksum == _row_checksum(operation, id_hash, status, told_ms)
    else:
        is_right = checksum == checksum_of(
            number, id_hash, status, submitted_ms, at_ms, by_key, told_ms, content
        )
    return operation if is_right else None


def _row_checksum(operation: Operation, id_hash: int, status: int, told_ms: int) -> int:
    """As `checksum_of`; compiled only."""
    if cython.compiled:
        length = 0
        text = cython.cast("const char *", cython.NULL)
        if operation.by_key is not None:
            text = PyUnicode_AsUTF8AndSize(operation.by_key, cython.address(length))
        head = PyBytes_FromStringAndSize(
            cython.NULL, 6 * 9 + 5 + (1 if operation.by_key is None else 5 + length)
        )
        at = cython.cast("unsigned char *", PyBytes_AS_STRING(head))
        at = _put_integer(at, operation._number)
        at = _put_integer(at, id_hash)
        at = _put_integer(at, status)
        at = _put_integer(at, operation.submitted_ms)
        at = _put_integer(at, operation._at_ms)
        if operation.by_key is None:
            at[0] = ord("n")
            at += 1
        else:
            at[0] = ord("t")
            put(at + 1, length, 4)
            memcpy(at + 5, text, length)
            at += 5 + length
        at = _put_integer(at, told_ms)
        at[0] = ord("b")
        put(at + 1, len(operation.content), 4)
        return crc32(operation.content, crc32(head))
    return 0


def _put_integer(at: Any, value: Any) -> Any:
    if cython.compiled:
        at[0] = ord("i")
        put(at + 1, value, 8)
        return at + 9
    return at


def _fields(operation: Operation) -> Any:
    return (
        operation.content,
        operation.status,
        operation.submitted_ms,
        operation._at_ms,
        operation.by_key,
        operation._number,
    )


class Answer(NamedTuple):
    """What became of one command.

    `verdict` is, for a submit, "accepted" or "duplicate"; for a signal, "accepted" or
    "unchanged" (its key has come that far already); for a cancel, "accepted", "ended" (too late)
    or "unknown"; and "refused" for a row of a batch, with the `error`.
    """

    verdict: str
    at_ms: int | None = None  #: the time it got
    operation: Operation | None = None  #: as it is then; none for a signal
    error: SojournError | None = None


class News(NamedTuple):
    """What one batch brought, for those who listen."""

    time_ms: int  #: the time of everything in it
    commands: int  #: how many there were, also those that changed nothing or were refused
    signals: int  #: that moved a key
    submissions: int  #: that were accepted
    outcomes: list[Operation]
    commit_ms: float  #: how long writing it took, with the sync


class JournalBatch(NamedTuple):
    """One batch as the journal has it: what was taken, and what ended."""

    batch: int  #: its number; the next one's is one more
    time_ms: int  #: the time of everything in it
    signals: list[tuple[str, int]]  #: keys and offsets that they moved to
    operations: list[Operation]  #: submitted; as they were then, waiting
    outcomes: list[Operation]  #: cancelled ones among them
    forgotten: list[str]  #: keys whose progress counts no more, from here on

    @classmethod
    def of(
        cls, batch: int, time_ms: int, record: BatchRecord, outcomes: list[Operation]
    ) -> JournalBatch:
        operations = [
            new_operation(content, WAITING, time_ms, 0, None, 0) for content in record.submissions
        ]
        return cls(batch, time_ms, record.signals, operations, outcomes, record.forgotten)
