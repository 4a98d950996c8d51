"""Consumers of three client libraries under one roof: each polls in a thread of its own.

A member keeps what it was assigned and what it has read, so that a test can wait for either.
`session_ms` is counted by the brokers' clock; heartbeats go out every 100 ms of real time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.until import PATIENCE_S

HEARTBEAT_MS = 100
REBALANCE_MS = 120_000

Partition = tuple[str, int]


class Member:
    """One consumer; subclasses say how."""

    module = ""

    def __init__(
        self,
        servers: str,
        topics: list[str],
        *,
        group: str = "g",
        session_ms: int = 60_000,
        instance_id: str | None = None,
    ) -> None:
        self.servers = servers
        self.topics = topics
        self.group = group
        self.session_ms = session_ms
        self.instance_id = instance_id
        self.assigned: set[Partition] = set()
        self.read: list[tuple[str, int, int, bytes]] = []
        self.error: BaseException | None = None
        self._commands: list[tuple[Callable[[], object], threading.Event]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def commit(self) -> None:
        """Commit what was read, and wait for the answer."""
        self._tell(self._commit)

    def close(self) -> None:
        """Leave the group."""
        self._over.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"{self!r} does not end"
        if self.error is not None:  # which may be a CancelledError, and is no outcome of a test
            raise AssertionError(f"{self!r} has failed") from self.error

    def _tell(self, command: Callable[[], object]) -> None:
        done = threading.Event()
        self._commands.append((command, done))
        assert done.wait(PATIENCE_S), f"{self!r} does not answer"

    def _run(self) -> None:
        try:
            self._open()
            while not self._over.is_set():
                self._poll()
                while self._commands:
                    command, done = self._commands.pop()
                    command()
                    done.set()
            self._close()
        except BaseException as error:
            self.error = error

    def _open(self) -> None:
        raise NotImplementedError

    def _poll(self) -> None:
        raise NotImplementedError

    def _commit(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class Confluent(Member):
    """confluent-kafka, on librdkafka."""

    module = "confluent_kafka"

    def _open(self) -> None:
        from confluent_kafka import Consumer

        config: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "session.timeout.ms": self.session_ms,
            "max.poll.interval.ms": REBALANCE_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range,roundrobin",
            "log_level": 0,
        }
        if self.instance_id is not None:
            config["group.instance.id"] = self.instance_id
        self._consumer: Any = Consumer(config)
        self._consumer.subscribe(self.topics, on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: Any, partitions: Any) -> None:
        self.assigned = {(one.topic, one.partition) for one in partitions}

    def _on_revoke(self, _: Any, partitions: Any) -> None:
        self.assigned = set()

    def _poll(self) -> None:
        message = self._consumer.poll(0.02)
        if message is not None and message.error() is None:
            self.read.append(
                (message.topic(), message.partition(), message.offset(), message.value())
            )

    def _commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def _close(self) -> None:
        self._consumer.close()


class KafkaPython(Member):
    """kafka-python."""

    module = "kafka"

    def _open(self) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=self.group,
            group_instance_id=self.instance_id,
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_interval_ms=REBALANCE_MS,
            partition_assignment_strategy=[RangePartitionAssignor, RoundRobinPartitionAssignor],
        )
        self._consumer.subscribe(self.topics)

    def _poll(self) -> None:
        from kafka.errors import KafkaConnectionError

        # kafka-python 3.0 loses a rebalance that is under way when a poll ends: so, long polls.
        try:
            polled = self._consumer.poll(timeout_ms=500)
        except KafkaConnectionError:  # a broker has just stopped: poll again
            return
        for partition, records in polled.items():
            self.read += [
                (partition.topic, partition.partition, one.offset, one.value) for one in records
            ]
        self.assigned = {(one.topic, one.partition) for one in self._consumer.assignment()}

    def _commit(self) -> None:
        self._consumer.commit()

    def _close(self) -> None:
        self._consumer.close()


class AioKafka(Member):
    """aiokafka, on an event loop of its own."""

    module = "aiokafka"

    def _open(self) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        async def start() -> Any:
            consumer: Any = AIOKafkaConsumer(
                *self.topics,
                bootstrap_servers=self.servers,
                group_id=self.group,
                group_instance_id=self.instance_id,
                session_timeout_ms=self.session_ms,
                rebalance_timeout_ms=REBALANCE_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                # It joins once for each of its assignors, so it gets one.
                partition_assignment_strategy=[RangePartitionAssignor],
            )
            await consumer.start()
            return consumer

        self._runner = asyncio.Runner()
        self._consumer: Any = self._runner.run(start())

    def _poll(self) -> None:
        for partition, records in self._runner.run(self._consumer.getmany(timeout_ms=20)).items():
            self.read += [
                (partition.topic, partition.partition, one.offset, one.value) for one in records
            ]
        self.assigned = {(one.topic, one.partition) for one in self._consumer.assignment()}

    def _commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def _close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


CLIENTS = [
    pytest.param(kind, id=kind.module, marks=[]) for kind in (Confluent, KafkaPython, AioKafka)
]


def need(*kinds: type[Member]) -> None:
    """Skip the test unless these clients are installed."""
    for kind in kinds:
        pytest.importorskip(kind.module, reason=f"{kind.module} is not installed")
