"""A record is found by its time in a compressed batch too, whoever compressed it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka import Cluster
from sojourn.kafka.log.batch import Batch, first_at_or_after
from sojourn.kafka.log.compression import GZIP, LZ4, SNAPPY, ZSTD, CannotDecompress, decompress
from tests.kafka.batches import batch
from tests.kafka.client_libraries import CODECS, KAFKA_PYTHON_WARNS, quiet
from tests.until import PATIENCE_S

pytestmark = pytest.mark.filterwarnings(KAFKA_PYTHON_WARNS)

TIMES_MS = (1_000_100, 1_000_400, 1_000_200)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def librdkafka(servers: str, topic: str, codec: str, times_ms: Sequence[int]) -> None:
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer(quiet(servers, **{"compression.type": codec, "linger.ms": 200}))
    for time_ms in times_ms:
        producer.produce(topic, bytes(1_000), timestamp=time_ms)
    assert producer.flush(PATIENCE_S) == 0


def kafka_python(servers: str, topic: str, codec: str, times_ms: Sequence[int]) -> None:
    kafka = pytest.importorskip("kafka")
    kind = None if codec == "none" else codec
    with kafka.KafkaProducer(
        bootstrap_servers=servers, compression_type=kind, linger_ms=200
    ) as producer:
        for time_ms in times_ms:
            producer.send(topic, bytes(1_000), timestamp_ms=time_ms)


def aiokafka(servers: str, topic: str, codec: str, times_ms: Sequence[int]) -> None:
    kafka = pytest.importorskip("aiokafka")

    async def send() -> None:
        kind = None if codec == "none" else codec
        async with kafka.AIOKafkaProducer(
            bootstrap_servers=servers, compression_type=kind, linger_ms=200
        ) as producer:
            for time_ms in times_ms:
                await producer.send(topic, bytes(1_000), timestamp_ms=time_ms)

    asyncio.run(send())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("write", [librdkafka, kafka_python, aiokafka])
def test_a_record_is_found_by_its_time_in_a_compressed_batch(
    cluster: Cluster, write: Callable[..., None], codec: str
) -> None:
    pytest.importorskip("cramjam")
    topic = f"{write.__name__}-{codec}"
    cluster.create_topic(topic)
    write(cluster.bootstrap_servers, topic, codec, TIMES_MS)
    log = cluster.partition(topic, 0).log
    (stored,) = log.read(0, 3, 1 << 60, True)  # all in one batch
    assert (stored.attributes & 7 > 0) == (codec != "none")
    assert log.offset_for_time(1_000_000, 3) == (0, 1_000_100, 0)
    assert log.offset_for_time(1_000_150, 3) == (1, 1_000_400, 0)
    assert log.offset_for_time(1_000_401, 3) is None
    assert log.offset_of_max_timestamp() == (1, 1_000_400, 0)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD, 5, 7])
def test_what_cannot_be_undone_is_not_looked_at(codec: int) -> None:
    with pytest.raises(CannotDecompress):
        decompress(codec, b"nonsense" * 10)
    broken = Batch(batch(b"a", b"b", timestamp_ms=1_000, step_ms=10, attributes=codec))
    assert first_at_or_after(broken, 1_005, 0) == (0, 1_005)
    assert first_at_or_after(broken, 1_011, 0) is None
