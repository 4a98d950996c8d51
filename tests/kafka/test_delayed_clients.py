"""The delayed requests again, as a real client meets them; the brokers' clock moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")
pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from sojourn import ManualClock
from sojourn.kafka import Cluster
from tests.kafka.client_libraries import quiet
from tests.until import PATIENCE_S


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, clock=ManualClock()) as cluster:
        cluster.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
        yield cluster


@pytest.fixture(autouse=True)
def _nothing_is_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert [p.name for p in cluster.purgatories if p.name != "fetch" and p.watched] == []


def followers(cluster: Cluster) -> list[int]:
    return [broker_id for broker_id in (1, 2, 3) if broker_id != cluster.leader("t", 0)]


def produced(cluster: Cluster, wait_until: Callable[[], object], then: Callable[[], object]) -> Any:
    """Produce one record with acks=all, do `then` when it waits; what it was told."""
    reports: list[Any] = []
    producer = Producer(
        quiet(
            cluster.bootstrap_servers,
            **{"acks": "all", "retries": 0, "request.timeout.ms": 30_000, "linger.ms": 0},
        )
    )
    producer.produce("t", b"x", on_delivery=lambda error, _: reports.append(error))
    cluster.wait_until(wait_until, PATIENCE_S)
    then()
    producer.flush(PATIENCE_S)
    return reports[0] if reports[0] is None else reports[0].code()


def test_a_producer_waits_for_the_replicas(cluster: Cluster) -> None:
    for broker_id in followers(cluster):
        cluster.pause_follower(broker_id, "t", 0)

    def resume() -> None:
        for broker_id in followers(cluster):
            cluster.resume(broker_id, "t", 0)

    assert produced(cluster, lambda: cluster.purgatories.produce.watched == 1, resume) is None


def test_a_producer_hears_of_thirty_seconds_in_no_time(cluster: Cluster) -> None:
    cluster.pause_follower(followers(cluster)[0], "t", 0)
    code = produced(
        cluster,
        lambda: cluster.purgatories.produce.watched == 1,
        lambda: cluster.clock.advance(30_000),
    )
    assert code == KafkaError.REQUEST_TIMED_OUT


def test_a_producer_hears_that_too_few_are_in_sync(cluster: Cluster) -> None:
    for broker_id in followers(cluster):
        cluster.stop_broker(broker_id)
    code = produced(cluster, lambda: True, lambda: None)
    assert code == KafkaError.NOT_ENOUGH_REPLICAS


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[Consumer]:
    """Wants a megabyte, and waits three seconds for it."""
    consumer = Consumer(
        quiet(
            cluster.bootstrap_servers,
            **{
                "group.id": "none",
                "enable.auto.commit": False,
                "fetch.min.bytes": 1_000_000,
                "fetch.wait.max.ms": 3_000,
            },
        )
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    yield consumer
    consumer.close()


def write(cluster: Cluster, size: int) -> None:
    producer = Producer(quiet(cluster.bootstrap_servers, **{"acks": "all", "linger.ms": 0}))
    producer.produce("t", bytes(size))
    assert producer.flush(PATIENCE_S) == 0


def test_a_consumer_waits_for_bytes(cluster: Cluster, consumer: Consumer) -> None:
    fetch = cluster.purgatories.fetch
    assert consumer.poll(0.001) is None
    cluster.wait_until(lambda: fetch.watched == 3, PATIENCE_S)  # with the two followers
    write(cluster, 100)
    assert consumer.poll(0.02) is None
    cluster.wait_until(lambda: fetch.watched == 3, PATIENCE_S)
    write(cluster, 999_900)
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert len(message.value() or b"") == 100


def test_a_consumer_gets_what_there_is_when_its_time_is_up(
    cluster: Cluster, consumer: Consumer
) -> None:
    write(cluster, 100)
    assert consumer.poll(0.001) is None
    cluster.wait_until(lambda: cluster.purgatories.fetch.watched == 3, PATIENCE_S)
    cluster.clock.advance(3_000)
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert len(message.value() or b"") == 100


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient(quiet(cluster.bootstrap_servers))


def outcome(future: Any) -> Any:
    """The result, or the code of the error."""
    try:
        return future.result(PATIENCE_S)
    except KafkaException as error:
        return error.args[0].code()


def test_an_admin_waits_for_records_to_be_deleted(cluster: Cluster, admin: AdminClient) -> None:
    write(cluster, 1)
    behind = followers(cluster)[0]
    cluster.pause_follower(behind, "t", 0)
    (future,) = admin.delete_records([TopicPartition("t", 0, 1)]).values()
    cluster.wait_until(lambda: cluster.purgatories.delete_records.watched == 1, PATIENCE_S)
    cluster.resume(behind, "t", 0)
    assert outcome(future).low_watermark == 1


def test_an_admin_hears_that_records_were_not_deleted_in_time(
    cluster: Cluster, admin: AdminClient
) -> None:
    write(cluster, 1)
    cluster.pause_follower(followers(cluster)[0], "t", 0)
    (future,) = admin.delete_records([TopicPartition("t", 0, 1)], operation_timeout=5).values()
    cluster.wait_until(lambda: cluster.purgatories.delete_records.watched == 1, PATIENCE_S)
    cluster.clock.advance(5_000)
    assert outcome(future) == KafkaError.REQUEST_TIMED_OUT


def test_an_admin_waits_for_new_topics_leaders(cluster: Cluster, admin: AdminClient) -> None:
    cluster.pause_elections()
    (future,) = admin.create_topics([NewTopic("new", 3, 2)], operation_timeout=5).values()
    cluster.wait_until(lambda: cluster.purgatories.topic.watched == 1, PATIENCE_S)
    cluster.resume_elections()
    assert outcome(future) is None
    assert [cluster.leader("new", index) > 0 for index in range(3)] == [True] * 3


def test_an_admin_hears_that_new_topics_have_no_leaders(
    cluster: Cluster, admin: AdminClient
) -> None:
    cluster.pause_elections()
    (future,) = admin.create_topics([NewTopic("new", 3, 2)], operation_timeout=5).values()
    cluster.wait_until(lambda: cluster.purgatories.topic.watched == 1, PATIENCE_S)
    cluster.clock.advance(5_000)
    assert outcome(future) == KafkaError.REQUEST_TIMED_OUT


def test_an_admin_waits_for_new_partitions_leaders(cluster: Cluster, admin: AdminClient) -> None:
    cluster.pause_elections()
    (future,) = admin.create_partitions([NewPartitions("t", 3)], operation_timeout=5).values()
    cluster.wait_until(lambda: cluster.purgatories.topic.watched == 1, PATIENCE_S)
    cluster.resume_elections()
    assert outcome(future) is None
    cluster.pause_elections()
    (future,) = admin.create_partitions([NewPartitions("t", 4)], operation_timeout=5).values()
    cluster.wait_until(lambda: cluster.purgatories.topic.watched == 1, PATIENCE_S)
    cluster.clock.advance(5_000)
    assert outcome(future) == KafkaError.REQUEST_TIMED_OUT


def test_an_admin_that_gives_no_time_creates_nothing(cluster: Cluster, admin: AdminClient) -> None:
    (future,) = admin.create_topics([NewTopic("new", 1, 1)], operation_timeout=0).values()
    # What librdkafka makes of REQUEST_TIMED_OUT here: with ZooKeeper the topic came later.
    assert outcome(future) is None
    assert "new" not in cluster.controller.topics
    assert cluster.purgatories.topic.metrics().completed == 0
    (future,) = admin.create_topics([NewTopic("checked", 1, 1)], validate_only=True).values()
    assert outcome(future) is None
    assert "checked" not in cluster.controller.topics
