"""Produce: append, and with acks=all wait until those in sync have it.

A produce with acks=-1 requires of each partition that the high watermark reaches the end of what
was appended. The key of such a requirement is that of the leadership (leadership.py):

    appended to t/0, offsets 5 and 6; we have led it since epoch 3     requires=[("t/0@3", 7),
    appended to t/1, offset 11; we have led it since epoch 0                     ("t/1@0", 12)]

It waits until all requirements hold or its time is up. Then, for each partition:

    A  the high watermark has reached the offset under this leadership: no error
    B  the leadership has ended before that: NOT_LEADER_OR_FOLLOWER, or
       UNKNOWN_TOPIC_OR_PARTITION if the topic was deleted
    C  neither: the time is up, REQUEST_TIMED_OUT

With one replica, or for a retry of what was appended before, the high watermark may be there
already. Such a partition is not waited for:

    D  no error; or NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few are in sync now

While fewer are in sync than `min.insync.replicas`, the high watermark stands still, and so the
produce waits: until enough are in sync again, or for case C. Offsets are given in any case: it
was appended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sojourn.kafka.apis.leaders import current_leader, leader_endpoints
from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.log.batch import TRANSACTIONAL, single_batch
from sojourn.kafka.refusal import RecordError, Refused
from sojourn.kafka.transactions import Owner, code_for_writers
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.agenda import Agenda
    from sojourn.kafka.broker import Broker, Context, Handler, Reply
    from sojourn.kafka.leadership import Leadership
    from sojourn.kafka.log.batch import Batch
    from sojourn.kafka.partition import Appended, Partition

ALL = -1

# What is refused for these reasons is answered without the log's start.
_WITHOUT_START = (ErrorCode.message_too_large, ErrorCode.corrupt_message)


class Status:
    """How one partition of a produce is doing."""

    __slots__ = (
        "appended",
        "error",
        "index",
        "log_start_offset",
        "message",
        "partition",
        "record_errors",
    )

    def __init__(self, index: int, partition: Partition | None) -> None:
        self.index = index
        self.partition = partition
        self.appended: Appended | None = None
        self.error = ErrorCode.none
        self.message = ""
        self.record_errors: Sequence[RecordError] = ()
        self.log_start_offset = -1


class Pending(NamedTuple):
    """A partition to wait for, until the leadership's high watermark has reached the offset."""

    status: Status
    leadership: Leadership
    offset: int


class DelayedProduce(DelayedRequest):
    """A produce that waits for the replicas in sync."""

    def __init__(
        self,
        timeout_ms: int,
        agenda: Agenda,
        pending: list[Pending],
        answer: Callable[[], None],
    ) -> None:
        super().__init__(timeout_ms, agenda)
        self.pending = pending
        self.answer = answer

    def on_complete(self) -> None:
        for status, leadership, offset in self.pending:
            if leadership.high_watermark >= offset:
                continue  # case A
            if leadership.end_error is not None:
                status.error = leadership.end_error  # case B
            else:
                status.error = ErrorCode.request_timed_out  # case C
        self.answer()


class _Answer:
    """Puts the answer together and sends it, once all partitions are decided."""

    def __init__(
        self, rows: list[tuple[str, list[Status]]], reply: Reply, acks: int, context: Context
    ) -> None:
        self._rows = rows
        self._reply = reply
        self._acks = acks
        self._context = context

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
        return leader_endpoints(
            (
                result.partition
                for _, row in self._rows
                for result in row
                if result.error is ErrorCode.not_leader_or_follower
            ),
            self._context,
        )


def _fields(status: Status) -> dict[str, Any]:
    appended = status.appended
    fields: dict[str, Any] = {
        "index": status.index,
        "error_code": status.error,
        "base_offset": appended.base_offset if appended else -1,
        "log_append_time": appended.append_ms if appended else -1,
        "log_start_offset": appended.log_start_offset if appended else status.log_start_offset,
        "record_errors": [
            {"batch_index": number, "batch_index_error_message": reason}
            for number, reason in status.record_errors
        ],
        "error_message": status.message or None,
    }
    if status.error is ErrorCode.not_leader_or_follower and status.partition is not None:
        fields["current_leader"] = current_leader(status.partition)
    return fields


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {"produce": produce}


def produce(request: Any, reply: Reply, context: Context) -> None:
    """Append to each partition, and answer now or when the replicas have it."""
    broker = context.broker
    cluster = broker.cluster
    acks = request.acks
    rows: list[tuple[str, list[Status]]] = []
    pending: list[Pending] = []
    for topic in request.topic_data:
        row = []
        for data in topic.partition_data:
            status = Status(data.index, broker.metadata_cache.partition(topic.name, data.index))
            try:
                pending += _append(status, data.records, request, context)
            except Refused as refused:
                status.error, status.message = refused.code, refused.reason
                status.record_errors = refused.records
            row.append(status)
        rows.append((topic.name, row))
    answer = _Answer(rows, reply, acks, context)
    if not pending:
        answer()
        return
    cluster.purgatories.produce.try_complete_else_watch(
        DelayedProduce(milliseconds(request.timeout), cluster.agenda, pending, answer),
        requires=[(leadership.key, offset) for _, leadership, offset in pending],
    )


def _append(status: Status, data: bytes | None, request: Any, context: Context) -> list[Pending]:
    """Append, or Refused; return what there is to wait for."""
    acks = request.acks
    if acks not in (ALL, 0, 1):
        raise Refused(ErrorCode.invalid_required_acks, f"acks must be -1, 0 or 1, got {acks}")
    partition = status.partition
    if partition is None or partition.is_deleted:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    batch = single_batch(data, context.api_version)
    is_transactional = batch.attributes & TRANSACTIONAL
    if is_transactional and request.transactional_id is None:
        raise Refused(
            ErrorCode.transactional_id_authorization_failed,
            "a transactional batch, and no transactional id",
        )
    leadership = partition.leadership
    if leadership is None or not partition.is_led_by(context.broker.id):
        raise Refused(ErrorCode.not_leader_or_follower)
    if is_transactional:
        _check_transaction(partition, batch, request.transactional_id, context)
    try:
        status.appended = partition.append(batch, acks)
    except Refused as refused:
        if refused.code not in _WITHOUT_START:
            status.log_start_offset = partition.log.start_offset
        raise
    if acks != ALL:
        return []
    offset = status.appended.next_offset
    if leadership.high_watermark < offset:
        return [Pending(status, leadership, offset)]
    if not partition.has_enough_in_sync:
        status.error = ErrorCode.not_enough_replicas_after_append  # case D
    return []


def _check_transaction(
    partition: Partition, batch: Batch, transactional_id: str, context: Context
) -> None:
    """Refuse a batch that begins a transaction here which its coordinator does not know of."""
    producers, owner = partition.log.producers, Owner(batch.producer_id, batch.producer_epoch)
    if producers.is_in_transaction(*owner):
        return
    if not context.broker.settings.flag("transaction.partition.verification.enable"):
        return
    producers.begin_verification(batch)
    place = (partition.topic.name, partition.index)
    try:
        context.broker.cluster.transactions.check_partition(transactional_id, owner, place)
    except Refused as refused:
        code = code_for_writers(refused.code, context.api_version >= _ABORTABLE_SINCE)
        if code is ErrorCode.concurrent_transactions:
            code = ErrorCode.not_enough_replicas  # what producers of all versions try again after
        raise Refused(code, refused.reason) from None


_ABORTABLE_SINCE = 11  # from this version on clients know that aborting is the way out
