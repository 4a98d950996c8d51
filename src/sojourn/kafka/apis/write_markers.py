"""WriteTxnMarkers: write the end of a transaction on behalf of a client.

Kafka's coordinators send this request to leaders; ours write without it (markers.py). An
administrator sends it to end a transaction that hangs. It waits like a produce with acks=all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.kafka.apis.produce import PendingProduce, ProduceResult, answer_when_replicated
from sojourn.kafka.log.end_marker import EndMarker
from sojourn.kafka.refusal import Refused

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Reply


def write_txn_markers(request: Any, reply: Reply, context: Context) -> None:
    """Write each marker to each partition, and answer when all are replicated."""
    broker = context.broker
    rows: list[tuple[int, list[tuple[str, list[ProduceResult]]]]] = []
    pending: list[PendingProduce] = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            row = []
            for index in topic.partition_indexes:
                result = ProduceResult(index)
                try:
                    pending += _write(result, topic.name, marker, broker)
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

    timeout_ms = broker.settings.number("request.timeout.ms")
    answer_when_replicated(pending, answer, timeout_ms, broker.cluster)


def _write(
    result: ProduceResult, topic: str, request_marker: Any, broker: Broker
) -> list[PendingProduce]:
    """Write the marker to one partition, or Refused; return what to wait for."""
    partition = broker.led_partition(topic, result.index)
    leadership = partition.leadership
    assert leadership is not None  # this broker's
    marker = EndMarker(request_marker.transaction_result, request_marker.coordinator_epoch)
    offset = partition.append_marker(
        request_marker.producer_id, request_marker.producer_epoch, marker
    ).next_offset
    return (
        [PendingProduce(result, leadership, offset)] if leadership.high_watermark < offset else []
    )
