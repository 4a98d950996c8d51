"""The fields of the requests that tests make most."""

from __future__ import annotations

from typing import Any

LONG_MS = 30_000


def produce(
    topic: str,
    records: bytes,
    *partitions: int,
    acks: int = -1,
    timeout_ms: int = LONG_MS,
    **fields: Any,
) -> dict[str, Any]:
    rows = [{"index": index, "records": records} for index in partitions or (0,)]
    return {
        "acks": acks,
        "timeout": timeout_ms,
        "topic_data": [{"name": topic, "partition_data": rows}],
        **fields,
    }


def fetch(
    topic: str,
    offsets: dict[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**31 - 1,
    partition_max_bytes: int = 2**20,
    leader_epoch: int = -1,
    topic_id: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    row = fetch_topic(topic, offsets, partition_max_bytes, leader_epoch, topic_id)
    return {
        "replica_id": -1,
        "max_wait": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "topics": [row],
        **fields,
    }


def fetch_topic(
    topic: str,
    offsets: dict[int, int],
    partition_max_bytes: int = 2**20,
    leader_epoch: int = -1,
    topic_id: str | None = None,
) -> dict[str, Any]:
    return {
        "topic": topic,
        "topic_id": topic_id,
        "partitions": [
            {
                "partition": index,
                "fetch_offset": offset,
                "partition_max_bytes": partition_max_bytes,
                "current_leader_epoch": leader_epoch,
                "log_start_offset": -1,
            }
            for index, offset in offsets.items()
        ],
    }


def list_offsets(
    topic: str, timestamp: int, *partitions: int, leader_epoch: int = -1, **fields: Any
) -> dict[str, Any]:
    rows = [
        {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": leader_epoch}
        for index in partitions or (0,)
    ]
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": rows}], **fields}


def create_topics(
    *names: str,
    partitions: int = 1,
    replication_factor: int = 1,
    timeout_ms: int = LONG_MS,
    config: dict[str, str | None] | None = None,
    assignments: dict[int, Any] | None = None,
    validate_only: bool = False,
) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": replication_factor,
                "assignments": [
                    {"partition_index": index, "broker_ids": brokers}
                    for index, brokers in (assignments or {}).items()
                ],
                "configs": [{"name": key, "value": one} for key, one in (config or {}).items()],
            }
            for name in names
        ],
        "timeout": timeout_ms,
        "validate_only": validate_only,
    }


def delete_records(topic: str, offset: int, timeout_ms: int = LONG_MS) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "offset": offset}]
    return {"topics": [{"name": topic, "partitions": partitions}], "timeout": timeout_ms}
