"""A refusal: what a request asked for cannot be, with the protocol's code and a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.kafka.wire import ErrorCode


class RecordError(NamedTuple):
    """Which record of a batch is to blame, and why."""

    number: int
    reason: str


class Refused(SojournError):
    """Raised where it is found out, caught where the answer is put together."""

    def __init__(
        self, code: ErrorCode, reason: str = "", records: Sequence[RecordError] = ()
    ) -> None:
        super().__init__(f"{code.name}: {reason}" if reason else code.name)
        self.code = code
        self.reason = reason
        self.records = records
