"""A follower, as the leader sees it from its fetches: how far it is, and whether it is in sync.

A follower is caught up when it fetches from the leader's end. It also was at the time of its last
fetch, if it now asks for what was the leader's end then:

    fetch from 10, the leader's end is 12     at 1,000 ms
    fetch from 12, the leader's end is 15     it was caught up at 1,000 ms
"""

from __future__ import annotations

UNKNOWN_OFFSET = -1
_NEVER_MS = -(1 << 62)


class Follower:
    """One follower of one leader. Called with the agenda held."""

    __slots__ = (
        "_fetched_ms",
        "_leader_end_when_fetched",
        "caught_up_ms",
        "end_offset",
        "sent_high_watermark",
        "start_offset",
    )

    def __init__(self, caught_up_ms: int = _NEVER_MS) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = caught_up_ms  # when it was last at the leader's end
        self.sent_high_watermark = UNKNOWN_OFFSET
        self._fetched_ms = 0
        self._leader_end_when_fetched = 0

    def note_fetch(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Note when it was caught up, from a fetch of what comes after `offset`."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._leader_end_when_fetched:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self._leader_end_when_fetched = leader_end
        self._fetched_ms = now_ms

    def note_append(self, leader_end: int, now_ms: int) -> None:
        """Note that it is caught up until the leader appends, which it does now."""
        if self.end_offset == leader_end:
            self.caught_up_ms = now_ms

    def has_lagged(self, lag_max_ms: int, now_ms: int) -> bool:
        """Whether it was not caught up for longer than `replica.lag.time.max.ms`."""
        return now_ms - self.caught_up_ms > lag_max_ms
