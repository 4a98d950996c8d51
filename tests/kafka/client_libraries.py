"""The clients of PyPI behind one face, so that each test runs with each of them."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from tests.until import PATIENCE_S

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

#: kafka-python reads its own schemas in a way that Python has given up on.
KAFKA_PYTHON_WARNS = "ignore:(read_text|open_text|contents|path) is deprecated:DeprecationWarning"


class ClientLibrary(NamedTuple):
    """What a test asks of a client."""

    name: str
    module: str
    produce: Callable[[str, str, Sequence[bytes], str], None]  # servers, topic, values, codec
    consume: Callable[[str, str, int], list[bytes]]  # servers, topic, how many

    def or_skip(self) -> ClientLibrary:
        try:
            importlib.import_module(self.module)
        except ImportError:
            pytest.skip(f"{self.name} is not installed")
        return self


# librdkafka.


def quiet(servers: str, **more: Any) -> dict[str, Any]:
    """librdkafka's settings, its log off."""
    return {"bootstrap.servers": servers, "log_level": 0, **more}


def _produce_librdkafka(servers: str, topic: str, values: Sequence[bytes], codec: str) -> None:
    from confluent_kafka import Producer

    failed: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(quiet(servers, acks="all", **{"compression.type": codec}))
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed


def _consume_librdkafka(servers: str, topic: str, count: int) -> list[bytes]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        quiet(servers, **{"group.id": "none", "enable.auto.commit": False, "check.crcs": True})
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got: list[bytes] = []
    try:
        while len(got) < count:
            messages = consumer.consume(count - len(got), PATIENCE_S)
            assert messages, f"{len(got)} of {count} came"
            for message in messages:
                assert message.error() is None
                got.append(message.value() or b"")
    finally:
        consumer.close()
    return got


# kafka-python.


def _produce_kafka_python(servers: str, topic: str, values: Sequence[bytes], codec: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=servers,
        acks="all",
        linger_ms=5,
        compression_type=None if codec == "none" else codec,
    )
    futures = [producer.send(topic, value, partition=0) for value in values]
    for future in futures:
        future.get(PATIENCE_S)
    producer.close()


def _consume_kafka_python(servers: str, topic: str, count: int) -> list[bytes]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id=None,
        check_crcs=True,
        consumer_timeout_ms=int(PATIENCE_S * 1000),
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    got: list[bytes] = []
    for message in consumer:
        got.append(message.value)
        if len(got) == count:
            break
    consumer.close()
    return got


# aiokafka.


def _produce_aiokafka(servers: str, topic: str, values: Sequence[bytes], codec: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            acks="all",
            linger_ms=5,
            compression_type=None if codec == "none" else codec,
        )
        await producer.start()
        try:
            sent = [await producer.send(topic, value, partition=0) for value in values]
            await asyncio.wait_for(asyncio.gather(*sent), PATIENCE_S)
        finally:
            await producer.stop()

    asyncio.run(produce())


def _consume_aiokafka(servers: str, topic: str, count: int) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def consume() -> list[bytes]:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, check_crcs=True)
        await consumer.start()
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return [
                (await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value for _ in range(count)
            ]
        finally:
            await consumer.stop()

    return asyncio.run(consume())


LIBRDKAFKA = ClientLibrary(
    "confluent-kafka", "confluent_kafka", _produce_librdkafka, _consume_librdkafka
)
KAFKA_PYTHON = ClientLibrary("kafka-python", "kafka", _produce_kafka_python, _consume_kafka_python)
AIOKAFKA = ClientLibrary("aiokafka", "aiokafka", _produce_aiokafka, _consume_aiokafka)

CLIENTS = (LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA)
EACH = [pytest.param(client, id=client.name) for client in CLIENTS]
