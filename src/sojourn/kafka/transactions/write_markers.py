"""WriteTxnMarkers: write the end of a transaction, at the word of somebody else than us.

Kafka's coordinators send this to the leaders; ours write by themselves (markers.py). What is left
is the administrator, who ends a transaction that hangs. It waits like a produce with acks=all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.apis.produce import DelayedProduce, Pending, Status
from sojourn.kafka.log.end_marker import EndMarker
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {"write_txn_markers": write_txn_markers}


def write_txn_markers(request: Any, reply: Reply, context: Context) -> None:
    """Write each end to each partition, and answer when all are replicated."""
    broker = context.broker
    cluster = broker.cluster
    rows: list[tuple[int, list[tuple[str, list[Status]]]]] = []
    pending: list[Pending] = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            row = []
            for index in topic.partition_indexes:
                status = Status(index, broker.metadata_cache.partition(topic.name, index))
                try:
                    pending += _write(status, marker, broker)
                except Refused as refused:
                    status.error = refused.code
                row.append(status)
            topics.append((topic.name, row))
        rows.append((marker.producer_id, topics))

    def answer() -> None:
        reply(
            {
                "markers": [
                    {
                        "producer_id": producer_id,
                        "topics": [
                            {
                                "name": name,
                                "partitions": [
                                    {"partition_index": one.index, "error_code": one.error}
                                    for one in row
                                ],
                            }
                            for name, row in topics
                        ],
                    }
                    for producer_id, topics in rows
                ]
            }
        )

    if not pending:
        answer()
        return
    timeout_ms = broker.settings.number("request.timeout.ms")
    cluster.purgatories.produce.try_complete_else_watch(
        DelayedProduce(timeout_ms, cluster.agenda, pending, answer),
        requires=[(leadership.key, offset) for _, leadership, offset in pending],
    )


def _write(status: Status, asked: Any, broker: Broker) -> list[Pending]:
    """Write the end to one partition, or Refused; return what there is to wait for."""
    partition = status.partition
    if partition is None:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    leadership = partition.leadership
    if leadership is None or not partition.is_led_by(broker.id):
        raise Refused(ErrorCode.not_leader_or_follower)
    marker = EndMarker(asked.transaction_result, asked.coordinator_epoch)
    offset = partition.append_marker(asked.producer_id, asked.producer_epoch, marker).next_offset
    return [Pending(status, leadership, offset)] if leadership.high_watermark < offset else []
