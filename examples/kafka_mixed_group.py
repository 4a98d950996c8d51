"""Three client libraries in one group: between them they read a topic once.

The cluster is in this process, on real sockets. The first to join leads the group: its client
assigns the partitions, and the others take what they are given.

    pip install sojourn[kafka] confluent-kafka kafka-python aiokafka
    python -m examples.kafka_mixed_group
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import warnings
from collections.abc import Callable

from sojourn.kafka import Cluster
from sojourn.kafka.groups import Group, State

TOPIC, PARTITIONS, RECORDS = "orders", 6, 600


class Member(threading.Thread):
    """A consumer in a thread of its own, until it is told to stop."""

    def __init__(self, name: str, consume: Callable[[Member], None], servers: str) -> None:
        super().__init__(name=name)
        self.consume = consume
        self.servers = servers
        self.stopped = threading.Event()
        self.read: list[tuple[int, bytes]] = []  # partition, value
        self.start()

    def run(self) -> None:
        self.consume(self)


def confluent(member: Member) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": member.servers,
            "group.id": "billing",
            "heartbeat.interval.ms": 100,  # so that it soon hears of a rebalance
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    while not member.stopped.is_set():
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            member.read.append((message.partition() or 0, message.value() or b""))
    consumer.close()


def kafka_python(member: Member) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=member.servers,
        group_id="billing",
        heartbeat_interval_ms=100,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    while not member.stopped.is_set():
        for partition, records in consumer.poll(timeout_ms=500).items():
            member.read += [(partition.partition, record.value) for record in records]
    consumer.close()


def aiokafka(member: Member) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    async def consume() -> None:
        async with AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=member.servers,
            group_id="billing",
            heartbeat_interval_ms=100,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[RangePartitionAssignor],
        ) as consumer:
            while not member.stopped.is_set():
                for partition, records in (await consumer.getmany(timeout_ms=50)).items():
                    member.read += [(partition.partition, record.value) for record in records]

    asyncio.run(consume())


def until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.01)


def produce(servers: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    for n in range(RECORDS):
        producer.produce(TOPIC, str(n).encode(), partition=n % PARTITIONS)
    producer.flush()


def main() -> None:
    logging.disable(logging.CRITICAL)  # clients log every rebalance as a warning
    warnings.simplefilter("ignore")  # and warn of their own imports
    with Cluster(brokers=3) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, replication_factor=3)
        members: list[Member] = []
        for name, consume in {
            "confluent-kafka": confluent,
            "kafka-python": kafka_python,
            "aiokafka": aiokafka,
        }.items():
            members.append(Member(name, consume, cluster.bootstrap_servers))
            until(lambda: "billing" in cluster.groups)
            group = cluster.groups["billing"]
            assert isinstance(group, Group)  # of the classic protocol
            until(lambda: len(group.members) == len(members))  # noqa: B023
            until(lambda: group.state is State.STABLE and not group.pending_syncs)  # noqa: B023
            print(f"{name} joined: generation {group.generation}, {len(group.members)} members")
        produce(cluster.bootstrap_servers)
        until(lambda: sum(len(member.read) for member in members) >= RECORDS)
        for member in members:
            partitions = sorted({partition for partition, _ in member.read})
            print(f"{member.name:16} read {len(member.read)} from partitions {partitions}")
        values = {value for member in members for _, value in member.read}
        print(f"{RECORDS} written, {len(values)} different ones read")
        for member in members:
            member.stopped.set()
        for member in members:
            member.join()
        print(f"everybody has left: {cluster.groups['billing'].state.value}")
        rebalance, heartbeat = cluster.purgatories.rebalance, cluster.purgatories.heartbeat
        print(f"waiting: {rebalance.watched} rebalances, {heartbeat.watched} heartbeats")


if __name__ == "__main__":
    main()
