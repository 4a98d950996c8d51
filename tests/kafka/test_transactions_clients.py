"""Real clients in transactions: committed is read, aborted is not, and the old one is fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster, wire
from sojourn.kafka.transactions import State
from tests.kafka.client_libraries import KAFKA_PYTHON_WARNS, quiet
from tests.kafka.transactional_clients import EACH, Fenced, Transactional
from tests.until import PATIENCE_S, until

pytestmark = pytest.mark.filterwarnings(KAFKA_PYTHON_WARNS)

each_client = pytest.mark.parametrize("kind", EACH, ids=lambda kind: kind.__name__)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> Iterator[Cluster]:
    wire.check_names = True
    with Cluster(brokers=3, clock=clock, config={"auto.create.topics.enable": False}) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=3)
        yield cluster
    wire.check_names = False


def read_librdkafka(servers: str, end: dict[int, int], level: str) -> dict[int, list[bytes]]:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        quiet(
            servers,
            **{
                "group.id": "none",
                "isolation.level": level,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            },
        )
    )
    consumer.assign([TopicPartition("t", index, 0) for index in end])
    values: dict[int, list[bytes]] = {index: [] for index in end}
    over: set[int] = set()
    try:
        while over != set(end):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "nothing came"
            error = message.error()
            if error is None:
                values[message.partition() or 0].append(message.value() or b"")
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                over.add(message.partition() or 0)
    finally:
        consumer.close()
    return values


def read_aiokafka(servers: str, end: dict[int, int], level: str) -> dict[int, list[bytes]]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> dict[int, list[bytes]]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers, isolation_level=level, fetch_max_wait_ms=10
        )
        await consumer.start()
        places = [TopicPartition("t", index) for index in end]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        values: dict[int, list[bytes]] = {index: [] for index in end}
        async with asyncio.timeout(PATIENCE_S):
            while any([await consumer.position(one) < end[one.partition] for one in places]):
                for one, messages in (await consumer.getmany(timeout_ms=10)).items():
                    values[one.partition] += [message.value for message in messages]
        await consumer.stop()
        return values

    return asyncio.run(read())


def read_kafka_python(servers: str, end: dict[int, int], level: str) -> dict[int, list[bytes]]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, isolation_level=level, fetch_max_wait_ms=10)
    places = [TopicPartition("t", index) for index in end]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    values: dict[int, list[bytes]] = {index: [] for index in end}
    while any(consumer.position(one) < end[one.partition] for one in places):
        for one, messages in consumer.poll(timeout_ms=10).items():
            values[one.partition] += [message.value for message in messages]
    consumer.close()
    return values


READERS = (read_librdkafka, read_kafka_python, read_aiokafka)


def state(cluster: Cluster) -> State:
    return cluster.transactions["x"].state


def stable_ends(cluster: Cluster) -> dict[int, int]:
    return {index: cluster.partition("t", index).log.last_stable_offset for index in (0, 1)}


@each_client
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    kind: type[Transactional],
) -> None:
    kind.or_skip()
    with Cluster(brokers=3) as cluster, closing(kind(cluster.bootstrap_servers, "x")) as producer:
        cluster.create_topic("t", partitions=2, replication_factor=3)
        for number, ends in enumerate((producer.commit, producer.abort, producer.commit)):
            producer.begin()
            for partition in (0, 1, 0):
                producer.send("t", b"%d" % number, partition)
            ends()
        assert state(cluster) is State.COMPLETE_COMMIT
        for read in READERS:
            values = read(cluster.bootstrap_servers, stable_ends(cluster), "read_committed")
            assert values == {0: [b"0"] * 2 + [b"2"] * 2, 1: [b"0", b"2"]}, read
            values = read(cluster.bootstrap_servers, stable_ends(cluster), "read_uncommitted")
            assert values[1] == [b"0", b"1", b"2"], read


@each_client
def test_a_second_producer_fences_the_first(kind: type[Transactional]) -> None:
    kind.or_skip()
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=3)
        servers = cluster.bootstrap_servers
        with closing(kind(servers, "x")) as first:
            first.begin()
            first.send("t", b"of the first")
            with closing(kind(servers, "x")) as second:  # which aborts what the first has begun
                with pytest.raises(Fenced):
                    first.commit()
                second.begin()
                second.send("t", b"of the second")
                second.commit()
        values = read_librdkafka(servers, stable_ends(cluster), "read_committed")
        assert values == {0: [b"of the second"], 1: []}


@each_client
def test_a_transaction_that_takes_too_long_is_aborted_at_its_deadline(
    cluster: Cluster, clock: ManualClock, kind: type[Transactional]
) -> None:
    kind.or_skip()
    with closing(kind(cluster.bootstrap_servers, "x", timeout_ms=30_000)) as producer:
        producer.begin()
        producer.send("t", b"a")
        clock.advance(29_999)
        assert state(cluster) is State.ONGOING
        clock.advance(1)
        assert state(cluster) is State.COMPLETE_ABORT
        with pytest.raises(Fenced):
            producer.commit()
    assert cluster.partition("t", 0).log.last_stable_offset == 2


@each_client
def test_offsets_of_a_transaction_count_from_its_commit(
    cluster: Cluster, kind: type[Transactional]
) -> None:
    kind.or_skip()
    store = cluster.groups.store
    with closing(kind(cluster.bootstrap_servers, "x")) as producer:
        for offset, ends in ((5, producer.commit), (9, producer.abort)):
            producer.begin()
            producer.send("t", b"a")
            producer.send_offset("t", offset, "g")
            assert store.is_pending("g", "t", 0)
            ends()
            until(lambda: not store.is_pending("g", "t", 0))
            assert store.offsets("g")["t", 0].offset == 5


def test_where_the_consumer_protocol_is_off_a_consumer_is_told_at_once() -> None:
    confluent = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    with Cluster(config={"group.coordinator.rebalance.protocols": "classic"}) as cluster:
        cluster.create_topic("t")
        settings: dict[str, Any] = {"group.id": "g", "group.protocol": "consumer"}
        consumer = confluent.Consumer(quiet(cluster.bootstrap_servers, **settings))
        consumer.subscribe(["t"])
        message = consumer.poll(PATIENCE_S)
        consumer.close()
    error = message.error()
    assert error.code() == confluent.KafkaError._FATAL
    assert "ConsumerGroupHeartbeat" in error.str()
