"""Transactional producers of the clients of PyPI behind one face, so that each test has each."""

from __future__ import annotations

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.kafka.client_libraries import quiet
from tests.until import PATIENCE_S


class Fenced(Exception):
    """Another producer has taken this one's place, or its transaction took too long."""


class Transactional(ABC):
    """One producer; what it cannot do for being fenced raises Fenced."""

    module = ""

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.servers = servers
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms

    @classmethod
    def or_skip(cls) -> None:
        try:
            importlib.import_module(cls.module)
        except ImportError:
            pytest.skip(f"{cls.module} is not installed")

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Write, and wait until it is written."""

    @abstractmethod
    def send_offset(self, topic: str, offset: int, group: str) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Librdkafka(Transactional):
    module = "confluent_kafka"

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        super().__init__(servers, transactional_id, timeout_ms)
        from confluent_kafka import Producer

        self._producer = Producer(
            quiet(
                servers,
                **{
                    "transactional.id": transactional_id,
                    "transaction.timeout.ms": timeout_ms,
                    "message.timeout.ms": min(timeout_ms, 30_000),
                },
            )
        )
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._call(self._producer.produce, topic, value, partition=partition)
        assert self._producer.flush(PATIENCE_S) == 0

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(quiet(self.servers, **{"group.id": group}))
        try:
            self._call(
                self._producer.send_offsets_to_transaction,
                [TopicPartition(topic, 0, offset)],
                consumer.consumer_group_metadata(),
                PATIENCE_S,
            )
        finally:
            consumer.close()

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, PATIENCE_S)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, PATIENCE_S)

    def close(self) -> None:
        self._producer.purge()

    def _call(self, method: Any, *args: Any, **kwargs: Any) -> None:
        from confluent_kafka import KafkaError, KafkaException

        try:
            method(*args, **kwargs)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED):
                raise Fenced from error
            raise


class KafkaPython(Transactional):
    module = "kafka"

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        super().__init__(servers, transactional_id, timeout_ms)
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._call(lambda: self._producer.send(topic, value, partition=partition).get(PATIENCE_S))

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._call(self._producer.send_offsets_to_transaction, offsets, group)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=0)

    def _call(self, method: Any, *args: Any) -> None:
        from kafka.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError

        try:
            method(*args)
        except KafkaError as error:
            fenced = (ProducerFencedError, InvalidProducerEpochError)
            if isinstance(error, fenced) or isinstance(error.__cause__, fenced):
                raise Fenced from error
            raise


class Aiokafka(Transactional):
    module = "aiokafka"

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        super().__init__(servers, transactional_id, timeout_ms)
        self._loop = asyncio.new_event_loop()
        try:
            self._run(self._start())
        except BaseException:
            self._loop.close()
            raise

    async def _start(self) -> None:
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            bootstrap_servers=self.servers,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
        )
        try:
            await self._producer.start()
        except BaseException:
            await self._producer.stop()
            raise

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        from aiokafka import TopicPartition

        offsets = {TopicPartition(topic, 0): offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        from aiokafka.errors import ProducerFenced

        try:
            self._loop.run_until_complete(asyncio.wait_for(coroutine, PATIENCE_S))
        except ProducerFenced as error:
            raise Fenced from error


EACH = (Librdkafka, KafkaPython, Aiokafka)
