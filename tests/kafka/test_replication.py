"""Replication without clients: logs, watermarks and epochs under random faults from a seed.

No sockets are used and the clock is moved by hand, so a run is its seed and nothing else.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pytest

from tests.seeds import seed

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.log.batch import Batch, single_batch
from sojourn.kafka.log.log import Log
from sojourn.kafka.partition import Partition
from sojourn.kafka.refusal import Refused
from tests.kafka.batches import batch

BROKERS = (1, 2, 3)
NO_LIMIT = 1 << 60
PRODUCE_VERSION = 9


def made(value: bytes, base_offset: int = 0, epoch: int = 0, count: int = 1) -> Batch:
    return single_batch(batch(*[value] * count), PRODUCE_VERSION).placed(base_offset, epoch)


def values(log: Log, upto: int = NO_LIMIT) -> list[bytes]:
    """What is in the log, by offset; one record a batch."""
    return [b.data[61:] for b in log.read(log.start_offset, upto, NO_LIMIT, True)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, clock=ManualClock()) as cluster:
        yield cluster


class World:
    """One partition, random steps, and what must never change once it is committed."""

    def __init__(self, cluster: Cluster, name: str, rng: random.Random) -> None:
        self.cluster = cluster
        self.name = name
        self.rng = rng
        cluster.create_topic(name, replication_factor=3, config={"min.insync.replicas": 2})
        self.partition: Partition = cluster.partition(name, 0)
        self.committed: list[bytes] = []
        self.written = 0

    def step(self) -> None:
        rng, cluster = self.rng, self.cluster
        broker_id = rng.choice(BROKERS)
        # Faults come often, and time passes seldom: it takes several at once to do harm.
        kind = rng.choices(range(9), (4, 4, 4, 2, 2, 4, 1, 4, 2))[0]
        if kind <= 2:
            self._append()
        elif kind == 3:
            cluster.pause_follower(broker_id, self.name, 0)
        elif kind == 4:
            cluster.resume(broker_id, self.name, 0)
        elif kind == 5:
            cluster.lag(broker_id, self.name, 0, rng.choice((1, 100, 10_000)))
        elif kind == 6:
            if cluster.broker(broker_id).is_alive:
                cluster.stop_broker(broker_id)
            else:
                cluster.start_broker(broker_id)
        elif kind == 7:
            with contextlib.suppress(Refused):
                cluster.move_leader(self.name, 0, broker_id)
        else:
            cluster.clock.advance(rng.choice((1, 10, 100, 1_000, 10_000, 40_000)))
        self._check()

    def _append(self) -> None:
        with self.cluster.agenda:
            if self.partition.leader < 0:
                return
            self.written += 1
            record = single_batch(batch(b"%d" % self.written), PRODUCE_VERSION)
            with contextlib.suppress(Refused):
                self.partition.append(record, acks=self.rng.choice((-1, 1)))

    def _check(self) -> None:
        partition = self.partition
        if partition.leader < 0:
            return
        leader = partition.log
        assert leader.high_watermark <= leader.end_offset
        now = values(leader, leader.high_watermark)
        shared = min(len(now), len(self.committed))
        assert now[:shared] == self.committed[:shared], "what was committed has changed"
        if len(now) > len(self.committed):
            self.committed = now
        assert leader.end_offset >= len(self.committed), "what was committed is gone"
        assert values(leader)[: len(self.committed)] == self.committed
        for broker_id in partition.isr:
            if self.cluster.broker(broker_id).is_alive:
                assert partition.logs[broker_id].end_offset >= leader.high_watermark

    def heal(self) -> None:
        for broker_id in BROKERS:
            self.cluster.start_broker(broker_id)
            self.cluster.resume(broker_id, self.name, 0)
        self.cluster.clock.advance(60_000)
        self._check()
        partition = self.partition
        assert partition.isr == set(BROKERS)
        assert partition.high_watermark == partition.end_offset
        assert len({tuple(values(log)) for log in partition.logs.values()}) == 1
        begun = {  # the leader's own epoch may have no record yet
            tuple(epoch for epoch in log.epochs if epoch[1] < log.end_offset)
            for log in partition.logs.values()
        }
        assert len(begun) == 1


@pytest.mark.parametrize("run", range(100))
def test_what_is_committed_stays_whatever_happens(cluster: Cluster, run: int) -> None:
    world = World(cluster, f"run-{run}", random.Random(seed() + run))
    try:
        for _ in range(300):
            world.step()
        world.heal()
    finally:
        for broker_id in BROKERS:
            cluster.start_broker(broker_id)
        with cluster.agenda:
            cluster.controller.delete_topic(world.partition.topic)


# A log, against a list.


class ListLog:
    """A log as a list of records, each (batch number, its offset, its epoch)."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, int]] = []
        self.start = 0


@pytest.mark.parametrize("run", range(50))
def test_a_log_does_what_a_list_does(run: int) -> None:
    rng = random.Random(seed() + run)
    log, naive = Log(), ListLog()
    epoch = 0
    sizes: dict[int, int] = {}
    for number in range(120):
        kind = rng.randrange(8)
        end = naive.records[-1][1] + 1 if naive.records else naive.start
        end = max(end, naive.start)
        if kind <= 3:
            if rng.random() < 0.2:
                epoch += rng.randint(1, 3)
            count = rng.randint(1, 4)
            one = made(b"x" * rng.randint(1, 40), end, epoch, count)
            sizes[number] = len(one)
            log.append(one)
            naive.records += [(number, end + n, epoch) for n in range(count)]
        elif kind == 4 and naive.records:
            at = rng.randint(naive.start, end)
            log.truncate(at)
            cut = {n for n, offset, _ in naive.records if offset >= at}
            naive.records = [r for r in naive.records if r[0] not in cut]
            epoch = max(epoch, log.last_epoch)
        elif kind == 5 and naive.records:
            naive.start = rng.randint(naive.start, end)
            log.advance_start(naive.start)
            live = {n for n, offset, _ in naive.records if offset >= naive.start}
            naive.records = [r for r in naive.records if r[0] in live]
        else:
            _compare_read(log, naive, sizes, rng, end)
        expected_end = max(naive.records[-1][1] + 1 if naive.records else 0, naive.start)
        if naive.records or log.end_offset == naive.start:
            assert log.end_offset == expected_end
        assert log.start_offset == naive.start
        assert log.size == sum(sizes[n] for n in {n for n, _, _ in naive.records})


def _compare_read(
    log: Log, naive: ListLog, sizes: dict[int, int], rng: random.Random, end: int
) -> None:
    offset = rng.randint(naive.start, max(end, naive.start))
    bases = {n: o for n, o, _ in reversed(naive.records)}
    upto = rng.choice([NO_LIMIT, end, *bases.values()])
    limit = rng.choice([0, 70, 150, 300, NO_LIMIT])
    wanted = [
        n for n in dict.fromkeys(n for n, o, _ in naive.records if o >= offset) if bases[n] < upto
    ]
    taken: list[int] = []
    for number in wanted:
        if taken and sum(sizes[n] for n in taken) + sizes[number] > limit:
            break
        if not taken and sizes[number] > limit:
            taken.append(number)
            break
        taken.append(number)
    got = log.read(offset, upto, limit, True)
    assert [b.base_offset for b in got] == [bases[n] for n in taken]
    assert log.bytes_between(offset, upto) == sum(sizes[n] for n in wanted)


def test_an_epochs_end_is_where_the_next_begins() -> None:
    log = Log()
    for offset, epoch in ((0, 1), (1, 1), (2, 4), (3, 6)):
        log.append(made(b"x", offset, epoch))
    assert log.end_of_epoch(0) == (0, 0)
    assert log.end_of_epoch(1) == (1, 2)
    assert log.end_of_epoch(3) == (1, 2)
    assert log.end_of_epoch(4) == (4, 3)
    assert log.end_of_epoch(6) == (6, 4)
    assert log.end_of_epoch(7) == (-1, -1)
    log.truncate(2)
    assert log.epochs == [(1, 0)]


def test_a_leader_without_records_leaves_no_epoch_to_stumble_over(cluster: Cluster) -> None:
    """It led, wrote nothing and follows again: its empty epoch must not look like a parting."""
    cluster.create_topic("empty-epochs", replication_factor=3)
    partition = cluster.partition("empty-epochs", 0)
    for broker_id in (2, 3, 1, 3, 2, 1):
        cluster.move_leader("empty-epochs", 0, broker_id)
    with cluster.agenda:
        partition.append(single_batch(batch(b"x"), PRODUCE_VERSION), acks=-1)
    assert {log.end_offset for log in partition.logs.values()} == {1}
    assert partition.high_watermark == 1


def test_an_unclean_election_loses_records_and_the_replicas_agree(cluster: Cluster) -> None:
    cluster.create_topic(
        "unclean", replication_factor=3, config={"unclean.leader.election.enable": True}
    )
    partition = cluster.partition("unclean", 0)
    leader = partition.leader
    behind = [b for b in partition.replicas if b != leader]
    for broker_id in behind:
        cluster.pause_follower(broker_id, "unclean", 0)
    with cluster.agenda:
        partition.append(single_batch(batch(b"lost"), PRODUCE_VERSION), acks=1)
    cluster.clock.advance(60_000)
    assert partition.isr == {leader}
    assert partition.high_watermark == 1
    cluster.stop_broker(leader)
    assert partition.leader in behind
    for broker_id in behind:
        cluster.resume(broker_id, "unclean", 0)
    with cluster.agenda:
        partition.append(single_batch(batch(b"kept"), PRODUCE_VERSION), acks=1)
    cluster.start_broker(leader)
    assert len({tuple(values(log)) for log in partition.logs.values()}) == 1
    assert partition.isr == {1, 2, 3}
    assert b"kept" in values(partition.log)[0]


def test_without_a_clean_leader_the_partition_waits(cluster: Cluster) -> None:
    cluster.create_topic("waits", replication_factor=2)
    partition = cluster.partition("waits", 0)
    first, second = partition.replicas
    cluster.pause_follower(second, "waits", 0)
    with cluster.agenda:
        partition.append(single_batch(batch(b"x"), PRODUCE_VERSION), acks=1)
    cluster.clock.advance(60_000)
    cluster.stop_broker(first)
    assert partition.leader == -1
    cluster.start_broker(first)
    assert partition.leader == first
    assert partition.high_watermark == 1


def test_a_lagging_follower_is_late_by_the_clusters_clock(cluster: Cluster) -> None:
    cluster.create_topic("lags", replication_factor=2)
    partition = cluster.partition("lags", 0)
    cluster.lag(partition.replicas[1], "lags", 0, 500)
    with cluster.agenda:
        partition.append(single_batch(batch(b"x"), PRODUCE_VERSION), acks=-1)
    assert partition.high_watermark == 0
    cluster.clock.advance(500)
    assert partition.high_watermark == 0  # it has the record, and says so with its next fetch
    cluster.clock.advance(500)
    assert partition.high_watermark == 1


def test_records_are_kept_for_as_long_as_the_topic_says(cluster: Cluster) -> None:
    cluster.create_topic("kept", replication_factor=3, config={"retention.ms": 3_600_000})
    partition = cluster.partition("kept", 0)
    with cluster.agenda:
        first = batch(b"first", timestamp_ms=cluster.wall_ms())
        partition.append(single_batch(first, PRODUCE_VERSION), acks=-1)
    cluster.clock.advance(3_000_000)
    with cluster.agenda:
        later = batch(b"second", timestamp_ms=cluster.wall_ms())
        partition.append(single_batch(later, PRODUCE_VERSION), acks=-1)
    cluster.clock.advance(599_999)
    assert partition.log.start_offset == 0
    cluster.clock.advance(300_001)  # it is looked at every five minutes
    assert {log.start_offset for log in partition.logs.values()} == {1}
    cluster.clock.advance(24 * 3_600_000)
    assert {log.start_offset for log in partition.logs.values()} == {2}
    assert partition.end_offset == 2


def test_records_are_kept_up_to_a_size(cluster: Cluster) -> None:
    size = len(batch(bytes(1_000)))
    cluster.create_topic("small", config={"retention.bytes": 3 * size, "retention.ms": -1})
    partition = cluster.partition("small", 0)
    for _ in range(10):
        with cluster.agenda:
            partition.append(single_batch(batch(bytes(1_000)), PRODUCE_VERSION), acks=1)
    cluster.clock.advance(300_000)
    assert partition.log.start_offset == 7
    assert partition.log.size == 3 * size
