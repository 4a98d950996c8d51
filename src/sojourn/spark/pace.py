"""The pace: how a stream's time advances, the same in every shard.

Each source (operations, signals, cancels) has a clock: the latest time of its rows, less
`delay_ms`. The stream's time follows the slowest clock, or the fastest, and never goes back. A
source that has had no rows for `idle_after_ms` of the wall clock is idle, and time does not wait
for it. When all are idle, time advances with the wall clock. Slowest, delay 10 s, idle after 20 s:

    wall   operations bring   signals bring   time
     0 s        100 s             100 s        90 s   both clocks are at 90 s
     1 s        101 s                          90 s   signals are behind; their rows are not late
     8 s                          108 s        91 s   now operations are behind
    22 s                                       98 s   operations are idle; signals alone count
    31 s                                      101 s   so are signals, since 28 s; 3 s on the wall

A row is late if it is at or before the time that the stream had reached before its batch. A late
row moves no clock, and does not count as a row of its source; nor does a row from the future, which
the intake has removed.

The wall clock of a batch shows the time that Spark recorded for it before running it, so a batch
that runs again sees the same time. After a stop the first batch has the rows that arrived
meanwhile. Their sources are not idle, so time does not jump over rows that waited for the restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST = -(2**63)

SOURCES = ("operations", "signals", "cancels")
_NONE: tuple[int | None, ...] = (None,) * len(SOURCES)


@dataclass(frozen=True)
class Rule:
    """Which clock time follows. Sources are known by their number in `SOURCES`."""

    sources: tuple[int, ...]
    delay_ms: int
    slowest: bool
    idle_after_ms: int | None = None  # None: nothing but rows moves time


@dataclass(frozen=True, slots=True)
class Pace:
    """The time and the clocks; None as long as no row has been seen."""

    now_ms: int | None = None
    latest_ms: tuple[int | None, ...] = _NONE  # of each source's rows so far
    news_ms: tuple[int | None, ...] = _NONE  # when, on the wall, each last had a row in time

    def on(self, shown_ms: Sequence[int | None], wall_ms: int, rule: Rule) -> Pace:
        """Return the pace after a batch in which the sources' latest rows were these.

        Its rows are late by the time before it, which is here.
        """
        latest_ms, news_ms = list(self.latest_ms), list(self.news_ms)
        for source in rule.sources:
            shown = shown_ms[source]
            if shown is not None and (self.now_ms is None or shown > self.now_ms):
                latest_ms[source] = later(latest_ms[source], shown)
                news_ms[source] = wall_ms
            elif news_ms[source] is None:
                news_ms[source] = wall_ms  # its silence begins with the stream
        reached_ms = _reached_ms(latest_ms, news_ms, wall_ms, rule)
        now_ms = self.now_ms
        if reached_ms is not None:
            now_ms = later(now_ms, max(LEAST, reached_ms))
        return Pace(now_ms, tuple(latest_ms), tuple(news_ms))


def _reached_ms(
    latest_ms: list[int | None], news_ms: list[int | None], wall_ms: int, rule: Rule
) -> int | None:
    """Return the time by the clocks and the wall clock; None if it is not known."""
    shown_ms = [at_ms for at_ms in latest_ms if at_ms is not None]
    if not shown_ms:
        return None
    awake = list(rule.sources)
    if rule.idle_after_ms is not None:
        heard_ms = [at_ms for at_ms in news_ms if at_ms is not None]
        quiet_ms = wall_ms - max(heard_ms) - rule.idle_after_ms
        if quiet_ms > 0:
            return max(shown_ms) - rule.delay_ms + quiet_ms
        since_ms = wall_ms - rule.idle_after_ms
        awake = [n for n in awake if (news := news_ms[n]) is not None and news >= since_ms]
    clocks = [at_ms for n in awake if (at_ms := latest_ms[n]) is not None]
    if not rule.slowest:
        return max(shown_ms) - rule.delay_ms
    return min(clocks) - rule.delay_ms if len(clocks) == len(awake) else None


def later(one_ms: int | None, other_ms: int) -> int:
    """Return the later of two times, of which the first may not be known."""
    return other_ms if one_ms is None else max(one_ms, other_ms)
