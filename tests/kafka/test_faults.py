"""Idempotent producers under faults: what was acknowledged is there, once, in order."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.seeds import seed

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")
pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

import confluent_kafka
from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.kafka import Cluster
from tests.kafka.batches import batch
from tests.kafka.client_libraries import quiet
from tests.kafka.wire_client import WireClient, connect, only
from tests.until import PATIENCE_S, until

PARTITIONS = 4


class Load:
    """A thread that writes 0, 1, 2, … to each partition, and what came of it."""

    def __init__(self, cluster: Cluster, topic: str, pause_s: float = 0.001) -> None:
        self._topic = topic
        self._pause_s = pause_s
        self._stopping = False
        self.sent = 0
        self.acknowledged: dict[int, dict[int, Any]] = defaultdict(dict)  # value -> offset
        self.failed: list[Any] = []
        self._producer = confluent_kafka.Producer(
            quiet(
                cluster.bootstrap_servers,
                **{
                    "enable.idempotence": True,
                    "linger.ms": 1,
                    "retry.backoff.ms": 5,
                    "reconnect.backoff.ms": 5,
                    "reconnect.backoff.max.ms": 50,
                    "message.timeout.ms": 60_000,
                    "request.timeout.ms": 2_000,
                    "topic.metadata.refresh.fast.interval.ms": 20,
                    "log_level": 0,
                },
            )
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._thread.join()
        assert self._producer.flush(2 * PATIENCE_S) == 0, "not all were delivered"

    def _run(self) -> None:
        while not self._stopping:
            for partition in range(PARTITIONS):
                self._producer.produce(
                    self._topic,
                    b"%d" % self.sent,
                    partition=partition,
                    on_delivery=self._delivered,
                )
            self.sent += 1
            self._producer.poll(0)
            time.sleep(self._pause_s)  # the load's rate, not a wait for something

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()][int(message.value())] = message.offset()
        else:
            self.failed.append(error)


def read_back(cluster: Cluster, topic: str, partition: int) -> list[tuple[int, int]]:
    """Everything committed, as (value, offset), by a consumer."""
    end = cluster.partition(topic, partition).high_watermark
    consumer = confluent_kafka.Consumer(
        quiet(cluster.bootstrap_servers, **{"group.id": "none", "enable.auto.commit": False})
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    got: list[tuple[int, int]] = []
    try:
        while len(got) < end:
            messages = consumer.consume(end - len(got), PATIENCE_S)
            assert messages, f"{len(got)} records came, {end} are committed"
            for message in messages:
                assert message.error() is None
                got.append((int(message.value() or b""), message.offset() or 0))
    finally:
        consumer.close()
    return got


class Faults:
    """Random faults that never undo what Kafka promises, and their undoing."""

    def __init__(self, cluster: Cluster, topic: str, rng: random.Random) -> None:
        self._cluster = cluster
        self._topic = topic
        self._rng = rng
        self._stopped: int | None = None
        self._kinds: list[Callable[[], None]] = [
            self._pause,
            self._resume,
            self._lag,
            self._stop_or_start,
            self._move_leader,
            self._elect,
        ]

    def strike(self) -> None:
        self._rng.choice(self._kinds)()

    def heal(self) -> None:
        if self._stopped is not None:
            self._cluster.start_broker(self._stopped)
        for partition in range(PARTITIONS):
            for broker_id in (1, 2, 3):
                self._cluster.resume(broker_id, self._topic, partition)

    def _replica(self) -> tuple[int, str, int]:
        return self._rng.randint(1, 3), self._topic, self._rng.randrange(PARTITIONS)

    def _pause(self) -> None:
        self._cluster.pause_follower(*self._replica())

    def _resume(self) -> None:
        self._cluster.resume(*self._replica())

    def _lag(self) -> None:
        self._cluster.lag(*self._replica(), self._rng.randint(1, 50))

    def _stop_or_start(self) -> None:
        if self._stopped is None:
            self._stopped = self._rng.randint(1, 3)
            self._cluster.stop_broker(self._stopped)
        else:
            self._cluster.start_broker(self._stopped)
            self._stopped = None

    def _move_leader(self) -> None:
        partition = self._cluster.partition(self._topic, self._rng.randrange(PARTITIONS))
        with self._cluster.agenda:
            candidates = [
                broker_id
                for broker_id in partition.isr
                if self._cluster.broker(broker_id).is_alive and broker_id != partition.leader
            ]
            if candidates:
                target = self._rng.choice(candidates)
                self._cluster.move_leader(self._topic, partition.index, target)

    def _elect(self) -> None:
        self._cluster.elect(self._topic, self._rng.randrange(PARTITIONS))


def under_faults(count: int) -> None:
    rng = random.Random(seed())
    with Cluster(brokers=3, config={"replica.lag.time.max.ms": 100}) as cluster:
        cluster.create_topic(
            "t", PARTITIONS, replication_factor=3, config={"min.insync.replicas": 2}
        )
        load = Load(cluster, "t")
        faults = Faults(cluster, "t", rng)
        for _ in range(count):
            faults.strike()
            time.sleep(rng.uniform(0, 0.04))  # the clients are real, and so is their time
        faults.heal()
        load.stop()
        assert not load.failed, load.failed[:3]
        for index in range(PARTITIONS):
            partition = cluster.partition("t", index)
            until(lambda p=partition: p.high_watermark == p.end_offset, "the end is committed")  # type: ignore[misc]
            acknowledged = load.acknowledged[index]
            assert len(acknowledged) == load.sent
            got = read_back(cluster, "t", index)
            assert [value for value, _ in got] == list(range(load.sent))
            # librdkafka may learn that a record was written without learning where.
            for value, offset in got:
                assert acknowledged[value] in (offset, None)
            until(
                lambda p=partition: len({log.end_offset for log in p.logs.values()}) == 1,  # type: ignore[misc]
                "the replicas agree",
            )
            assert (
                len(
                    {
                        tuple(b.data for b in log.read(0, 1 << 60, 1 << 60, True))
                        for log in partition.logs.values()
                    }
                )
                == 1
            )
        assert cluster.purgatories.produce.watched == 0


def test_sixty_faults_lose_and_repeat_nothing() -> None:
    under_faults(60)


@pytest.mark.nightly
def test_a_thousand_faults_lose_and_repeat_nothing() -> None:
    under_faults(1_000)


def test_a_paused_follower_and_retries_neither_repeat_nor_lose() -> None:
    with Cluster(brokers=3, clock=ManualClock()) as cluster:
        cluster.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
        leader = cluster.leader("t", 0)
        follower = next(b for b in (1, 2, 3) if b != leader)
        cluster.pause_follower(follower, "t", 0)
        delivered: list[tuple[Any, Any]] = []
        producer = confluent_kafka.Producer(
            quiet(
                cluster.bootstrap_servers,
                **{
                    "enable.idempotence": True,
                    "request.timeout.ms": 1_000,
                    "retry.backoff.ms": 1,
                    "linger.ms": 0,
                },
            )
        )
        produce = cluster.purgatories.produce
        for value in range(5):
            producer.produce(
                "t", b"%d" % value, on_delivery=lambda e, m: delivered.append((e, m.offset()))
            )
            producer.flush(0.01)
        for retry in range(4):  # each one is answered with a time-out, and comes again
            cluster.wait_until(lambda: produce.watched == 1, PATIENCE_S)
            cluster.clock.advance(1_000)
            assert produce.metrics().expired == retry + 1
        assert delivered == []
        cluster.wait_until(lambda: produce.watched == 1, PATIENCE_S)
        cluster.resume(follower, "t", 0)
        assert producer.flush(PATIENCE_S) == 0
        assert [error for error, _ in delivered] == [None] * 5
        assert sorted(offset for _, offset in delivered) == list(range(5))
        assert cluster.partition("t", 0).end_offset == 5
        assert [value for value, _ in read_back(cluster, "t", 0)] == list(range(5))
        assert produce.watched == 0


# Sequences, by hand.


@pytest.fixture
def solo() -> Iterator[Cluster]:
    with Cluster(clock=ManualClock()) as cluster:
        cluster.create_topic("t")
        yield cluster


def numbered(
    wire: WireClient, sequence: int, count: int = 1, producer_id: int = 1, epoch: int = 0
) -> tuple[ErrorCode, int]:
    records = batch(
        *[b"x"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    result = only(wire.ask(wire.produce("t", records=records)))
    return result.error_code, result.base_offset


def test_a_batch_sent_again_gets_the_offset_it_had(solo: Cluster) -> None:
    with connect(solo) as wire:
        for sequence in range(6):
            assert numbered(wire, sequence) == (ErrorCode.none, sequence)
        for sequence in range(1, 6):
            assert numbered(wire, sequence) == (ErrorCode.none, sequence)
        assert numbered(wire, 0)[0] is ErrorCode.out_of_order_sequence_number  # too long ago
    assert solo.partition("t", 0).end_offset == 6


def test_a_gap_is_refused(solo: Cluster) -> None:
    with connect(solo) as wire:
        assert numbered(wire, 0, count=3) == (ErrorCode.none, 0)
        assert numbered(wire, 4)[0] is ErrorCode.out_of_order_sequence_number
        assert numbered(wire, 3) == (ErrorCode.none, 3)


def test_those_sent_after_a_batch_that_was_refused_come_out_of_order() -> None:
    with Cluster(brokers=2, clock=ManualClock()) as cluster:
        cluster.create_topic("t", replication_factor=2, config={"min.insync.replicas": 2})
        leader = cluster.leader("t", 0)
        with connect(cluster, leader) as wire:
            assert numbered(wire, 0) == (ErrorCode.none, 0)
            cluster.stop_broker(3 - leader)
            assert numbered(wire, 1)[0] is ErrorCode.not_enough_replicas
            # A retry of what stands in the log, too.
            assert numbered(wire, 0)[0] is ErrorCode.not_enough_replicas
            cluster.start_broker(3 - leader)
            assert numbered(wire, 0) == (ErrorCode.none, 0)
            assert numbered(wire, 2)[0] is ErrorCode.out_of_order_sequence_number
            assert numbered(wire, 1) == (ErrorCode.none, 1)
            assert numbered(wire, 2) == (ErrorCode.none, 2)
            assert numbered(wire, 9)[0] is ErrorCode.out_of_order_sequence_number


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero(solo: Cluster) -> None:
    with connect(solo) as wire:
        assert numbered(wire, 0, epoch=1)[0] is ErrorCode.none
        assert numbered(wire, 1, epoch=0)[0] is ErrorCode.invalid_producer_epoch
        assert numbered(wire, 5, epoch=2)[0] is ErrorCode.out_of_order_sequence_number
        assert numbered(wire, 0, epoch=2)[0] is ErrorCode.none


def test_sequences_go_round_at_the_end_of_their_range(solo: Cluster) -> None:
    last = 2**31 - 1
    with connect(solo) as wire:
        assert numbered(wire, last - 1, count=2)[0] is ErrorCode.none
        assert numbered(wire, 0) == (ErrorCode.none, 2)


def test_producers_do_not_mind_each_other(solo: Cluster) -> None:
    with connect(solo) as wire:
        assert numbered(wire, 0, producer_id=1) == (ErrorCode.none, 0)
        assert numbered(wire, 0, producer_id=2) == (ErrorCode.none, 1)
        assert numbered(wire, 1, producer_id=1) == (ErrorCode.none, 2)


def test_a_new_leader_knows_what_the_old_one_had_taken() -> None:
    with Cluster(brokers=2, clock=ManualClock()) as cluster:
        cluster.create_topic("t", replication_factor=2)
        first = cluster.leader("t", 0)
        second = 3 - first
        with connect(cluster, first) as wire:
            assert numbered(wire, 0) == (ErrorCode.none, 0)
        cluster.move_leader("t", 0, second)
        with connect(cluster, second) as wire:
            assert numbered(wire, 0) == (ErrorCode.none, 0)
            assert numbered(wire, 1) == (ErrorCode.none, 1)
