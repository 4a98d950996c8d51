"""Clocks: where a timer takes the time from, and who moves it forward.

A clock has two jobs. `now_ns()` tells the time, monotonic, in nanoseconds. `drive(timer)` sees
to it that the timer is turned when time has passed: the system clock does so with threads,
a `ManualClock` when its owner calls `advance`, an event loop with its own call-backs.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import time
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from sojourn.core.alike import already_initialised, not_copied, not_initialised, start_out
from sojourn.core.guard import GUARD
from sojourn.errors import OutOfRange

if not cython.compiled:
    from sojourn.core.levels import EMPTY
    from sojourn.core.millis import checked_ms

if TYPE_CHECKING:
    from sojourn.core.timer import Timer


# What a clock moved by hand can show, so that it can be told in microseconds too.
_MOST_MS = 10**15


class Driven:
    """What a driver turns: a timer, as it looks from below."""

    __slots__ = ()

    def _sj_next_ms(self) -> int:
        """When the wheel next needs turning; EMPTY when nothing waits."""
        return EMPTY

    def _sj_turn(self) -> int:
        """Move what is due by now from the wheel to the ready list; return buckets expired."""
        return 0

    def _sj_has_ready(self) -> bool:
        """Say whether anything stands in the ready list that nobody has been asked to run."""
        return False

    def _sj_run_ready(self) -> None:
        """Run what is ready, in order."""

    def __len__(self) -> int:
        return 0


class Driver(Protocol):
    """Turns one timer: moves its wheel when time has passed, and runs what is ready."""

    def wake(self) -> None:
        """The timer's next moment has moved nearer, or something is ready to run. Any thread."""

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        """Block until the timer has expired other than `seen` buckets, at most `timeout_ms`."""

    def close(self, finish: bool, wait: bool) -> None:
        """Run what is ready, then stop, once nothing waits any more if `finish`.

        With `wait` it returns when that has happened, unless called from inside a task. A driver
        that cannot `finish` by itself raises `OutOfRange`, and the timer stays open.
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
        from sojourn.core.reaper import Reaper

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

    __slots__ = ("_sj_drivers", "_sj_now_ms")

    _sj_now_ms: int
    _sj_drivers: list[weakref.ref[_ByHand]]  # in the order they came; replaced, never changed

    def __init__(self, start_ms: int = 0) -> None:
        before: Any = self._sj_drivers
        if before is not None:
            raise already_initialised(self)
        self._sj_now_ms = _checked_time(start_ms, "start_ms")
        self._sj_drivers = []

    @property
    def now_ms(self) -> int:
        """The time this clock shows, in milliseconds."""
        if self._sj_drivers is None:
            raise not_initialised(self)
        return self._sj_now_ms

    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return self.now_ms * 1_000_000

    def advance(self, ms: int) -> None:
        """Move time forward by `ms`, running everything that falls due on the way."""
        if self._sj_drivers is None:
            raise not_initialised(self)
        ms = checked_ms(ms, "ms")
        if ms < 0:
            raise OutOfRange(f"ms must be ≥ 0, got {ms}; time does not go back, make a new clock")
        self._sj_advance_to(_checked_time(self._sj_now_ms + ms, "the new time"))

    def drive(self, timer: Timer) -> Driver:
        """Turn the timer whenever this clock is advanced."""
        if self._sj_drivers is None:
            raise not_initialised(self)
        driver = _ByHand(timer)
        reference = weakref.ref(driver)
        while True:
            before = self._sj_drivers
            after = [other for other in before if other() is not None]
            after.append(reference)
            if self._sj_replace(before, after):
                return driver

    def __repr__(self) -> str:
        shows = " not initialised" if self._sj_drivers is None else f" now_ms={self._sj_now_ms}"
        return f"<{type(self).__name__}{shows}>"

    def __reduce__(self) -> Any:
        raise not_copied(self)

    def _sj_advance_to(self, target_ms: int) -> None:
        while True:
            # The earliest moment at which a timer on this clock needs turning. What a task that
            # advanced the clock, or was interrupted, left ready comes before.
            next_ms = EMPTY
            first = None
            drivers = self._sj_drivers
            for reference in drivers:
                driver = reference()
                if driver is not None:
                    driver.run()
                    at_ms = driver.timer._sj_next_ms()
                    if at_ms < next_ms:
                        next_ms = at_ms
                        first = driver
            if self._sj_drivers is not drivers:  # somebody has made a timer meanwhile
                continue
            if first is None or next_ms > target_ms:
                break
            self._sj_move_to(next_ms)
            first.turn()
        self._sj_move_to(target_ms)

    # The atomic steps.

    def _sj_move_to(self, now_ms: int) -> None:
        if now_ms > self._sj_now_ms:  # a task may have moved it further
            self._sj_now_ms = now_ms

    def _sj_replace(self, before: list[Any], after: list[Any]) -> bool:
        if self._sj_drivers is not before:
            return False
        self._sj_drivers = after
        return True


def _checked_time(ms: int, name: str) -> int:
    ms = checked_ms(ms, name)
    if not -_MOST_MS <= ms <= _MOST_MS:
        raise OutOfRange(
            f"{name} must lie within ±{_MOST_MS} ms (30,000 years), got {ms}; start a new clock"
        )
    return ms


class _ByHand:
    """Turns a timer when its ManualClock is advanced, in the thread that does so."""

    __slots__ = ("__weakref__", "_running", "timer")

    def __init__(self, timer: Driven) -> None:
        self.timer = timer
        self._running = False

    def turn(self) -> None:
        self.timer._sj_turn()
        self.run()

    def wake(self) -> None:
        # Something that is due at once, added from inside a running task: the loop that runs
        # that task takes it next.
        if not self._running:
            self.run()

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        """Nothing to wait for: the time passes when somebody advances the clock."""

    def close(self, finish: bool, wait: bool) -> None:
        if finish and len(self.timer):
            raise OutOfRange(
                f"drop=False: {len(self.timer)} tasks wait and a ManualClock does not move by "
                "itself; advance it past their deadlines first"
            )
        self.run()

    def run(self) -> None:
        while self.timer._sj_has_ready():
            before, self._running = self._running, True
            try:
                self.timer._sj_run_ready()
            finally:
                self._running = before


def runs_at_once(driver: Any) -> bool:
    """Whether the driver, when woken, runs what is ready in the thread that wakes it."""
    return isinstance(driver, _ByHand)


if not cython.compiled:
    start_out(ManualClock, _sj_now_ms=0, _sj_drivers=None)
    GUARD.protect(ManualClock, "_sj_move_to", "_sj_replace")
