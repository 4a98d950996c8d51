"""Real clients write in transactions while brokers stop and leaders move."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka import Cluster
from tests.kafka.transactional_clients import Aiokafka, Librdkafka, Transactional
from tests.seeds import seed

pytestmark = [
    # What is open in a client that was fenced is of no interest any more.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PARTITIONS = 3

#: Not kafka-python: if a connection breaks in the middle of a commit it waits for ever, and has
#: nothing to set against that.
CLIENTS = (Librdkafka, Aiokafka)


class Life(threading.Thread):
    """Producers of one kind and one transactional id, one after the other."""

    def __init__(self, kind: type[Transactional], cluster: Cluster, rng: random.Random) -> None:
        super().__init__(name=kind.__name__, daemon=True)
        self.kind = kind
        self.cluster = cluster
        self.random = rng
        self.is_over = threading.Event()
        self.outcomes: dict[int, str] = {}  # of each transaction, by its number
        self.values: dict[int, dict[int, list[bytes]]] = {}

    def run(self) -> None:
        while not self.is_over.is_set():
            # Whatever a client makes of a fault: the next one begins, and takes the place of it.
            with contextlib.suppress(Exception), self._producer() as producer:
                for _ in range(20):
                    if self.is_over.is_set():
                        return
                    self._transaction(producer)

    @contextlib.contextmanager
    def _producer(self) -> Iterator[Transactional]:
        producer = self.kind(self.cluster.bootstrap_servers, self.kind.__name__)
        try:
            yield producer
        finally:
            with contextlib.suppress(Exception):
                producer.close()

    def _transaction(self, producer: Transactional) -> None:
        number = len(self.outcomes)
        self.outcomes[number] = "aborted"
        written = self.values[number] = defaultdict(list)
        producer.begin()
        for count in range(self.random.randint(1, 4)):
            partition = self.random.randrange(PARTITIONS)
            value = f"{self.kind.__name__} {number} {count}".encode()
            written[partition].append(value)
            producer.send("t", value, partition)
        if self.random.random() < 0.3:
            producer.abort()
        else:
            self.outcomes[number] = "unknown"
            producer.commit()
            self.outcomes[number] = "committed"

    def close_all(self) -> None:
        """Take the place of the last producer, whose transaction ends with that."""
        self.kind(self.cluster.bootstrap_servers, self.kind.__name__).close()

    def check(self, read: dict[int, list[bytes]]) -> None:
        mine = self.kind.__name__
        expected: dict[int, list[bytes]] = {index: [] for index in read}
        for number, outcome in self.outcomes.items():
            start = f"{mine} {number} ".encode()
            was_read = any(value.startswith(start) for values in read.values() for value in values)
            if outcome == "committed" or (outcome == "unknown" and was_read):
                for index, values in self.values[number].items():
                    expected[index] += values
        for index, values in read.items():
            assert [one for one in values if one.startswith(mine.encode())] == expected[index]


def run(faults: int) -> list[Life]:
    rng = random.Random(seed())
    config = {"min.insync.replicas": 2, "auto.create.topics.enable": False}
    with Cluster(brokers=3, config=config) as cluster:
        cluster.create_topic("t", PARTITIONS, 3)
        lives = [Life(kind, cluster, random.Random(rng.random())) for kind in CLIENTS]
        for life in lives:
            life.kind.or_skip()
            life.start()
        for _ in range(faults):
            done = sum(len(life.outcomes) for life in lives)
            cluster.wait_until(
                lambda done=done: sum(len(life.outcomes) for life in lives) > done,  # type: ignore[misc]
                60,
                "the next transaction",
            )
            fault(cluster, rng)
        for broker in cluster.brokers:
            cluster.start_broker(broker.id)
        for life in lives:
            life.is_over.set()
        for life in lives:
            life.join(120)
            assert not life.is_alive()
            life.close_all()
        cluster.wait_until(lambda: not cluster.transactions.ending, 60, "the end of them all")
        read = {
            index: [record.value or b"" for record in cluster.records("t", index)]
            for index in range(PARTITIONS)
        }
        assert all(
            cluster.partition("t", index).log.last_stable_offset
            == cluster.partition("t", index).end_offset
            for index in range(PARTITIONS)
        )
    for life in lives:
        life.check(read)
    return lives


def fault(cluster: Cluster, rng: random.Random) -> None:
    broker, index = rng.choice(cluster.brokers), rng.randrange(PARTITIONS)
    match rng.randrange(3):
        case 0:
            for other in cluster.brokers:
                cluster.start_broker(other.id)
            cluster.stop_broker(broker.id)
        case 1:
            cluster.start_broker(broker.id)
        case 2:
            with cluster.agenda:  # who is in sync stays so
                partition = cluster.partition("t", index)
                others = [one for one in sorted(partition.isr) if cluster.broker(one).is_alive]
                if others:
                    cluster.move_leader("t", index, rng.choice(others))


def test_each_client_keeps_its_word_while_brokers_come_and_go() -> None:
    lives = run(faults=10)
    assert any("committed" in life.outcomes.values() for life in lives)


@pytest.mark.nightly
def test_each_client_keeps_its_word_through_many_faults() -> None:
    lives = run(faults=1_000)
    assert all("committed" in life.outcomes.values() for life in lives)
