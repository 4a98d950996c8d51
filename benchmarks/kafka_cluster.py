"""`python -m benchmarks.kafka_cluster`: our cluster beside librdkafka's mock cluster.

Two questions, with librdkafka as the client of both, in one process with the cluster:

- *delivery*: a consumer waits in a fetch (min.bytes 1, max wait 3 s), a record is produced with
  acks=all to three replicas; how long until the consumer has it?
- *throughput*: 100,000 records of 100 bytes, acks=all to three replicas, produced and flushed;
  then consumed from the start. The mock has no replicas and waits for none.

Every measurement has a process of its own, the two take turns, and medians are reported.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

_MESSAGES = 100_000
_PAYLOAD = b"x" * 100
_PARTITIONS = 6
_WAIT_S = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--one", choices=sorted(_CLUSTERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in _CLUSTERS}
    for _ in range(options.repeats):
        for name, measured in rows.items():
            measured.append(_in_a_process(name))
    print(f"medians of {options.repeats} rounds")
    print(f"{'':10}{'delivery p50':>14}{'max':>10}{'produced/s':>14}{'consumed/s':>14}")
    for name, measured in rows.items():
        median = {key: statistics.median(row[key] for row in measured) for key in measured[0]}
        print(
            f"{name:10}{median['delivery_p50_ms']:>11.2f} ms{median['delivery_max_ms']:>7.1f} ms"
            f"{median['produced_per_s']:>14,.0f}{median['consumed_per_s']:>14,.0f}"
        )


def _in_a_process(name: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kafka_cluster", "--one", name],
        check=True,
        capture_output=True,
        text=True,
    )
    row: dict[str, float] = json.loads(done.stdout)
    return row


def measure(name: str) -> dict[str, float]:
    """One round of one cluster."""
    with _CLUSTERS[name]() as (servers, warm_rounds, rounds):
        delivery_ms = delivery(servers, warm_rounds, rounds)
        throughput(servers, "warm", 1_000)
        produced, consumed = throughput(servers, "bulk", _MESSAGES)
    return {
        "delivery_p50_ms": statistics.median(delivery_ms),
        "delivery_max_ms": max(delivery_ms),
        "produced_per_s": produced,
        "consumed_per_s": consumed,
    }


@contextlib.contextmanager
def _ours() -> Iterator[tuple[str, int, int]]:
    from sojourn.kafka import Cluster

    with Cluster(brokers=3) as cluster:
        for topic, partitions in (("delivery", 1), ("warm", 1), ("bulk", _PARTITIONS)):
            cluster.create_topic(topic, partitions, replication_factor=3)
        yield cluster.bootstrap_servers, 5, 50


@contextlib.contextmanager
def _mock() -> Iterator[tuple[str, int, int]]:
    from confluent_kafka import Producer

    host = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock", "log_level": 0})
    brokers = host.list_topics(timeout=_WAIT_S).brokers.values()
    servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    for topic in ("delivery", "warm", "bulk"):  # it makes them when a producer asks
        while not host.list_topics(topic, timeout=_WAIT_S).topics[topic].partitions:
            pass
    yield servers, 1, 5
    del host


_CLUSTERS: dict[str, Callable[[], Any]] = {"sojourn": _ours, "mock": _mock}


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


def throughput(servers: str, topic: str, messages: int) -> tuple[float, float]:
    """Messages a second, produced and flushed, then consumed."""
    from confluent_kafka import Producer

    producer = Producer(
        _client(servers, **{"acks": "all", "queue.buffering.max.messages": 2 * messages})
    )
    producer.list_topics(topic, timeout=_WAIT_S)
    started = perf_counter()
    for _ in range(messages):
        producer.produce(topic, _PAYLOAD)
    if producer.flush(_WAIT_S):
        raise RuntimeError("not all were delivered")
    produced = messages / (perf_counter() - started)
    consumer = _consumer(servers, topic)
    started = perf_counter()
    got = 0
    while got < messages:
        got += len(consumer.consume(min(10_000, messages - got), _WAIT_S))
    consumed = messages / (perf_counter() - started)
    consumer.close()
    return produced, consumed


if __name__ == "__main__":
    main()
