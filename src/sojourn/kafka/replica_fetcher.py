"""Replication: a follower fetches from its partition's leader, again and again.

fetch --(answer)--> append, learn the watermarks --> fetch from where the log now ends
  |
  +-- nothing new: the fetch waits at the leader, in the fetch purgatory, like a consumer's

answer says the logs have parted     cut off what the leader does not have, fetch
answer says the offset is gone       start anew from the leader's first offset, fetch
any other error                      wait a little, fetch
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.kafka.fetch.fetch import Asked, Fetch, Read
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.fetch.fetch import DelayedFetch
    from sojourn.kafka.partition import Partition
    from sojourn.task import TimerTask

# Long, since all news ends the wait: moving the clock by a day should not mean a day of fetches.
_MAX_WAIT_MS = 300_000
_BACK_OFF_MS = 1_000


class Fetcher:
    """One follower of one partition. Called with the agenda held."""

    def __init__(self, partition: Partition, broker_id: int, cluster: Cluster) -> None:
        self._partition = partition
        self._broker_id = broker_id
        self._cluster = cluster
        self._round = 0  # answers and wake-ups of earlier rounds are void
        self._waiting: DelayedFetch | None = None
        self._pause: TimerTask | None = None
        #: Fetches nothing while True.
        self.is_paused = False
        #: How long it takes over each fetch.
        self.lag_ms = 0

    def start(self) -> None:
        """Follow the leader there is now."""
        self.stop()
        self._soon(self.lag_ms)

    def stop(self) -> None:
        """Follow nobody. What waits at a leader is taken away from there."""
        self._round += 1
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _soon(self, after_ms: int = 0) -> None:
        this_round = self._round
        if after_ms > 0:
            self._pause = self._cluster.timer.call_later(after_ms, self._wake, this_round)
        else:
            self._cluster.agenda.defer(lambda: self._fetch(this_round))

    def _wake(self, this_round: int) -> None:
        with self._cluster.agenda:
            self._fetch(this_round)

    def _fetch(self, this_round: int) -> None:
        partition = self._partition
        if this_round != self._round or self.is_paused or partition.leader < 0:
            return
        log = partition.logs[self._broker_id]
        asked = Asked(
            partition,
            partition.index,
            log.end_offset,
            self._cluster.settings.number("replica.fetch.max.bytes"),
            partition.leader_epoch,
            log.last_epoch,
            log.start_offset,
        )
        self._waiting = Fetch(
            self._cluster.broker(partition.leader),
            [asked],
            lambda reads: self._answered(this_round, reads),
            max_wait_ms=_MAX_WAIT_MS,
            replica=self._broker_id,
        ).start()

    def _answered(self, this_round: int, reads: Sequence[Read]) -> None:
        if this_round != self._round:
            return
        self._waiting = None
        read = reads[0]
        log = self._partition.logs[self._broker_id]
        wait_ms = 0
        if read.diverging is not None:
            epoch, end = read.diverging
            before = log.end_offset, log.last_epoch
            log.truncate(min(end, log.end_of_epoch(epoch)[1]) if epoch >= 0 else 0)
            if before == (log.end_offset, log.last_epoch):  # never ask the same again at once
                wait_ms = _BACK_OFF_MS
        elif read.error is ErrorCode.offset_out_of_range:
            leader = self._partition.log
            log.restart(leader.start_offset)
        elif read.error is not ErrorCode.none:
            wait_ms = _BACK_OFF_MS
        else:
            for batch in read.batches:
                log.append(batch)
            log.high_watermark = max(log.high_watermark, min(read.high_watermark, log.end_offset))
            if read.start_offset > log.end_offset:
                log.restart(read.start_offset)
            else:
                log.advance_start(read.start_offset)
            if self._broker_id in self._partition.read_at:
                reading = (self._partition.key, self._broker_id)
                self._cluster.purgatories.fetch.check_and_complete(reading)
        self._soon(max(wait_ms, self.lag_ms))
