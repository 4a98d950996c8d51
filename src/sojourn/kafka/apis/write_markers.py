"""WriteTxnMarkers: write the end of a transaction on behalf of a client.

Kafka's coordinators send this request to leaders; ours write without it (markers.py). An
administrator sends it to end a transaction that hangs. It waits like a produce with acks=all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.apis.produce import DelayedProduce, PendingProduce, ProduceResult
from sojourn.kafka.log.end_marker import EndMarker
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {"write_txn_markers": write_txn_markers}


def write_txn_markers(request: Any, reply: Reply, context: Context) -> None:
    """Write each marker to each partition, and answer when all are replicated."""
    broker = context.broker
    cluster = broker.cluster
    rows: list[tuple[int, list[tuple[str, list[ProduceResult]]]]] = []
    pending: list[PendingProduce] = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            row = []
            for index in topic.partition_indexes:
                result = ProduceResult(index, broker.metadata_cache.partition(topic.name, index))
                try:
                    pending += _write(result, marker, broker)
                except Refused as refused:
                    result.error = refused.code
                row.append(result)
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


def _write(result: ProduceResult, asked: Any, broker: Broker) -> list[PendingProduce]:
    """Write the marker to one partition, or Refused; return what to wait for."""
    partition = result.partition
    if partition is None:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    leadership = partition.leadership
    if leadership is None or not partition.is_led_by(broker.id):
        raise Refused(ErrorCode.not_leader_or_follower)
    marker = EndMarker(asked.transaction_result, asked.coordinator_epoch)
    offset = partition.append_marker(asked.producer_id, asked.producer_epoch, marker).next_offset
    return (
        [PendingProduce(result, leadership, offset)] if leadership.high_watermark < offset else []
    )
