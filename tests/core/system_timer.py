"""A timer on the system clock, and a task that holds it up."""

from __future__ import annotations

import threading

from sojourn import Timer

HOUR_MS = 3_600_000


SOON_S = 60.0  # far longer than anything here takes, so that only a fault runs into it


def nothing() -> None: ...


class Gate:
    """A task that runs until it is let go of: what a slow task looks like."""

    def __init__(self, timer: Timer) -> None:
        self._open = threading.Event()
        self.left = False
        running = threading.Event()

        def hold() -> None:
            running.set()
            assert self._open.wait(SOON_S)
            self.left = True

        timer.call_later(0, hold)
        assert running.wait(SOON_S)

    def open(self) -> None:
        self._open.set()


def finish(timer: Timer) -> None:
    """Wait until everything that is due has run."""
    ran = threading.Event()
    timer.call_later(1, ran.set)
    assert ran.wait(SOON_S)


def until_due(timer: Timer) -> None:
    """Wait until nothing waits in the wheel any more."""
    while len(timer):
        assert timer.advance_clock(int(SOON_S * 1000))
