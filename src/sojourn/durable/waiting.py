"""What waits: operations, and the keys that they wait on."""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython


from sojourn.durable.answers import WAITING, Operation

if not cython.compiled:
    from sojourn.durable.answers import new_operation
    from sojourn.durable.submissions import Submission, read_submission


@cython.no_gc
@cython.cclass
class Waiting:
    """An operation that waits: 64 bytes, and its content."""

    __slots__ = (
        "content",
        "deadline_ms",
        "handle",
        "is_over",
        "is_overdue",
        "missing",
        "missing_then",
        "number",
        "place",
        "plan",
        "submitted_ms",
    )

    content: bytes
    number: int
    submitted_ms: int
    deadline_ms: int
    handle: int  # in the wheel
    place: int  # the first of its places
    missing: int  # how many more requirements have to hold
    missing_then: int  # the same after the plan of this number
    plan: int
    is_overdue: bool  # off the wheel: it expires, and does nothing else
    is_over: bool  # it has ended


@cython.cclass
class KeyProgress:
    """How far a key has come, and the tree of those who wait for more."""

    __slots__ = ("has_progress", "idle_since_ms", "progress", "root", "unmet", "waiters")

    progress: int  # if `has_progress`
    has_progress: bool
    root: int
    waiters: int  # requirements on this key, held or not, of operations that wait
    unmet: int  # those of them that do not hold, which are in the tree
    idle_since_ms: int


def new_waiting(content: bytes, number: int, submitted_ms: int, deadline_ms: int) -> Waiting:
    waiting = Waiting.__new__(Waiting)
    waiting.content = content
    waiting.number = number
    waiting.submitted_ms = submitted_ms
    waiting.deadline_ms = deadline_ms
    waiting.handle = -1
    waiting.place = 0
    waiting.missing = 0
    waiting.missing_then = 0
    waiting.plan = 0
    waiting.is_overdue = False
    waiting.is_over = False
    return waiting


def new_key() -> KeyProgress:
    entry = KeyProgress.__new__(KeyProgress)
    entry.progress = 0
    entry.has_progress = False
    entry.root = 0
    entry.waiters = 0
    entry.unmet = 0
    entry.idle_since_ms = 0
    return entry


def as_operation(waiting: Waiting) -> Operation:
    return new_operation(waiting.content, WAITING, waiting.submitted_ms, 0, None, 0)


def submission_of(waiting: Waiting) -> Submission:
    submission: Submission = read_submission(waiting.content)
    submission.waiting = waiting
    return submission


def is_over(waiting: Waiting) -> bool:
    return waiting.is_over
