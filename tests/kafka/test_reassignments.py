"""Moving replicas: the new ones follow and come in sync, then the old ones go."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from tests.seeds import seed

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.kafka import Cluster, wire
from tests.kafka.client_libraries import KAFKA_PYTHON_WARNS
from tests.kafka.wire_client import WireClient, connect, only


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    wire.check_names = True
    with Cluster(brokers=4, clock=ManualClock()) as cluster:
        create(cluster, "t", (1, 2))
        yield cluster
    wire.check_names = False


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient(cluster.brokers[3].host, cluster.brokers[3].port) as client:
        yield client


def create(cluster: Cluster, name: str, *assignment: tuple[int, ...]) -> None:
    with cluster.agenda:
        controller = cluster.controller
        controller.add_topic(name, list(assignment), controller.topic_settings(None))


def alter(
    client: WireClient, replicas: Sequence[int] | None, index: int = 0, name: str = "t"
) -> Any:
    wanted = {"partition_index": index, "replicas": None if replicas is None else list(replicas)}
    answer = client.ask(
        "alter_partition_reassignments",
        0,
        timeout=1_000,
        topics=[{"name": name, "partitions": [wanted]}],
    )
    assert answer.error_code is ErrorCode.none
    (topic,) = answer.responses
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index) == (name, index)
    silent = (ErrorCode.none, ErrorCode.no_reassignment_in_progress)
    assert (partition.error_message is None) == (partition.error_code in silent)
    return partition.error_code


def listed(client: WireClient, topics: Any = None) -> dict[tuple[str, int], tuple[Any, ...]]:
    answer = client.ask("list_partition_reassignments", 0, timeout=1_000, topics=topics)
    assert answer.error_code is ErrorCode.none
    return {
        (topic.name, p.partition_index): (p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in answer.topics
        for p in topic.partitions
    }


def produce(cluster: Cluster, times: int = 1, acks: int = 1) -> None:
    with connect(cluster, cluster.leader("t", 0)) as leader:
        for _ in range(times):
            assert only(leader.ask(leader.produce("t", acks=acks))).error_code is ErrorCode.none


def test_replicas_move_with_their_records(cluster: Cluster, client: WireClient) -> None:
    produce(cluster, 3)
    partition = cluster.partition("t", 0)
    epoch = partition.leader_epoch
    assert alter(client, (3, 4)) is ErrorCode.none
    assert partition.replicas == (3, 4)
    assert partition.isr == set(partition.logs) == set(partition.fetchers) == {3, 4}
    assert partition.leader == 3
    assert partition.leader_epoch > epoch
    assert {log.end_offset for log in partition.logs.values()} == {3}
    assert partition.high_watermark == 3
    assert listed(client) == {}
    produce(cluster, acks=-1)
    assert partition.high_watermark == 4


def test_a_move_waits_until_the_new_replica_has_caught_up(
    cluster: Cluster, client: WireClient
) -> None:
    partition = cluster.partition("t", 0)
    produce(cluster)
    cluster.stop_broker(3)
    assert alter(client, (3, 2)) is ErrorCode.none
    ongoing = {("t", 0): ((3, 2, 1), (3,), (1,))}
    assert listed(client) == ongoing
    assert listed(client, [{"name": "t", "partition_indexes": [0, 7]}]) == ongoing
    assert listed(client, [{"name": "u", "partition_indexes": [0]}]) == {}
    assert listed(client, []) == {}
    assert (partition.leader, partition.isr) == (1, {1, 2})
    (described,) = client.ask("metadata", 1, topics=[{"name": "t"}]).topics[0].partitions
    assert set(described.replica_nodes) == {1, 2, 3}
    cluster.start_broker(3)
    assert (partition.leader, partition.replicas, partition.isr) == (3, (3, 2), {2, 3})
    assert listed(client) == {}


def test_a_move_can_be_cancelled(cluster: Cluster, client: WireClient) -> None:
    partition = cluster.partition("t", 0)
    cluster.stop_broker(3)
    assert alter(client, None) is ErrorCode.no_reassignment_in_progress
    assert alter(client, (3, 2)) is ErrorCode.none
    assert alter(client, None) is ErrorCode.none
    assert (partition.replicas, set(partition.logs)) == ((1, 2), {1, 2})
    assert alter(client, None) is ErrorCode.no_reassignment_in_progress
    cluster.start_broker(3)
    assert partition.isr == {1, 2}
    produce(cluster, acks=-1)


def test_a_move_that_is_asked_for_again_takes_the_new_goal(
    cluster: Cluster, client: WireClient
) -> None:
    partition = cluster.partition("t", 0)
    cluster.stop_broker(3)
    cluster.stop_broker(2)
    assert alter(client, (1, 3)) is ErrorCode.none
    assert alter(client, (1, 2, 3)) is ErrorCode.none
    assert listed(client) == {("t", 0): ((1, 2, 3), (3,), ())}
    assert alter(client, (1, 4)) is ErrorCode.none
    assert listed(client) == {}
    assert (partition.replicas, partition.isr) == ((1, 4), {1, 4})
    assert alter(client, (1, 3)) is ErrorCode.none
    assert alter(client, (1, 2)) is ErrorCode.none
    assert alter(client, None) is ErrorCode.none
    assert partition.replicas == (1, 4)


def test_a_move_is_not_cancelled_if_only_new_replicas_are_in_sync(
    cluster: Cluster, client: WireClient
) -> None:
    partition = cluster.partition("t", 0)
    cluster.stop_broker(3)
    assert alter(client, (3, 4)) is ErrorCode.none
    assert partition.isr == {1, 2, 4}
    cluster.stop_broker(1)
    cluster.stop_broker(2)
    assert partition.leader == 4
    assert alter(client, None) is ErrorCode.invalid_replica_assignment
    cluster.start_broker(3)
    assert partition.replicas == (3, 4)


def test_the_order_alone_can_be_changed(cluster: Cluster, client: WireClient) -> None:
    partition = cluster.partition("t", 0)
    epoch = partition.leader_epoch
    assert alter(client, (2, 1)) is ErrorCode.none
    assert (partition.replicas, partition.leader) == ((2, 1), 1)
    assert partition.leader_epoch == epoch
    assert cluster.elect("t", 0) == 2


def test_replicas_can_become_more_and_fewer(cluster: Cluster, client: WireClient) -> None:
    partition = cluster.partition("t", 0)
    epoch = partition.leader_epoch
    assert alter(client, (1, 2, 3, 4)) is ErrorCode.none
    assert partition.isr == {1, 2, 3, 4}
    assert partition.leader_epoch == epoch  # nobody has gone
    assert alter(client, (4,)) is ErrorCode.none
    assert (partition.replicas, partition.leader, partition.isr) == ((4,), 4, {4})


def test_a_replica_comes_in_after_records_were_deleted(
    cluster: Cluster, client: WireClient
) -> None:
    produce(cluster, 5)
    with connect(cluster, 1) as leader:
        leader.ask(leader.delete_records("t", 3))
    assert alter(client, (4, 3)) is ErrorCode.none
    partition = cluster.partition("t", 0)
    spans = {(log.start_offset, log.end_offset) for log in partition.logs.values()}
    assert (spans, partition.leader) == ({(3, 5)}, 4)


def test_a_leader_stays_while_no_elections_are_held(cluster: Cluster, client: WireClient) -> None:
    partition = cluster.partition("t", 0)
    cluster.pause_elections()
    assert alter(client, (3, 4)) is ErrorCode.none
    assert (partition.leader, partition.isr) == (1, {1, 2, 3, 4})
    cluster.resume_elections()
    assert (partition.leader, partition.replicas) == (3, (3, 4))


@pytest.mark.parametrize("replicas", [(), (1, 1), (1, 9), (-1,)])
def test_replicas_that_cannot_be_are_refused(
    cluster: Cluster, client: WireClient, replicas: tuple[int, ...]
) -> None:
    assert alter(client, replicas) is ErrorCode.invalid_replica_assignment
    assert cluster.partition("t", 0).replicas == (1, 2)


def test_what_there_is_not_cannot_move(client: WireClient) -> None:
    assert alter(client, (1,), index=1) is ErrorCode.unknown_topic_or_partition
    assert alter(client, None, name="u") is ErrorCode.unknown_topic_or_partition


def test_a_topic_can_be_deleted_in_the_middle_of_a_move(
    cluster: Cluster, client: WireClient
) -> None:
    cluster.stop_broker(3)
    assert alter(client, (3, 4)) is ErrorCode.none
    with cluster.agenda:
        cluster.controller.delete_topic(cluster.controller.topics["t"])
    cluster.start_broker(3)
    assert listed(client) == {}
    assert cluster.purgatories.fetch.watched == 0


@pytest.mark.parametrize("run", range(20))
def test_nothing_that_is_committed_is_lost_on_the_way(run: int) -> None:
    rng = random.Random(seed() + run)
    with Cluster(brokers=4, clock=ManualClock()) as cluster:
        create(cluster, "t", (1, 2))
        partition = cluster.partition("t", 0)
        committed = 0
        for _ in range(60):
            broker_id = rng.randint(1, 4)
            kind = rng.randrange(6)
            if kind <= 1 and partition.leader >= 0:
                produce(cluster)
            elif kind == 2:
                goal = rng.sample((1, 2, 3, 4), rng.randint(1, 3))
                with cluster.agenda:
                    cluster.controller.reassign(partition, tuple(goal))
            elif kind == 3:
                cluster.stop_broker(broker_id)
            elif kind == 4:
                cluster.start_broker(broker_id)
            else:
                cluster.clock.advance(rng.choice((1, 1_000, 40_000)))
            committed = max(committed, partition.high_watermark)
            assert set(partition.logs) == set(partition.fetchers) == set(partition.replicas)
            assert partition.isr <= set(partition.replicas)
            assert partition.leader in (-1, *partition.replicas)
            if partition.leader >= 0:
                assert partition.end_offset >= committed
        for broker_id in (1, 2, 3, 4):
            cluster.start_broker(broker_id)
        cluster.clock.advance(60_000)
        assert not partition.is_reassigning
        assert partition.isr == set(partition.replicas)
        assert {log.end_offset for log in partition.logs.values()} == {partition.end_offset}
        assert partition.high_watermark == partition.end_offset >= committed


@pytest.mark.filterwarnings(KAFKA_PYTHON_WARNS)
def test_kafka_python_moves_replicas() -> None:
    kafka = pytest.importorskip("kafka")
    with (
        Cluster(brokers=3) as cluster,
        closing(kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin,
    ):
        create(cluster, "t", (1, 2))
        partition = kafka.TopicPartition("t", 0)
        cluster.pause_elections()
        assert admin.alter_partition_reassignments({partition: [3, 2]}) == {partition: None}
        assert admin.list_partition_reassignments() == {
            partition: {"replicas": [3, 2, 1], "adding_replicas": [3], "removing_replicas": [1]}
        }
        cluster.resume_elections()
        assert admin.list_partition_reassignments([partition]) == {}
        assert cluster.partition("t", 0).replicas == (3, 2)
