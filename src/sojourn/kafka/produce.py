"""Produce: append, and with acks=all wait until those in sync have it.

A produce waits if acks is -1 and something was appended. Each partition that was appended to is
pending until

    A  this broker no longer leads it, or the topic is gone: NOT_LEADER_OR_FOLLOWER or
       UNKNOWN_TOPIC_OR_PARTITION
    B  every replica in sync has it
       B.1  and there are enough of them, so the high watermark has passed it: no error
       B.2  but those in sync have become too few: NOT_ENOUGH_REPLICAS_AFTER_APPEND
    C  the time is up: REQUEST_TIMED_OUT, and only for those still pending

and the answer is sent when none is pending. Offsets are given in any case: it was appended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka import records
from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply
    from sojourn.kafka.partition import Appended, Partition

ALL = -1


class Status:
    """How one partition of a produce is doing."""

    __slots__ = ("appended", "error", "index", "is_pending", "message", "partition")

    def __init__(self, index: int, partition: Partition | None) -> None:
        self.index = index
        self.partition = partition
        self.appended: Appended | None = None
        self.error = ErrorCode.none
        self.message = ""
        self.is_pending = False

    def fail(self, error: ErrorCode, message: str = "") -> None:
        self.error = error
        self.message = message
        self.is_pending = False


class DelayedProduce(DelayedRequest):
    """A produce that waits for the replicas in sync."""

    def __init__(
        self, timeout_ms: int, broker: Broker, statuses: list[Status], reply: _Answer
    ) -> None:
        super().__init__(timeout_ms, broker.cluster.agenda)
        self.broker = broker
        self.statuses = statuses
        self.reply = reply

    def try_complete(self) -> bool:
        pending = False
        for status in self.statuses:
            if status.is_pending:
                self._look(status)
                pending = pending or status.is_pending
        return not pending and self.force_complete()

    def _look(self, status: Status) -> None:
        partition, appended = status.partition, status.appended
        assert partition is not None
        assert appended is not None
        if partition.is_deleted:
            status.fail(ErrorCode.unknown_topic_or_partition)  # case A
        elif not partition.is_led_by(self.broker.id):
            status.fail(ErrorCode.not_leader_or_follower)  # case A
        elif len(partition.isr) >= partition.min_insync:
            if partition.high_watermark >= appended.next_offset:
                status.is_pending = False  # case B.1
        elif partition.in_sync_end() >= appended.next_offset:
            status.fail(ErrorCode.not_enough_replicas_after_append)  # case B.2

    def on_complete(self) -> None:
        if self.is_expired:
            for status in self.statuses:
                if status.is_pending:
                    status.fail(ErrorCode.request_timed_out)  # case C
        self.reply()


class _Answer:
    """Puts the answer together and sends it, once all partitions are decided."""

    def __init__(
        self, rows: list[tuple[str, list[Status]]], reply: Reply, acks: int, broker: Broker
    ) -> None:
        self._rows = rows
        self._reply = reply
        self._acks = acks
        self._broker = broker

    def __call__(self) -> None:
        if self._acks == 0:
            # Without an answer the only way to say that something is wrong is to hang up.
            if any(status.error is not ErrorCode.none for _, row in self._rows for status in row):
                self._reply.hang_up()
            else:
                self._reply.nothing()
            return
        self._reply(
            {
                "responses": [
                    {"name": name, "partition_responses": [_fields(status) for status in row]}
                    for name, row in self._rows
                ],
                "node_endpoints": self._endpoints(),
            }
        )

    def _endpoints(self) -> list[dict[str, Any]]:
        leaders = {
            status.partition.leader
            for _, row in self._rows
            for status in row
            if status.error is ErrorCode.not_leader_or_follower
            and status.partition is not None
            and status.partition.leader >= 0
        }
        return [self._broker.cluster.broker(leader).endpoint() for leader in sorted(leaders)]


def _fields(status: Status) -> dict[str, Any]:
    appended = status.appended
    fields: dict[str, Any] = {
        "index": status.index,
        "error_code": status.error,
        "base_offset": appended.base_offset if appended else -1,
        "log_append_time": appended.append_ms if appended else -1,
        "log_start_offset": appended.log_start_offset if appended else -1,
        "error_message": status.message or None,
    }
    if status.error is ErrorCode.not_leader_or_follower and status.partition is not None:
        fields["current_leader"] = {
            "leader_id": status.partition.leader,
            "leader_epoch": status.partition.leader_epoch,
        }
    return fields


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {"produce": produce}


def produce(request: Any, reply: Reply, context: Context) -> None:
    """Append to each partition, and answer now or when the replicas have it."""
    broker = context.broker
    controller = broker.cluster.controller
    acks = request.acks
    rows: list[tuple[str, list[Status]]] = []
    for topic in request.topic_data:
        row = []
        for data in topic.partition_data:
            status = Status(data.index, controller.partition(topic.name, data.index))
            try:
                _append(status, data.records, acks, broker)
            except Refused as refused:
                status.fail(refused.code, refused.reason)
            row.append(status)
        rows.append((topic.name, row))
    answer = _Answer(rows, reply, acks, broker)
    pending = [status for _, row in rows for status in row if status.is_pending]
    if not pending:
        answer()
        return
    waiting = DelayedProduce(milliseconds(request.timeout), broker, pending, answer)
    keys = tuple([status.partition.key for status in pending if status.partition is not None])
    broker.cluster.purgatories.produce.try_complete_else_watch(waiting, keys)


def _append(status: Status, data: bytes | None, acks: int, broker: Broker) -> None:
    if acks not in (ALL, 0, 1):
        raise Refused(ErrorCode.invalid_required_acks, f"acks must be -1, 0 or 1, got {acks}")
    partition = status.partition
    if partition is None or partition.is_deleted:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    batch = records.checked(data, partition.topic.settings.number("max.message.bytes"))
    try:
        if not partition.is_led_by(broker.id):
            raise Refused(ErrorCode.not_leader_or_follower)
        status.appended = partition.append(batch, acks)
    except Refused as refused:
        raise Refused(partition.turn_away(batch, refused.code), refused.reason) from None
    status.is_pending = acks == ALL
