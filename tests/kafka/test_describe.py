"""What clients can ask about a cluster: log directories, partitions page by page, permissions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.kafka import Cluster, wire
from tests.kafka.client_libraries import KAFKA_PYTHON_WARNS, quiet
from tests.kafka.wire_client import WireClient, connect

pytestmark = pytest.mark.filterwarnings(KAFKA_PYTHON_WARNS)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    wire.check_names = True
    with Cluster(brokers=2, clock=ManualClock()) as cluster:
        yield cluster
    wire.check_names = False


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient(cluster.brokers[0].host, cluster.brokers[0].port) as client:
        yield client


# Log directories.


def sizes(client: WireClient, topics: Any, version: int = 4) -> dict[tuple[str, int], Any]:
    (found,) = client.ask("describe_log_dirs", version, topics=topics).results
    assert (found.error_code, found.log_dir) == (ErrorCode.none, "/sojourn/broker-1")
    return {
        (topic.name, partition.partition_index): (partition.partition_size, partition.offset_lag)
        for topic in found.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 5))
def test_a_broker_tells_how_big_its_logs_are(
    cluster: Cluster, client: WireClient, version: int
) -> None:
    assert sizes(client, None, version) == {}
    cluster.create_topic("one", partitions=2)  # one partition for each broker
    cluster.create_topic("both", replication_factor=2)
    cluster.move_leader("both", 0, 2)
    with connect(cluster, 2) as leader:
        leader.ask(leader.produce("both"))
        cluster.pause_follower(1, "both", 0)
        leader.ask(leader.produce("both", acks=1))
        cluster.clock.advance(60_000)  # out of sync, so the high watermark goes on
    log = cluster.partition("both", 0).logs[1]
    assert log.size > 0
    here = next(i for i in (0, 1) if cluster.leader("one", i) == 1)
    assert sizes(client, None, version) == {("one", here): (0, 0), ("both", 0): (log.size, 1)}
    only_one = [{"topic": "one", "partitions": [here]}, {"topic": "none", "partitions": [0]}]
    assert sizes(client, only_one, version) == {("one", here): (0, 0)}


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_can_only_stay_in_its_directory(
    cluster: Cluster, client: WireClient, version: int
) -> None:
    cluster.create_topic("t", partitions=2)
    here = next(i for i in (0, 1) if cluster.leader("t", i) == 1)

    def moved(path: str, index: int) -> ErrorCode:
        answer = client.ask(
            "alter_replica_log_dirs",
            version,
            dirs=[{"path": path, "topics": [{"name": "t", "partitions": [index]}]}],
        )
        ((result,),) = (topic.partitions for topic in answer.results)
        code: ErrorCode = result.error_code
        return code

    (directory,) = client.ask("describe_log_dirs", 4, topics=None).results
    assert moved(directory.log_dir, here) is ErrorCode.none
    assert moved(directory.log_dir, 1 - here) is ErrorCode.replica_not_available
    assert moved(directory.log_dir, 2) is ErrorCode.unknown_topic_or_partition
    assert moved("/elsewhere", here) is ErrorCode.log_dir_not_found


def test_kafka_python_reads_log_directories() -> None:
    kafka = pytest.importorskip("kafka")
    with (
        Cluster(brokers=2) as cluster,
        closing(kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin,
    ):
        cluster.create_topic("t", replication_factor=2)
        found = {one["broker"]: one["log_dirs"] for one in admin.describe_log_dirs()}
        assert {dirs[0]["log_dir"] for dirs in found.values()} == {
            "/sojourn/broker-1",
            "/sojourn/broker-2",
        }
        assert [topic["name"] for topic in found[1][0]["topics"]] == ["t"]


# Partitions, page by page.


def page(client: WireClient, *names: str, limit: int = 2_000, cursor: Any = None) -> Any:
    if cursor is not None:
        cursor = {"topic_name": cursor[0], "partition_index": cursor[1]}
    return client.ask(
        "describe_topic_partitions",
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )


def shown(answer: Any) -> list[tuple[str, list[int]]]:
    return [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("names", [(), ("c", "a", "b")])
def test_pages_cover_every_partition_once(
    cluster: Cluster, client: WireClient, limit: int, names: tuple[str, ...]
) -> None:
    for name, partitions in (("b", 1), ("a", 3), ("c", 2)):
        cluster.create_topic(name, partitions=partitions)
    seen: list[tuple[str, int]] = []
    cursor = None
    while True:
        answer = page(client, *names, limit=limit, cursor=cursor)
        rows = [(name, index) for name, row in shown(answer) for index in row]
        seen += rows
        if answer.next_cursor is None:
            break
        assert len(rows) == limit
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]


def test_a_partition_is_described_with_its_replicas(cluster: Cluster, client: WireClient) -> None:
    topic = cluster.create_topic("t", replication_factor=2)
    cluster.stop_broker(2)
    (told,) = page(client, "t").topics
    (partition,) = told.partitions
    assert (told.error_code, told.topic_id, told.is_internal) == (ErrorCode.none, topic.id, False)
    assert (partition.leader_id, set(partition.replica_nodes)) == (1, {1, 2})
    assert (partition.isr_nodes, partition.offline_replicas) == ((1,), (2,))
    assert partition.eligible_leader_replicas == partition.last_known_elr == ()


def test_topics_that_there_are_not_are_told_apart(cluster: Cluster, client: WireClient) -> None:
    cluster.create_topic("t")
    codes = {topic.name: topic.error_code for topic in page(client, "t", "u", "a b").topics}
    assert codes == {
        "t": ErrorCode.none,
        "u": ErrorCode.unknown_topic_or_partition,
        "a b": ErrorCode.invalid_topic_exception,
    }
    assert "u" not in cluster.controller.topics


def test_a_cursor_has_to_fit(cluster: Cluster, client: WireClient) -> None:
    cluster.create_topic("b", partitions=2)
    (told,) = page(client, "b", cursor=("a", 0)).topics
    assert told.error_code is ErrorCode.invalid_request
    assert shown(page(client, "b", limit=0)) == [("b", [0])]  # one is the least
    assert shown(page(client, cursor=("a", 1))) == [("b", [0, 1])]  # a is gone by now
    assert shown(page(client, cursor=("b", 1))) == [("b", [1])]


def test_kafka_python_reads_pages() -> None:
    kafka = pytest.importorskip("kafka")
    with (
        Cluster() as cluster,
        closing(kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin,
    ):
        cluster.create_topic("t", partitions=3)
        first = admin.describe_topic_partitions(["t"], response_partition_limit=2)
        rest = admin.describe_topic_partitions(["t"], cursor=first["next_cursor"])
        found = [
            p["partition_index"] for one in (first, rest) for p in one["topics"][0]["partitions"]
        ]
        assert (found, rest["next_cursor"]) == ([0, 1, 2], None)


# What one may do, which is everything.


def bits(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


ON_TOPICS = bits(3, 4, 5, 6, 7, 8, 10, 11)
ON_CLUSTER = bits(5, 7, 8, 9, 10, 11, 12)
NOT_ASKED = -(2**31)


def test_those_who_ask_are_told_that_they_may_do_everything(
    cluster: Cluster, client: WireClient
) -> None:
    cluster.create_topic("t")
    for asked, on_topics, on_cluster in (
        (True, ON_TOPICS, ON_CLUSTER),
        (False, NOT_ASKED, NOT_ASKED),
    ):
        told = client.ask(
            "metadata",
            9,
            topics=[{"name": "t"}],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=asked,
            include_topic_authorized_operations=asked,
        )
        assert told.topics[0].topic_authorized_operations == on_topics
        assert told.cluster_authorized_operations == on_cluster
        described = client.ask("describe_cluster", 0, include_cluster_authorized_operations=asked)
        assert described.cluster_authorized_operations == on_cluster
    assert page(client, "t").topics[0].topic_authorized_operations == ON_TOPICS


def test_librdkafka_is_told_so_too() -> None:
    kafka = pytest.importorskip("confluent_kafka")
    admin_api = pytest.importorskip("confluent_kafka.admin")
    with Cluster() as cluster:
        cluster.create_topic("t")
        admin = admin_api.AdminClient(quiet(cluster.bootstrap_servers))
        topics = kafka.TopicCollection(["t"])
        for asked in (True, False):
            of_cluster = admin.describe_cluster(include_authorized_operations=asked).result()
            of_topic = admin.describe_topics(topics, include_authorized_operations=asked)[
                "t"
            ].result()
            if asked:
                assert admin_api.AclOperation.DELETE in of_topic.authorized_operations
                assert admin_api.AclOperation.ALTER_CONFIGS in of_cluster.authorized_operations
            else:
                assert of_topic.authorized_operations is None
                assert of_cluster.authorized_operations is None


# Settings of brokers.


def test_a_broker_tells_its_listeners_as_kafka_does(cluster: Cluster, client: WireClient) -> None:
    (told,) = client.ask(
        "describe_configs",
        4,
        resources=[{"resource_type": 4, "resource_name": "1", "configuration_keys": None}],
        include_synonyms=False,
        include_documentation=False,
    ).results
    by_name = {entry.name: entry for entry in told.configs}
    advertised = by_name["advertised.listeners"]
    assert (advertised.config_source, advertised.read_only, advertised.synonyms) == (5, True, ())
    listeners = by_name["listeners"]
    assert (listeners.config_source, listeners.read_only) == (4, False)
    assert listeners.value == f"PLAINTEXT://{cluster.bootstrap_servers.split(',')[0]}"
    assert by_name["log.dirs"].value == "/sojourn/broker-1"
