"""An operation that completes when a flag is set."""

from __future__ import annotations

from sojourn import DelayedOperation


class Flagged(DelayedOperation):
    """Completes when it is tried with its flag set."""

    flag = False

    def __init__(self, timeout_ms: int = 100) -> None:
        super().__init__(timeout_ms)

    def try_complete(self) -> bool:
        return self.flag and self.force_complete()
