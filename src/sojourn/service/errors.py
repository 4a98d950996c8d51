"""Errors: what the service says when it does not do what was asked.

    {"error": {"code": "id_taken", "message": "what was asked and found", "found": …, "do": …}}

Codes are stable; messages are for people and may change.
"""

from __future__ import annotations

from typing import Any

from sojourn.errors import (
    Closed,
    Full,
    IdTaken,
    Missed,
    NotWritten,
    OutOfRange,
    SojournError,
    WrongType,
)
from sojourn.service.replies import Reply, encode

Headers = list[tuple[bytes, bytes]]

_DISK_FULL = ("full", "quota", "no space")


class Refusal(Exception):
    """The request, or a row of it, is refused: with a status, a code and what to do."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        do: str | None = None,
        found: Any = None,
        headers: Headers | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.do = do
        self.found = found
        self.headers = headers or []
        self.more = more or {}

    def as_dict(self) -> dict[str, Any]:
        """What stands under "error"."""
        fields: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.found is not None:
            fields["found"] = self.found
        if self.do is not None:
            fields["do"] = self.do
        return fields | self.more

    def reply(self) -> Reply:
        """The answer to the request."""
        return Reply(self.status, encode({"error": self.as_dict()}), self.headers)


def refusal_of(error: SojournError) -> Refusal:
    """What the service says about an error of the purgatory's."""
    message = str(error)
    if isinstance(error, IdTaken):
        return Refusal(409, "id_taken", message, do="use another id, or get this one")
    if isinstance(error, Full):
        return Refusal(
            429,
            "full",
            message,
            do="try again later; signals and cancels are still taken",
            headers=[(b"retry-after", b"1")],
        )
    if isinstance(error, Missed):
        return Refusal(
            410,
            "missed",
            message,
            do=f"take note of what is gone, then go on with after={error.last}",
            more={"after": error.last},
        )
    if isinstance(error, NotWritten):
        cause = str(error.__cause__ or error).lower()
        is_full = any(word in cause for word in _DISK_FULL)
        return Refusal(
            507 if is_full else 503,
            "not_written",
            message,
            do="try again later; sending the same again is safe",
            headers=[(b"retry-after", b"1")],
        )
    if isinstance(error, Closed):
        return closing()
    if isinstance(error, (OutOfRange, WrongType)):
        return Refusal(400, "bad_row", message)
    return Refusal(503, "unavailable", message, do="see the service's log")


def closing() -> Refusal:
    """The service is on its way out."""
    return Refusal(
        503,
        "closing",
        "the service is being stopped",
        do="try again; sending the same again is safe",
        headers=[(b"retry-after", b"1"), (b"connection", b"close")],
    )
