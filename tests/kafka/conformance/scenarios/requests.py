"""The fields of the requests that scenarios make most."""

from __future__ import annotations

from typing import Any

from tests.kafka import requests
from tests.kafka.conformance.batches import batch
from tests.kafka.conformance.world import World
from tests.kafka.requests import list_offsets as list_offsets

LONG_MS = 10_000


def produce(
    topic: str,
    records: bytes | None = None,
    *partitions: int,
    timeout_ms: int = LONG_MS,
    **fields: Any,
) -> dict[str, Any]:
    data = batch(b"value") if records is None else records
    return requests.produce(topic, data, *partitions, timeout_ms=timeout_ms, **fields)


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
    topic_id: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    known_id = topic_id or world.topic_ids.get(topic)
    return requests.fetch(topic, offsets, topic_id=known_id, **fields)


def fetch_topic(
    world: World, topic: str, offsets: dict[int, int], *, topic_id: str | None = None
) -> dict[str, Any]:
    return requests.fetch_topic(topic, offsets, topic_id=topic_id or world.topic_ids.get(topic))


def create(*names: str, timeout_ms: int = LONG_MS, **fields: Any) -> dict[str, Any]:
    return requests.create_topics(*names, timeout_ms=timeout_ms, **fields)


def delete_records(topic: str, offset: int, timeout_ms: int = LONG_MS) -> dict[str, Any]:
    return requests.delete_records(topic, offset, timeout_ms)
