"""Reading one partition for a fetch: what was asked, what may be wrong with it, what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.log.batch import Batch
    from sojourn.kafka.log.isolation import AbortedTransaction
    from sojourn.kafka.log.log import Log
    from sojourn.kafka.partition import Partition

#: The replica id of a consumer.
CONSUMER = -1
NO_LIMIT = 2**31 - 1


class FetchPartition(NamedTuple):
    """What is asked of one partition."""

    partition: Partition | None
    number: int  # of the partition, as the request has it
    offset: int
    max_bytes: int
    leader_epoch: int = -1  # as the client has it
    last_epoch: int = -1  # of the last batch that the client has fetched
    start_offset: int = -1  # of the follower's log
    unknown_error: ErrorCode = ErrorCode.unknown_topic_or_partition  # if there is no partition


class ReadResult(NamedTuple):
    """What reading one partition returned."""

    fetch_partition: FetchPartition
    error: ErrorCode
    batches: Sequence[Batch] = ()
    high_watermark: int = -1
    start_offset: int = -1
    diverging: tuple[int, int] | None = None  # the last epoch both logs have, and its end
    max_bytes: int = NO_LIMIT  # where the last batch is cut off
    last_stable_offset: int = -1
    #: Aborted transactions with records in the batches; None if they were not asked for.
    aborted: Sequence[AbortedTransaction] | None = ()

    @property
    def size(self) -> int:
        return min(self.max_bytes, sum([len(batch.data) for batch in self.batches]))

    def data(self) -> bytes:
        """The records, as they are sent."""
        parts: list[bytes | memoryview] = [batch.data for batch in self.batches]
        excess = sum(map(len, parts)) - self.max_bytes
        if excess > 0:
            parts[-1] = memoryview(parts[-1])[:-excess]
        return b"".join(parts)


class Reader:
    """Reads partitions of one broker, for a consumer or a follower.

    `only_leader`: the broker must lead a partition; otherwise its own log is read, leader or not.
    `committed`: only up to the last stable offset.
    """

    __slots__ = ("_broker", "_committed", "_only_leader", "_replica", "is_consumer")

    def __init__(self, broker: Broker, replica: int, only_leader: bool, committed: bool) -> None:
        self._broker = broker
        self._replica = replica
        self._only_leader = only_leader
        self._committed = committed
        self.is_consumer = replica == CONSUMER

    def log(self, partition: Partition) -> Log:
        """The log to read: the leader's, or this broker's own."""
        return partition.log if self._only_leader else partition.logs[self._broker.id]

    def upto(self, log: Log) -> int:
        """The offset up to which this reader may read."""
        if not self.is_consumer:
            return log.end_offset
        return log.last_stable_offset if self._committed else log.high_watermark

    def problem(self, fetch_partition: FetchPartition) -> ReadResult | None:
        """The answer if this cannot be read: an error, or a log that diverges; else None."""
        partition = fetch_partition.partition
        if partition is None:
            return ReadResult(fetch_partition, fetch_partition.unknown_error)
        error = self._error(fetch_partition, partition)
        if error is not ErrorCode.none:
            return ReadResult(fetch_partition, error, aborted=None)
        log = self.log(partition)
        is_inside = log.start_offset <= fetch_partition.offset <= log.end_offset
        if fetch_partition.last_epoch >= 0 and (is_inside or not self.is_consumer):
            epoch, end = log.end_of_epoch(fetch_partition.last_epoch)
            if epoch < fetch_partition.last_epoch or end < fetch_partition.offset:
                if epoch >= 0 or not self.is_consumer:
                    return _diverging(fetch_partition, log, (epoch, end))
                is_inside = False
        if not is_inside:
            return ReadResult(fetch_partition, ErrorCode.offset_out_of_range, aborted=None)
        return None

    def _error(self, fetch_partition: FetchPartition, partition: Partition) -> ErrorCode:
        if partition.is_deleted:
            return ErrorCode.unknown_topic_or_partition
        if fetch_partition.leader_epoch != partition.leader_epoch:
            try:
                partition.check_epoch(fetch_partition.leader_epoch)
            except Refused as refused:
                return refused.code
        if self._only_leader:
            if partition.leader != self._broker.id:
                return ErrorCode.not_leader_or_follower
        elif self._broker.id not in partition.logs:
            return ErrorCode.not_leader_or_follower
        return ErrorCode.none

    def read(
        self, fetch_partition: FetchPartition, max_bytes: int, at_least_one: bool
    ) -> ReadResult:
        """Read up to `max_bytes`; with `at_least_one` the first batch whatever its size."""
        problem = self.problem(fetch_partition)
        if problem is not None:
            return problem
        partition = fetch_partition.partition
        assert partition is not None
        log = self.log(partition)
        limit = min(max_bytes, fetch_partition.max_bytes)
        if self.is_consumer:
            return self._read_for_consumer(fetch_partition, log, limit, at_least_one)
        follower = partition.followers.get(self._replica)
        if follower is not None:
            follower.sent_high_watermark = log.high_watermark
        return ReadResult(
            fetch_partition,
            ErrorCode.none,
            log.read(fetch_partition.offset, log.end_offset, limit, at_least_one),
            log.high_watermark,
            log.start_offset,
            aborted=() if self._committed else None,
        )

    def _read_for_consumer(
        self, fetch_partition: FetchPartition, log: Log, limit: int, at_least_one: bool
    ) -> ReadResult:
        aborted: Sequence[AbortedTransaction] | None = () if self._committed else None
        batches = log.read(
            fetch_partition.offset, self.upto(log), limit, at_least_one, partial=True
        )
        if batches:
            limit = max(limit, len(batches[0].data))
            if self._committed:
                aborted = list(
                    log.isolation.aborted(fetch_partition.offset, batches[-1].next_offset)
                )
        return ReadResult(
            fetch_partition,
            ErrorCode.none,
            batches,
            log.high_watermark,
            log.start_offset,
            None,
            limit,
            log.last_stable_offset,
            aborted,
        )


def _diverging(fetch_partition: FetchPartition, log: Log, epoch_end: tuple[int, int]) -> ReadResult:
    """The answer to a client whose log diverges: the last epoch that both have, and its end."""
    return ReadResult(
        fetch_partition,
        ErrorCode.none,
        (),
        log.high_watermark,
        log.start_offset,
        epoch_end,
        last_stable_offset=log.last_stable_offset,
        aborted=None,
    )
