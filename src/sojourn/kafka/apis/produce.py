"""Produce: append, and with acks=all wait until the replicas in sync have it.

A produce with acks=-1 requires that in each partition the high watermark reaches the end of what
was appended. The key of the requirement is the leadership's (leadership.py):

    appended to t/0, offsets 5 and 6; this broker leads since epoch 3     requires=[("t/0@3", 7),
    appended to t/1, offset 11; this broker leads since epoch 0                     ("t/1@0", 12)]

It waits until all requirements hold, or expires. Then, for each partition:

    A  the high watermark has reached the offset under this leadership: no error
    B  the leadership has ended before that: NOT_LEADER_OR_FOLLOWER, or
       UNKNOWN_TOPIC_OR_PARTITION if the topic was deleted
    C  neither: it has expired, REQUEST_TIMED_OUT

With one replica, or for a retry of an appended batch, the high watermark may be there already.
The produce does not wait for such a partition.

While fewer replicas are in sync than `min.insync.replicas`, the high watermark does not move, and
the produce waits until enough are in sync again, or for case C. The answer has the offsets in any
case: the batch was appended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sojourn.kafka.answer_parts import current_leader, leader_endpoints
from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.internal_topics import ADMIN_CLIENT
from sojourn.kafka.log.batch import TRANSACTIONAL, single_batch
from sojourn.kafka.refusal import RecordError, Refused
from sojourn.kafka.transactions import Owner, code_for_writers
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.agenda import Agenda
    from sojourn.kafka.broker import Context, Reply
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.leadership import Leadership
    from sojourn.kafka.log.batch import Batch
    from sojourn.kafka.partition import Appended, Partition

ALL = -1

# Answers with these errors do not have the log's start.
_WITHOUT_START = (ErrorCode.message_too_large, ErrorCode.corrupt_message)


class ProduceResult:
    """One partition of a produce, and its answer."""

    __slots__ = (
        "appended",
        "error",
        "index",
        "log_start_offset",
        "message",
        "partition",
        "record_errors",
    )

    def __init__(self, index: int, partition: Partition | None = None) -> None:
        self.index = index
        self.partition = partition
        self.appended: Appended | None = None
        self.error = ErrorCode.none
        self.message = ""
        self.record_errors: Sequence[RecordError] = ()
        self.log_start_offset = -1


class PendingProduce(NamedTuple):
    """A partition that waits until the leadership's high watermark reaches the offset."""

    result: ProduceResult
    leadership: Leadership
    offset: int


class DelayedProduce(DelayedRequest):
    """A produce that waits for the replicas in sync."""

    def __init__(
        self,
        timeout_ms: int,
        agenda: Agenda,
        pending: list[PendingProduce],
        answer: Callable[[], None],
    ) -> None:
        super().__init__(timeout_ms, agenda)
        self.pending = pending
        self.answer = answer

    def on_complete(self) -> None:
        for result, leadership, offset in self.pending:
            if leadership.high_watermark >= offset:
                continue  # case A
            if leadership.end_error is not None:
                result.error = leadership.end_error  # case B
            else:
                result.error = ErrorCode.request_timed_out  # case C
        self.answer()


def answer_when_replicated(
    pending: list[PendingProduce], answer: Callable[[], None], timeout_ms: int, cluster: Cluster
) -> None:
    """Answer now if nothing is pending, else when all of it is replicated, or after the timeout."""
    if not pending:
        answer()
        return
    cluster.purgatories.produce.try_complete_else_watch(
        DelayedProduce(timeout_ms, cluster.agenda, pending, answer),
        requires=[(leadership.key, offset) for _, leadership, offset in pending],
    )


def _fields(result: ProduceResult) -> dict[str, Any]:
    appended = result.appended
    fields: dict[str, Any] = {
        "index": result.index,
        "error_code": result.error,
        "base_offset": appended.base_offset if appended else -1,
        "log_append_time": appended.append_ms if appended else -1,
        "log_start_offset": appended.log_start_offset if appended else result.log_start_offset,
        "record_errors": [
            {"batch_index": number, "batch_index_error_message": reason}
            for number, reason in result.record_errors
        ],
        "error_message": result.message or None,
    }
    if result.error is ErrorCode.not_leader_or_follower and result.partition is not None:
        fields["current_leader"] = current_leader(result.partition)
    return fields


def produce(request: Any, reply: Reply, context: Context) -> None:
    """Append to each partition, and answer now or when the replicas have it."""
    broker = context.broker
    rows: list[tuple[str, list[ProduceResult]]] = []
    pending: list[PendingProduce] = []
    for topic in request.topic_data:
        row = []
        for data in topic.partition_data:
            result = ProduceResult(
                data.index, broker.metadata_cache.partition(topic.name, data.index)
            )
            try:
                pending += _append(result, data.records, request, context)
            except Refused as refused:
                result.error, result.message = refused.code, refused.reason
                result.record_errors = refused.records
            row.append(result)
        rows.append((topic.name, row))
    results = [result for _, row in rows for result in row]

    def answer() -> None:
        if request.acks == 0:
            # Without an answer, closing the connection is the only way to report an error.
            if any(result.error is not ErrorCode.none for result in results):
                reply.hang_up()
            else:
                reply.send_nothing()
            return
        not_led = (
            result.partition
            for result in results
            if result.error is ErrorCode.not_leader_or_follower
        )
        reply(
            {
                "responses": [
                    {"name": name, "partition_responses": [_fields(result) for result in row]}
                    for name, row in rows
                ],
                "node_endpoints": leader_endpoints(not_led, context),
            }
        )

    answer_when_replicated(pending, answer, milliseconds(request.timeout), broker.cluster)


def _append(
    result: ProduceResult, data: bytes | None, request: Any, context: Context
) -> list[PendingProduce]:
    """Append, or Refused; return what to wait for."""
    acks = request.acks
    if acks not in (ALL, 0, 1):
        raise Refused(ErrorCode.invalid_required_acks, f"acks must be -1, 0 or 1, got {acks}")
    partition = result.partition
    if partition is None or partition.is_deleted:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    if partition.topic.is_internal and context.client_id != ADMIN_CLIENT:
        raise Refused(ErrorCode.invalid_topic_exception)
    batch = single_batch(data, context.api_version)
    is_transactional = batch.attributes & TRANSACTIONAL
    if is_transactional and request.transactional_id is None:
        raise Refused(
            ErrorCode.transactional_id_authorization_failed,
            "a transactional batch without a transactional id",
        )
    leadership = partition.leadership
    if leadership is None or not partition.is_led_by(context.broker.id):
        raise Refused(ErrorCode.not_leader_or_follower)
    if is_transactional:
        _check_transaction(partition, batch, request.transactional_id, context)
    try:
        result.appended = partition.append(batch, acks)
    except Refused as refused:
        if refused.code not in _WITHOUT_START:
            result.log_start_offset = partition.log.start_offset
        raise
    if acks != ALL:
        return []
    offset = result.appended.next_offset
    is_pending = leadership.high_watermark < offset
    return [PendingProduce(result, leadership, offset)] if is_pending else []


def _check_transaction(
    partition: Partition, batch: Batch, transactional_id: str, context: Context
) -> None:
    """Refuse a batch that begins a transaction here which its coordinator does not have."""
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
            code = ErrorCode.not_enough_replicas  # producers of all versions retry this
        raise Refused(code, refused.reason) from None


_ABORTABLE_SINCE = 11  # from this version on clients know TRANSACTION_ABORTABLE
