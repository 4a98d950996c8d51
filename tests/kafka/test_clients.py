"""Real clients write and read; what one wrote, every other can read, however compressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka import Cluster, wire
from tests.kafka.client_libraries import CLIENTS, CODECS, KAFKA_PYTHON_WARNS, ClientLibrary

pytestmark = pytest.mark.filterwarnings(KAFKA_PYTHON_WARNS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    wire.check_names = True
    with Cluster(brokers=3, config={"auto.create.topics.enable": False}) as cluster:
        yield cluster
    wire.check_names = False


def combinations() -> Iterator[Any]:
    """Each client with each codec, as writer and as reader, and each with each other; no more."""
    for n, writer in enumerate(CLIENTS):
        for m, codec in enumerate(CODECS):
            reader = CLIENTS[(n + m) % len(CLIENTS)]
            yield pytest.param(writer, reader, codec, id=f"{writer.name}-{reader.name}-{codec}")


@pytest.mark.parametrize(("writer", "reader", "codec"), list(combinations()))
def test_what_one_client_writes_another_reads(
    cluster: Cluster, writer: ClientLibrary, reader: ClientLibrary, codec: str
) -> None:
    writer.or_skip()
    reader.or_skip()
    topic = f"{writer.name}-{reader.name}-{codec}"
    cluster.create_topic(topic, replication_factor=3)
    values = [b"%d " % n * 50 for n in range(200)]
    writer.produce(cluster.bootstrap_servers, topic, values, codec)
    assert reader.consume(cluster.bootstrap_servers, topic, len(values)) == values
    partition = cluster.partition(topic, 0)
    assert {log.end_offset for log in partition.logs.values()} == {200}
