"""What Kafka does by time and no scenario can wait for: on a clock that is moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.kafka import Cluster
from tests.kafka.batches import batch
from tests.kafka.conformance.exchange import Exchange
from tests.kafka.conformance.scenarios.commits import commit
from tests.kafka.conformance.scenarios.groups import join, sync
from tests.kafka.wire_client import connect, only
from tests.until import PATIENCE_S, until

# A day of Kafka's defaults in ten minutes: each second of a moved clock costs a little real time.
CONFIG = {
    "offsets.retention.minutes": 70,
    "offsets.retention.check.interval.ms": 10_000,
    "producer.id.expiration.ms": 600_000,
    "producer.id.expiration.check.interval.ms": 10_000,
}
DAY_MS = 600_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(clock=ManualClock(), config=CONFIG) as cluster:
        cluster.create_topic("t")
        yield cluster


def exchange_with(cluster: Cluster) -> Exchange:
    broker = cluster.brokers[0]
    return Exchange(broker.host, broker.port)


def test_offsets_are_kept_from_their_commit_if_nobody_was_ever_a_member(cluster: Cluster) -> None:
    with closing(exchange_with(cluster)) as exchange:
        exchange.ask("offset_commit", 7, **commit("g"))
        cluster.clock.advance(4 * DAY_MS)
        exchange.ask("offset_commit", 7, **commit("h"))
        cluster.clock.advance(3 * DAY_MS - 1)
        assert set(cluster.groups) == {"g", "h"}
        cluster.clock.advance(10_000)  # it is looked at every ten seconds
        assert set(cluster.groups) == {"h"}
        cluster.clock.advance(4 * DAY_MS)
        assert set(cluster.groups) == set()


def test_offsets_are_kept_from_when_the_last_member_went(cluster: Cluster) -> None:
    with closing(exchange_with(cluster)) as exchange:
        member = exchange.ask("join_group", 2, **join("g"))["member_id"]
        exchange.ask("sync_group", 2, **sync("g", member))
        asked = commit("g", generation=1, member_id=member)
        assert (
            exchange.ask("offset_commit", 7, **asked)["topics"][0]["partitions"][0]["error_code"]
            == 0
        )
        for _ in range(20):  # it lives, and so do its offsets
            cluster.clock.advance(5_000)
            beat = {"group_id": "g", "generation_id": 1, "member_id": member}
            assert exchange.ask("heartbeat", 3, **beat)["error_code"] == 0
        cluster.clock.advance(10_000)  # its session ends
        cluster.clock.advance(7 * DAY_MS - 1)
        assert set(cluster.groups) == {"g"}
        cluster.clock.advance(10_000)
        assert set(cluster.groups) == set()


def numbered(cluster: Cluster, sequence: int) -> ErrorCode:
    records = batch(
        b"x",
        producer_id=1,
        producer_epoch=0,
        base_sequence=sequence,
        timestamp_ms=cluster.wall_ms(),
    )
    with connect(cluster) as wire:
        code: ErrorCode = only(wire.ask(wire.produce("t", records=records))).error_code
    return code


def test_a_producer_is_forgotten_after_a_day(cluster: Cluster) -> None:
    assert numbered(cluster, 0) is ErrorCode.none
    cluster.clock.advance(DAY_MS - 10_000)
    assert numbered(cluster, 5) is ErrorCode.out_of_order_sequence_number
    cluster.clock.advance(10_000)
    assert numbered(cluster, 5) is ErrorCode.none
    assert len(cluster.partition("t", 0).log.producers) == 1


def test_producers_remember_numbers_and_not_batches(cluster: Cluster) -> None:
    with connect(cluster) as wire:
        records = batch(bytes(1_000_000), producer_id=1, producer_epoch=0, base_sequence=0)
        wire.ask(wire.produce("t", records=records))
        wire.ask(wire.delete_records("t", -1))
    log = cluster.partition("t", 0).log
    assert log.size == 0
    producers = log.producers
    (known,) = producers._by_id.values()
    assert not any(hasattr(taken, "data") for taken in known.batches)


def test_a_fetch_leaves_the_purgatory_with_its_client(cluster: Cluster) -> None:
    wire = connect(cluster)
    wire.send(wire.fetch("t", {0: 0}, max_wait_ms=3_600_000))
    cluster.wait_until(lambda: cluster.purgatories.fetch.watched == 1, PATIENCE_S)
    wire.sock.close()
    cluster.wait_until(lambda: cluster.purgatories.fetch.watched == 0, PATIENCE_S)
    assert cluster.purgatories.fetch.delayed == 0


# Metadata reaches one broker after the other.


def codes(cluster: Cluster, topic: str) -> list[int]:
    found = []
    for broker in cluster.brokers:
        with closing(Exchange(broker.host, broker.port)) as exchange:
            asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
            (told,) = exchange.ask("metadata", 9, **asked)["topics"]
            found.append(told["error_code"])
    return found


def created(cluster: Cluster, topic: str) -> None:
    with connect(cluster) as wire:
        assert only(wire.ask(wire.create_topics(topic))).error_code is ErrorCode.none


def test_brokers_hear_of_a_new_topic_one_after_the_other() -> None:
    config = {"sojourn.metadata.delay.ms": 50}
    with Cluster(brokers=3, clock=ManualClock(), config=config) as cluster:
        created(cluster, "new")
        assert codes(cluster, "new") == [3, 3, 3]
        leader = cluster.leader("new", 0)
        with connect(cluster, leader) as wire:
            unheard = only(wire.ask(wire.produce("new")))
            assert unheard.error_code is ErrorCode.unknown_topic_or_partition
            cluster.clock.advance(50)
            assert codes(cluster, "new") == [0, 3, 3]
            cluster.clock.advance(50)
            assert codes(cluster, "new") == [0, 0, 3]
            cluster.clock.advance(50)
            assert codes(cluster, "new") == [0, 0, 0]
            assert only(wire.ask(wire.produce("new"))).error_code is ErrorCode.none
        cluster.create_topic("at-once")
        assert codes(cluster, "at-once") == [0, 0, 0]


def test_on_a_clock_moved_by_hand_all_brokers_know_at_once() -> None:
    with Cluster(brokers=2, clock=ManualClock()) as cluster:
        created(cluster, "new")
        assert codes(cluster, "new") == [0, 0]


def test_in_real_time_a_new_topic_is_known_after_a_while() -> None:
    with Cluster(brokers=2) as cluster:
        assert cluster.metadata_delay_ms > 0
        created(cluster, "new")
        until(lambda: codes(cluster, "new") == [0, 0])


def test_a_broker_can_be_held_back_by_hand() -> None:
    with Cluster(brokers=2, clock=ManualClock()) as cluster:
        cluster.create_topic("old")
        cluster.pause_metadata(2)
        cluster.create_topic("new")
        assert codes(cluster, "old") == [0, 0]
        assert codes(cluster, "new") == [0, 3]
        cluster.resume_metadata(2)
        assert codes(cluster, "new") == [0, 0]
