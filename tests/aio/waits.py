"""What the tests of waits use: a condition that never holds, and counts of what still waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn import aio


def counts(purgatory: aio.Purgatory) -> tuple[int, int, int]:
    """Places in its watch lists, operations with a timeout, tasks of its timer."""
    return purgatory.watched, purgatory.delayed, len(purgatory.timer)


def never() -> bool:
    return False
