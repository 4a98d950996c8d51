"""DeleteRecords: move each log's start, and wait until the replicas on live brokers have done so.

Each partition is pending until

    A  this broker no longer leads it, or the topic is deleted: NOT_LEADER_OR_FOLLOWER or
       UNKNOWN_TOPIC_OR_PARTITION
    B  the low watermark, the lowest start of the logs on live brokers, reaches the offset
    C  the request expires: REQUEST_TIMED_OUT
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Reply
    from sojourn.kafka.partition import Partition


class DeletionResult:
    """One partition of a deletion, and its answer."""

    __slots__ = ("error", "index", "is_pending", "low_watermark", "offset", "partition")

    # Of a deletion that was not refused: the partition, and where its log starts now.
    partition: Partition
    offset: int

    def __init__(self, index: int) -> None:
        self.index = index
        self.low_watermark = -1
        self.error = ErrorCode.none
        self.is_pending = False

    def start(self, topic: str, offset: int, broker: Broker) -> None:
        """Move the leader's log start, or keep the error."""
        try:
            self.partition = broker.led_partition(topic, self.index)
            if self.partition.topic.is_internal:
                raise Refused(ErrorCode.invalid_topic_exception)
            self.offset = self.partition.delete_records(offset)
            self.check(broker)
        except Refused as refused:
            self.error = refused.code

    def check(self, broker: Broker) -> None:
        """Look whether the replicas have caught up, or the leader has changed."""
        partition = self.partition
        if partition.is_deleted or not partition.is_led_by(broker.id):  # case A
            self.is_pending = False
            self.low_watermark = -1
            self.error = (
                ErrorCode.unknown_topic_or_partition
                if partition.is_deleted
                else ErrorCode.not_leader_or_follower
            )
        else:
            self.low_watermark = partition.low_watermark()
            self.is_pending = self.low_watermark < self.offset  # else case B


class DelayedDeleteRecords(DelayedRequest):
    """A deletion that waits for the replicas' logs."""

    def __init__(
        self,
        timeout_ms: int,
        broker: Broker,
        results: list[DeletionResult],
        answer: Callable[[], None],
    ) -> None:
        super().__init__(timeout_ms, broker.cluster.agenda)
        self.broker = broker
        self.results = results
        self.answer = answer

    def try_complete(self) -> bool:
        for result in self.results:
            if result.is_pending:
                result.check(self.broker)
        return not any(result.is_pending for result in self.results)

    def on_complete(self) -> None:
        for result in self.results:
            if result.is_pending:
                result.error = ErrorCode.request_timed_out  # case C
        self.answer()


def delete_records(request: Any, reply: Reply, context: Context) -> None:
    """Delete the records before each offset."""
    broker = context.broker
    rows: list[tuple[str, list[DeletionResult]]] = []
    for topic in request.topics:
        row = []
        for entry in topic.partitions:
            result = DeletionResult(entry.partition_index)
            result.start(topic.name, entry.offset, broker)
            row.append(result)
        rows.append((topic.name, row))

    def answer() -> None:
        reply(
            {
                "topics": [
                    {
                        "name": name,
                        "partitions": [
                            {
                                "partition_index": result.index,
                                "low_watermark": result.low_watermark,
                                "error_code": result.error,
                            }
                            for result in row
                        ],
                    }
                    for name, row in rows
                ]
            }
        )

    pending = [result for _, row in rows for result in row if result.is_pending]
    if not pending:
        answer()
        return
    waiting = DelayedDeleteRecords(milliseconds(request.timeout), broker, pending, answer)
    keys = [result.partition.key for result in pending]
    broker.cluster.purgatories.delete_records.try_complete_else_watch(waiting, keys)
