"""The fields of the requests that scenarios make most."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.batches import batch
from tests.kafka.conformance.world import World

LONG_MS = 10_000


def produce(
    topic: str,
    records: bytes | None = None,
    *partitions: int,
    acks: int = -1,
    timeout_ms: int = LONG_MS,
    **fields: Any,
) -> dict[str, Any]:
    data = batch(b"value") if records is None else records
    rows = [{"index": index, "records": data} for index in partitions or (0,)]
    return {
        "acks": acks,
        "timeout": timeout_ms,
        "topic_data": [{"name": topic, "partition_data": rows}],
        **fields,
    }


def produced(world: World, topic: str, *records: bytes, partition: int = 0, at: int = 1) -> None:
    """The records are in the topic; no step."""
    for one in records:
        fields = produce(topic, one, partition)
        world.setup(
            lambda answer: answer["responses"][0]["partition_responses"][0]["error_code"] == 0,
            "produce",
            9,
            at=at,
            **fields,
        )


def fetch(
    world: World,
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
    return {
        "replica_id": -1,
        "max_wait": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "topics": [
            fetch_topic(world, topic, offsets, partition_max_bytes, leader_epoch, topic_id=topic_id)
        ],
        **fields,
    }


def fetch_topic(
    world: World,
    topic: str,
    offsets: dict[int, int],
    partition_max_bytes: int = 2**20,
    leader_epoch: int = -1,
    *,
    topic_id: str | None = None,
) -> dict[str, Any]:
    return {
        "topic": topic,
        "topic_id": topic_id or world.topic_ids.get(topic),
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


def create(
    *names: str,
    partitions: int = 1,
    replication_factor: int = 1,
    timeout_ms: int = LONG_MS,
    config: dict[str, str | None] | None = None,
    assignment: dict[int, list[int]] | None = None,
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
                    for index, brokers in (assignment or {}).items()
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
