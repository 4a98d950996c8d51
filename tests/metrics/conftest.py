"""A purgatory whose every number is known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory


class Raises(DelayedOperation):
    def on_complete(self) -> None:
        raise ValueError("mine")


@pytest.fixture
def purgatory(manual_clock: ManualClock, quiet_log: None) -> Iterator[Purgatory]:
    """Two completed, four expired, one of which raised, four cancelled, one waits on two keys."""
    with Purgatory("orders", clock=manual_clock) as purgatory:
        for _ in range(2):
            operation = DelayedOperation(10)
            purgatory.try_complete_else_watch(operation, ["a"])
            operation.force_complete()
        for _ in range(3):
            purgatory.try_complete_else_watch(DelayedOperation(10), ["b"])
        purgatory.try_complete_else_watch(Raises(10), ["c"])
        for _ in range(4):
            purgatory.try_complete_else_watch(DelayedOperation(10), ["d"])
        purgatory.cancel_for_key("d")
        purgatory.try_complete_else_watch(DelayedOperation(60_000), ["e", "f"])
        manual_clock.advance(10)
        yield purgatory
