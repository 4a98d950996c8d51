"""Real clients find the cluster and are told what there is."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka import Cluster
from tests.until import PATIENCE_S


def test_librdkafka_sees_brokers_and_topics() -> None:
    admin = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("t", partitions=6, replication_factor=3)
        client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        seen = client.list_topics(timeout=PATIENCE_S)
        assert sorted(seen.brokers) == [1, 2, 3]
        assert sorted(seen.topics["t"].partitions) == [0, 1, 2, 3, 4, 5]
        del client


def test_kafka_python_sees_brokers_and_topics() -> None:
    kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("t")
        client = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        assert client.list_topics() == ["t"]
        assert len(client.describe_cluster()["brokers"]) == 2
        client.close()


def test_aiokafka_sees_topics() -> None:
    admin = pytest.importorskip("aiokafka.admin", reason="aiokafka is not installed")

    async def topics(servers: str) -> list[str]:
        client = admin.AIOKafkaAdminClient(bootstrap_servers=servers)
        await client.start()
        try:
            return list(await client.list_topics())
        finally:
            await client.close()

    with Cluster() as cluster:
        cluster.create_topic("t")
        assert asyncio.run(topics(cluster.bootstrap_servers)) == ["t"]
