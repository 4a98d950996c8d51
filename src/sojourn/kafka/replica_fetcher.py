"""Replication: a follower fetches from its partition's leader, again and again.

fetch --(answer)--> append, take over the watermarks --> fetch from the log's new end
  |
  +-- nothing new: the fetch waits at the leader, in the fetch purgatory, like a consumer's

the answer is                what the follower does before it fetches again
the logs diverge             it truncates its log where the leader's differs
OFFSET_OUT_OF_RANGE          it restarts its log at the leader's first offset
any other error              it waits for a second
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.kafka.fetch.fetch import Fetch
from sojourn.kafka.fetch.reader import FetchPartition, ReadResult
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.core.task import TimerTask
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.fetch.fetch import DelayedFetch
    from sojourn.kafka.partition import Partition

# Long, since every change ends the wait: a clock moved by a day should not cause a day of fetches.
_MAX_WAIT_MS = 300_000
_BACK_OFF_MS = 1_000


class ReplicaFetcher:
    """One follower of one partition. Called with the agenda held."""

    def __init__(self, partition: Partition, broker_id: int, cluster: Cluster) -> None:
        self._partition = partition
        self._broker_id = broker_id
        self._cluster = cluster
        self._round = 0  # answers and timers of earlier rounds are ignored
        self._waiting: DelayedFetch | None = None
        self._timer_task: TimerTask | None = None
        #: Fetches nothing while True.
        self.is_paused = False
        #: How long it takes over each fetch.
        self.lag_ms = 0

    def start(self) -> None:
        """Follow the present leader."""
        self.stop()
        self._fetch_after(self.lag_ms)

    def stop(self) -> None:
        """Stop following; cancel the fetch that waits at the leader."""
        self._round += 1
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if self._timer_task is not None:
            self._timer_task.cancel()
            self._timer_task = None

    def _fetch_after(self, after_ms: int = 0) -> None:
        this_round = self._round
        if after_ms > 0:
            self._timer_task = self._cluster.timer.call_later(
                after_ms, self._fetch_locked, this_round
            )
        else:
            self._cluster.agenda.defer(lambda: self._fetch(this_round))

    def _fetch_locked(self, this_round: int) -> None:
        with self._cluster.agenda:
            self._fetch(this_round)

    def _fetch(self, this_round: int) -> None:
        partition = self._partition
        if this_round != self._round or self.is_paused or partition.leader < 0:
            return
        log = partition.logs[self._broker_id]
        fetch_partition = FetchPartition(
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
            [fetch_partition],
            lambda results: self._on_answer(this_round, results),
            max_wait_ms=_MAX_WAIT_MS,
            replica=self._broker_id,
        ).start()

    def _on_answer(self, this_round: int, results: Sequence[ReadResult]) -> None:
        if this_round != self._round:
            return
        self._waiting = None
        result = results[0]
        log = self._partition.logs[self._broker_id]
        wait_ms = 0
        if result.diverging is not None:
            epoch, end = result.diverging
            before = log.end_offset, log.last_epoch
            log.truncate(min(end, log.end_of_epoch(epoch)[1]) if epoch >= 0 else 0)
            if before == (log.end_offset, log.last_epoch):  # do not repeat the same fetch at once
                wait_ms = _BACK_OFF_MS
        elif result.error is ErrorCode.offset_out_of_range:
            log.restart(self._partition.log.start_offset)
        elif result.error is not ErrorCode.none:
            wait_ms = _BACK_OFF_MS
        else:
            for batch in result.batches:
                log.append(batch)
            log.high_watermark = max(log.high_watermark, min(result.high_watermark, log.end_offset))
            if result.start_offset > log.end_offset:
                log.restart(result.start_offset)
            else:
                log.advance_start(result.start_offset)
            if self._broker_id in self._partition.read_at:
                reading = (self._partition.key, self._broker_id)
                self._cluster.purgatories.fetch.check_and_complete(reading)
        self._fetch_after(max(wait_ms, self.lag_ms))
