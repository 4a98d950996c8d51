"""A refusal: why a request cannot be served, with the protocol's error code and a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.kafka.wire import ErrorCode


class RecordError(NamedTuple):
    """A record of a batch that was refused, and why."""

    number: int
    reason: str


class Refused(SojournError):
    """Raised by the check that fails, caught where the answer is built."""

    def __init__(
        self, code: ErrorCode, reason: str = "", records: Sequence[RecordError] = ()
    ) -> None:
        super().__init__(f"{code.name}: {reason}" if reason else code.name)
        self.code = code
        self.reason = reason
        self.records = records

    @property
    def fields(self) -> dict[str, Any]:
        """The code and the reason, as most answers have them."""
        return {"error_code": self.code, "error_message": self.reason or None}
