"""`__consumer_offsets` and `__transaction_state`: there when needed, and not to write to."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka import Cluster
from tests.kafka.batches import batch
from tests.kafka.wire_client import WireClient

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def _client(cluster: Cluster, client_id: str = "test") -> WireClient:
    broker = cluster.brokers[0]
    return WireClient(broker.host, broker.port, client_id)


@pytest.mark.parametrize(("key_type", "name"), [(0, OFFSETS), (1, TRANSACTIONS)])
def test_the_first_search_for_a_coordinator_creates_its_topic(key_type: int, name: str) -> None:
    config = {"offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 4}
    with Cluster(brokers=3, config=config) as cluster, _client(cluster) as client:
        assert name not in cluster.controller.topics
        answer = client.ask("find_coordinator", 2, key="g", key_type=key_type)
        assert answer.error_code == 0
        assert list(cluster.controller.topics) == [name]
        topic = cluster.controller.topics[name]
        assert topic.is_internal
        assert len(topic.partitions) == 4
        assert topic.replication_factor == 1
        assert topic.settings.text("cleanup.policy") == "compact"


@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (2, 2), (4, 3)])
def test_where_the_settings_ask_for_replicas_there_are_as_many_as_brokers(
    brokers: int, replicas: int
) -> None:
    config = {"offsets.topic.replication.factor": 3}
    with Cluster(brokers=brokers, config=config) as cluster, _client(cluster) as client:
        client.ask("find_coordinator", 2, key="g", key_type=0)
        assert cluster.controller.topics[OFFSETS].replication_factor == replicas


def test_clients_see_them_as_internal() -> None:
    with Cluster() as cluster, _client(cluster) as client:
        cluster.create_topic("t")
        client.ask("find_coordinator", 2, key="g", key_type=0)
        topics = client.ask("metadata", 12, topics=None).topics
        assert {topic.name: topic.is_internal for topic in topics} == {"t": False, OFFSETS: True}


def test_only_an_admin_client_may_write_to_them() -> None:
    data = batch((b"key", b"value"))
    with Cluster(config={"offsets.topic.num.partitions": 1}) as cluster:
        with _client(cluster) as client:
            client.ask("find_coordinator", 2, key="g", key_type=0)
            answer = client.ask(client.produce(OFFSETS, records=data))
            assert answer.responses[0].partition_responses[0].error_code == 17
        with _client(cluster, "__admin_client") as client:
            answer = client.ask(client.produce(OFFSETS, records=data))
            assert answer.responses[0].partition_responses[0].error_code == 0
        assert [record.value for record in cluster.records(OFFSETS)] == [b"value"]
