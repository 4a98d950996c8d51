"""Our Kafka cluster beside librdkafka's mock cluster.

Two questions, with librdkafka as the client of both, in one process with the cluster:

- *delivery*: a consumer waits in a fetch (min.bytes 1, max wait 3 s), a record is produced with
  acks=all to three replicas; how long until the consumer has it?
- *throughput*: many records of 100 bytes, acks=all to three replicas, produced and flushed;
  then consumed from the start; the median of five rounds, each with a topic of its own. Processor
  time is that of the process, so of cluster and client. The mock has no replicas, and waits for
  none.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.stopwatch import Stopwatch

if TYPE_CHECKING:
    from benchmarks.case import Row

_PAYLOAD = b"x" * 100
_PARTITIONS = 6
_ROUNDS = 5
_WAIT_S = 30.0
_QUIET_S = 10.0


_BULK = [f"bulk-{number}" for number in range(_ROUNDS)]
_TOPICS = ["delivery", "warm", *_BULK]


def measure(name: str, params: dict[str, Any]) -> Row:
    with _CLUSTERS[name]() as (servers, warm_rounds, rounds):
        delivery_ms = delivery(servers, warm_rounds, rounds)
        throughput(servers, "warm", 1_000)
        rows = [throughput(servers, topic, params["messages"]) for topic in _BULK]
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    return {
        "delivery_p50_ms": statistics.median(delivery_ms),
        "delivery_max_ms": max(delivery_ms),
        **medians,
    }


@contextlib.contextmanager
def _ours() -> Iterator[tuple[str, int, int]]:
    from sojourn.kafka import Cluster

    with Cluster(brokers=3) as cluster:
        for topic in _TOPICS:
            partitions = _PARTITIONS if topic in _BULK else 1
            cluster.create_topic(topic, partitions, replication_factor=3)
        yield cluster.bootstrap_servers, 5, 50


@contextlib.contextmanager
def _mock() -> Iterator[tuple[str, int, int]]:
    from confluent_kafka import Producer

    host = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock", "log_level": 0})
    brokers = host.list_topics(timeout=_WAIT_S).brokers.values()
    servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    for topic in _TOPICS:  # it makes them when a producer asks
        while not host.list_topics(topic, timeout=_WAIT_S).topics[topic].partitions:
            pass
    yield servers, 1, 5
    del host


_CLUSTERS: dict[str, Callable[[], Any]] = {"cluster": _ours, "mock": _mock}


def _client(servers: str, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "log_level": 0, **more}


def _consumer(servers: str, topic: str, **more: Any) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        _client(servers, **{"group.id": "bench", "enable.auto.commit": False, **more})
    )
    known = consumer.list_topics(topic, timeout=_WAIT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, index, 0) for index in known])
    return consumer


def delivery(servers: str, warm_rounds: int, rounds: int) -> list[float]:
    """Milliseconds from produce to the consumer's hand, with the consumer's fetch waiting."""
    from confluent_kafka import Producer

    options = {"fetch.min.bytes": 1, "fetch.wait.max.ms": 3_000}
    consumer = _consumer(servers, "delivery", **options)
    producer = Producer(_client(servers, **{"acks": "all", "linger.ms": 0}))
    quiet = threading.Event()
    took_ms = []
    for turn in range(warm_rounds + rounds):
        consumer.poll(0.3)  # lets its next fetch arrive, and wait
        quiet.wait(0.05)
        started = perf_counter()
        producer.produce("delivery", b"x")
        message = consumer.poll(_WAIT_S)
        if message is None or message.error():
            raise RuntimeError(f"nothing was delivered: {message and message.error()}")
        if turn >= warm_rounds:
            took_ms.append((perf_counter() - started) * 1e3)
        producer.flush(_WAIT_S)
    consumer.close()
    return took_ms


def throughput(servers: str, topic: str, messages: int) -> dict[str, float]:
    """Produce and flush, then consume: messages a second, and processor time of each."""
    from confluent_kafka import Producer

    producer = Producer(
        _client(servers, **{"acks": "all", "queue.buffering.max.messages": 2 * messages})
    )
    producer.list_topics(topic, timeout=_WAIT_S)
    with Stopwatch() as producing:
        for _ in range(messages):
            producer.produce(topic, _PAYLOAD)
        if producer.flush(_WAIT_S):
            raise RuntimeError("not all were delivered")
    consumer = _consumer(servers, topic)
    consuming = Stopwatch()
    got = 0
    while got < messages:
        with Stopwatch() as one:
            some = consumer.consume(min(10_000, messages - got), _QUIET_S)
        if not some:  # the mock does not keep them all
            break
        got += len(some)
        consuming += one
    consumer.close()
    return {
        "produced_per_s": messages / producing.wall_ns * 1e9,
        "produce_cpu_us": producing.cpu_ns / 1e3 / messages,
        "consumed_per_s": got / consuming.wall_ns * 1e9,
        "consume_cpu_us": consuming.cpu_ns / 1e3 / got,
    }
