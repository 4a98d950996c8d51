"""The time that a transaction has, and how long its id is remembered."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.transactions import State
from sojourn.kafka.wire import ErrorCode
from tests.kafka.in_process import coordinator
from tests.kafka.transactions.producer import TIMEOUT_MS, Producer, open_transaction, written


def test_each_transaction_has_its_time_from_its_first_partition_on(
    cluster: Cluster, manual_clock: ManualClock
) -> None:
    producer = Producer(cluster)
    manual_clock.advance(10 * TIMEOUT_MS)  # it has not begun
    for _ in range(3):
        assert producer.add(0) is ErrorCode.none
        assert cluster.purgatories.transaction.watched == 1
        manual_clock.advance(TIMEOUT_MS - 1)
        assert producer.end() is ErrorCode.none
        assert cluster.purgatories.transaction.watched == 0
    producer.add(0)
    manual_clock.advance(TIMEOUT_MS)
    assert producer.state() is State.COMPLETE_ABORT
    assert producer.end() is ErrorCode.producer_fenced
    assert producer.add(0) is ErrorCode.producer_fenced


def test_a_transaction_is_aborted_in_time_though_its_coordinator_is_down(
    cluster: Cluster, manual_clock: ManualClock
) -> None:
    producer = open_transaction(cluster)
    cluster.stop_broker(coordinator(cluster, "x"))
    manual_clock.advance(TIMEOUT_MS)
    assert producer.state() is State.COMPLETE_ABORT
    assert written(cluster) == []


def test_an_id_that_nobody_uses_is_forgotten(manual_clock: ManualClock) -> None:
    config = {
        "transactional.id.expiration.ms": 100_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 1_000,
    }
    with Cluster(clock=manual_clock, config=config) as cluster:
        cluster.create_topic("t", partitions=2)
        idle, busy = Producer(cluster, "idle"), Producer(cluster, "busy", 200_000)
        busy.add(0)
        manual_clock.advance(101_000)
        assert list(cluster.transactions) == ["busy"]
        assert idle.add(0) is ErrorCode.invalid_producer_id_mapping


def test_an_id_expires_when_it_is_not_used_and_not_while_its_transaction_is_open(
    manual_clock: ManualClock,
) -> None:
    with Cluster(clock=manual_clock, config={"transactional.id.expiration.ms": 10_000}) as cluster:
        cluster.create_topic("t", partitions=2)
        idle, busy = Producer(cluster, "idle"), Producer(cluster, "busy")
        busy.add(0)
        manual_clock.advance(9_999)
        cluster.transactions.expire()
        assert set(cluster.transactions) == {"idle", "busy"}
        manual_clock.advance(1)
        cluster.transactions.expire()
        assert set(cluster.transactions) == {"busy"}
        assert idle.add(0) is ErrorCode.invalid_producer_id_mapping
        assert Producer(cluster, "idle").id not in (idle.id, busy.id)
