"""Clocks: where a timer takes the time from, and who moves it forward.

A clock has two jobs. `now_ns()` tells the time, monotonic, in nanoseconds. `drive(timer)` sees
to it that the timer is turned when time has passed: the system clock does so with threads,
a `ManualClock` when its owner calls `advance`, an event loop with its own call-backs.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Protocol

from sojourn.errors import OutOfRange
from sojourn.millis import checked_ms

if TYPE_CHECKING:
    from sojourn.timer import Timer


class Driver(Protocol):
    """Turns one timer: moves its wheel when time has passed, and runs what is ready."""

    def wake(self) -> None:
        """The timer's next moment has moved nearer, or something is ready to run. Any thread."""

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        """Block until the timer has expired other than `seen` buckets, at most `timeout_ms`."""

    def close(self, finish: bool) -> None:
        """Run what is ready, then stop, once nothing waits any more if `finish`.

        Waits for what is running, unless called from inside it.
        """


class Clock(Protocol):
    """What a timer asks of a clock."""

    def now_ns(self) -> int:
        """The time, in nanoseconds, never going back."""

    def drive(self, timer: Timer) -> Driver:
        """Take charge of turning the timer."""


class SystemClock:
    """The operating system's monotonic clock. Wall-clock jumps do not touch it."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def drive(self, timer: Timer) -> Driver:
        from sojourn.reaper import Reaper

        return Reaper(timer)


class ManualClock:
    """A clock that moves only when told to, for tests: no threads, no sleeping.

        clock = ManualClock()
        timer = Timer(clock)
        timer.call_later(50, print, "fifty")
        clock.advance(49)      # nothing
        clock.advance(1)       # prints, before it returns

    `advance` runs what falls due in the calling thread, in deadline order, over all timers and
    purgatories on this clock; while something runs, the clock shows that thing's own deadline.
    """

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = checked_ms(start_ms, "start_ms")
        self._drivers: list[weakref.ref[_ByHand]] = []  # in the order they came

    @property
    def now_ms(self) -> int:
        """The time this clock shows, in milliseconds."""
        return self._now_ms

    def now_ns(self) -> int:
        return self._now_ms * 1_000_000

    def advance(self, ms: int) -> None:
        """Move time forward by `ms`, running everything that falls due on the way."""
        ms = checked_ms(ms, "ms")
        if ms < 0:
            raise OutOfRange(f"ms must be ≥ 0, got {ms}; time does not go back, make a new clock")
        target_ms = checked_ms(self._now_ms + ms, "the new time")
        while (next_turn := self._next_turn()) is not None and next_turn[0] <= target_ms:
            self._now_ms = max(self._now_ms, next_turn[0])
            next_turn[1].turn()
        self._now_ms = max(self._now_ms, target_ms)

    def drive(self, timer: Timer) -> Driver:
        driver = _ByHand(timer)
        self._drivers = [known for known in self._drivers if known() is not None]
        self._drivers.append(weakref.ref(driver))
        return driver

    def __repr__(self) -> str:
        return f"<ManualClock now_ms={self._now_ms}>"

    def _next_turn(self) -> tuple[int, _ByHand] | None:
        """The earliest moment at which a timer on this clock needs turning, and its driver."""
        turns = [
            (next_ms, driver)
            for known in self._drivers
            if (driver := known()) is not None
            and (next_ms := driver.timer.next_expiration_ms) is not None
        ]
        return min(turns, key=lambda turn: turn[0], default=None)


class _ByHand:
    """Turns a timer when its ManualClock is advanced, in the thread that does so."""

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self._running = False

    def turn(self) -> None:
        self.timer.turn()
        self._run()

    def wake(self) -> None:
        # Something that is due at once, added from inside a running task: the loop that runs
        # that task takes it next.
        if not self._running:
            self._run()

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        """Nothing to wait for: the time passes when somebody advances the clock."""

    def close(self, finish: bool) -> None:
        if finish and len(self.timer):
            raise OutOfRange(
                f"drop=False: {len(self.timer)} tasks wait and a ManualClock does not move by "
                "itself; advance it past their deadlines first"
            )
        self._run()

    def _run(self) -> None:
        while self.timer.has_ready():
            before, self._running = self._running, True
            try:
                self.timer.run_ready()
            finally:
                self._running = before
