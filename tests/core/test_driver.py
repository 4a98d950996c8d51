"""What a driver of the user's own is told, and what it sees of its timer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sojourn import Timer

if TYPE_CHECKING:
    from sojourn.core.clock import Driver

NOTHING_WAITS = 2**63 - 1


class HandDriven:
    """A clock set by hand, whose driver notes what it is told and leaves the rest to the test."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.told: list[object] = []

    def now_ns(self) -> int:
        return self.now_ms * 1_000_000

    def drive(self, timer: Timer) -> Driver:
        return self

    def wake(self) -> None:
        self.told.append("wake")

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        self.told.append(("wait", seen, timeout_ms))

    def close(self, finish: bool, wait: bool) -> None:
        self.told.append(("close", finish, wait))

    def hears(self) -> list[object]:
        """What it was told since it was last asked."""
        told, self.told = self.told, []
        return told


@pytest.fixture
def clock() -> HandDriven:
    return HandDriven()


@pytest.fixture
def timer(clock: HandDriven) -> Timer:
    return Timer(clock)


def nothing() -> None: ...


def test_only_a_task_that_changes_its_plans_wakes_a_driver(timer: Timer, clock: HandDriven) -> None:
    timer.call_later(50, nothing)
    assert clock.hears() == ["wake"]
    timer.call_later(60, nothing)  # later than the first
    timer.call_later(50, nothing)  # in the same bucket
    assert clock.hears() == []
    timer.call_later(30, nothing)  # earlier
    assert clock.hears() == ["wake"]
    timer.call_later(0, nothing)  # at once
    assert clock.hears() == ["wake"]
