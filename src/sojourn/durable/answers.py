"""Answers: what the verbs return. Plain tuples with names, so that a million are cheap."""

from __future__ import annotations

from typing import NamedTuple

from sojourn.errors import SojournError

WAITING = "waiting"
COMPLETED = "completed"
EXPIRED = "expired"
CANCELLED = "cancelled"

ACCEPTED = "accepted"
DUPLICATE = "duplicate"
UNCHANGED = "unchanged"
ENDED = "ended"
UNKNOWN = "unknown"
REFUSED = "refused"


class Operation(NamedTuple):
    """An operation as the file has it: waiting, or ended."""

    id: str
    status: str  #: "waiting", "completed", "expired" or "cancelled"
    submitted_ms: int
    deadline_ms: int
    at_ms: int | None  #: when it ended
    by_key: str | None  #: which key completed it
    class_: str
    payload: str | bytes | None
    number: int | None  #: of its outcome in the feed

    @property
    def waited_ms(self) -> int | None:
        """How long it waited; None while it does."""
        return None if self.at_ms is None else self.at_ms - self.submitted_ms


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
