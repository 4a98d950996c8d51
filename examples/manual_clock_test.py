"""How to test timeouts without sleeping: pass the clock in, move it by hand.

These are pytest tests; `manual_clock` is a fixture that comes with Sojourn.

    pytest examples/manual_clock_test.py
    python -m examples.manual_clock_test
"""

from __future__ import annotations

from sojourn import Clock, ManualClock, Timer, TimerTask


class Session:
    """What is tested: a login session that ends after 30 minutes without a request."""

    IDLE_MS = 30 * 60 * 1000

    def __init__(self, clock: Clock | None = None) -> None:
        self._timer = Timer(clock, name="session")
        self._idle = TimerTask(self.IDLE_MS, self._end)
        self._timer.add(self._idle)
        self.is_open = True

    def touch(self) -> None:
        """A request came: the half hour starts anew."""
        self._timer.add(self._idle)

    def _end(self) -> None:
        self.is_open = False


def test_a_session_ends_after_half_an_hour(manual_clock: ManualClock) -> None:
    session = Session(manual_clock)
    manual_clock.advance(Session.IDLE_MS - 1)
    assert session.is_open
    manual_clock.advance(1)
    assert not session.is_open


def test_a_request_starts_the_half_hour_anew(manual_clock: ManualClock) -> None:
    session = Session(manual_clock)
    manual_clock.advance(Session.IDLE_MS - 1)
    session.touch()
    manual_clock.advance(Session.IDLE_MS - 1)
    assert session.is_open
    manual_clock.advance(1)
    assert not session.is_open


def main() -> None:
    for test in (
        test_a_session_ends_after_half_an_hour,
        test_a_request_starts_the_half_hour_anew,
    ):
        clock = ManualClock()
        test(clock)
        print(f"{test.__name__}: passed, {clock.now_ms // 60_000} minutes on the clock")


if __name__ == "__main__":
    main()
