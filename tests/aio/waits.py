"""What the tests of waits use: conditions that never hold, or on a flag, and what still waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn import DelayedOperation

if TYPE_CHECKING:
    from sojourn import aio


def counts(purgatory: aio.Purgatory) -> tuple[int, int, int]:
    """Places in its watch lists, operations with a timeout, tasks of its timer."""
    return purgatory.watched, purgatory.delayed, len(purgatory.timer)


def never() -> bool:
    return False


class Flagged(DelayedOperation):
    """Completes when it is tried with its flag up."""

    flag = False

    def try_complete(self) -> bool:
        return self.flag and self.force_complete()
