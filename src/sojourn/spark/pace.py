"""The pace: how time goes on in a stream, the same in every shard.

Time follows the rows: it stands `delay_ms` behind the latest one seen in an earlier batch. When
rows stop coming it would stand still, and with it every timeout. With `idle="wall"` the wall clock
takes over after `delay_ms` without a row that is news:

    latest row ·················· 100 s
    time       ··················  90 s     (delay 10 s)
    quiet for  5 s  ·············  90 s
    quiet for 10 s  ·············  90 s     the wall clock takes over
    quiet for 12 s  ·············  92 s
    a row of 100.5 s arrives ····  92 s     it is not late; the quiet is over
    a row of 91 s arrives ·······  92 s     it is late

What counts as now on the wall is the time that Spark wrote down for the batch before running it, so
a batch that runs again sees the same time. After a stop the first batch holds what has arrived
meanwhile, which is news; so time does not jump over rows that only waited for us.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST = -(2**63)


@dataclass(frozen=True, slots=True)
class Pace:
    """Where time stands; None as long as no row has been seen."""

    now_ms: int | None = None
    latest_ms: int | None = None  # of all rows so far
    news_ms: int | None = None  # when, by the wall, a batch last held a row later than its time

    def on(
        self,
        batch_latest_ms: int | None,
        *,
        watermark_ms: int,
        wall_ms: int,
        delay_ms: int,
        wall_when_idle: bool,
    ) -> Pace:
        """Return where time stands in this batch; `now_ms` never goes back.

        The batch's own rows move the time of the next batch, not that of this one.
        """
        now_ms = self.now_ms
        if self.latest_ms is not None:
            now_ms = later(now_ms, max(LEAST, self.latest_ms - delay_ms))
        if watermark_ms > 0:  # 0 is Spark's way to say that there is none
            now_ms = later(now_ms, watermark_ms)
        news = batch_latest_ms is not None and (now_ms is None or batch_latest_ms > now_ms)
        news_ms = wall_ms if news or self.news_ms is None else self.news_ms
        if wall_when_idle and now_ms is not None and self.latest_ms is not None:
            quiet_ms = wall_ms - news_ms - delay_ms
            if quiet_ms > 0:
                now_ms = max(now_ms, self.latest_ms - delay_ms + quiet_ms)
        latest_ms = self.latest_ms
        if batch_latest_ms is not None:
            latest_ms = later(latest_ms, batch_latest_ms)
        return Pace(now_ms, latest_ms, news_ms)


def later(one_ms: int | None, other_ms: int) -> int:
    """Return the later of two times, of which the first may not be known."""
    return other_ms if one_ms is None else max(one_ms, other_ms)
