"""The end of a transaction: its markers wait for leaders and replicas."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.log.end_marker import EndMarker, marker_of
from sojourn.kafka.transactions import State, markers
from sojourn.kafka.wire import ErrorCode
from tests.kafka.in_process import coordinator
from tests.kafka.transactions.producer import Producer, freeze, open_transaction, resume, written


def test_a_transaction_is_over_when_its_end_is_replicated(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0, 1)
    assert producer.write(b"a") is ErrorCode.none
    followers = freeze(cluster)
    assert producer.end() is ErrorCode.none  # decided
    assert producer.state() is State.PREPARE_COMMIT
    assert cluster.purgatories.transaction_marker.delayed == 1
    assert cluster.partition("t", 1).log.last_stable_offset == 1  # it has the end
    assert cluster.partition("t", 0).log.last_stable_offset == 0
    assert producer.add(0) is ErrorCode.concurrent_transactions
    assert producer.end() is ErrorCode.concurrent_transactions
    assert producer.end(committed=False) is ErrorCode.concurrent_transactions
    assert producer.start()["error_code"] is ErrorCode.concurrent_transactions
    resume(cluster, followers)
    assert producer.state() is State.COMPLETE_COMMIT
    assert cluster.purgatories.transaction_marker.watched == 0
    assert written(cluster) == [b"a"]
    assert producer.end() is ErrorCode.none


def test_the_next_leader_writes_the_end_that_the_last_one_took_with_it(cluster: Cluster) -> None:
    producer = open_transaction(cluster)
    old, partition = cluster.leader("t", 0), cluster.partition("t", 0)
    followers = freeze(cluster)
    producer.end()
    assert partition.end_offset == 2
    cluster.stop_broker(old)
    resume(cluster, followers)
    assert partition.leader != old
    assert producer.state() is State.COMPLETE_COMMIT
    assert written(cluster) == [b"a"]
    cluster.start_broker(old)
    assert partition.logs[old].last_stable_offset == 2


def test_an_end_waits_until_enough_replicas_are_in_sync(
    cluster: Cluster, manual_clock: ManualClock
) -> None:
    producer = open_transaction(cluster)
    followers = freeze(cluster)
    producer.write(b"b", acks=1)
    manual_clock.advance(50_000)  # they drop out of sync
    assert cluster.partition("t", 0).isr == {cluster.leader("t", 0)}
    assert producer.end(committed=False) is ErrorCode.none
    assert producer.state() is State.PREPARE_ABORT
    assert cluster.partition("t", 0).end_offset == 2  # not even written
    resume(cluster, followers)
    assert producer.state() is State.COMPLETE_ABORT
    assert written(cluster) == []
    assert written(cluster, committed=False) == [b"a", b"b"]


def test_an_end_waits_for_a_leader(cluster: Cluster) -> None:
    producer = open_transaction(cluster)
    cluster.pause_elections()
    cluster.stop_broker(cluster.leader("t", 0))
    assert producer.end() is ErrorCode.none
    assert producer.state() is State.PREPARE_COMMIT
    cluster.resume_elections()
    assert producer.state() is State.COMPLETE_COMMIT
    assert written(cluster) == [b"a"]


def test_an_end_that_waits_has_no_timeout_that_anybody_could_see(
    cluster: Cluster, manual_clock: ManualClock
) -> None:
    producer = Producer(cluster)
    producer.add(0)
    freeze(cluster)
    producer.end()
    manual_clock.advance(24 * 3_600_000)
    assert producer.state() is State.PREPARE_COMMIT
    assert cluster.purgatories.transaction_marker.metrics().expired == 0


def test_an_end_is_not_given_up_however_long_it_takes(
    cluster: Cluster, manual_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "_TIMEOUT_MS", 10_000)
    producer = Producer(cluster)
    producer.add(0)
    followers = freeze(cluster)
    producer.end()
    manual_clock.advance(25_000)
    assert cluster.purgatories.transaction_marker.metrics().expired == 2
    assert cluster.purgatories.transaction_marker.watched == 1
    resume(cluster, followers)
    assert producer.state() is State.COMPLETE_COMMIT


def test_each_end_has_the_epoch_of_its_coordinator(cluster: Cluster) -> None:
    producer = Producer(cluster)
    log = cluster.partition("t", 0).log
    for stopped in range(2):
        producer.add(0)
        producer.end()
        (end,) = log.read(log.end_offset - 1, log.end_offset, 0, at_least_one=True)
        assert marker_of(end) == EndMarker(True, stopped)
        cluster.stop_broker(cluster.partition("t", 0).replicas[2])


def test_a_transaction_outlives_its_coordinator(cluster: Cluster) -> None:
    producer = open_transaction(cluster)
    gone = coordinator(cluster, "x")
    cluster.stop_broker(gone)
    assert coordinator(cluster, "x") != gone
    assert producer.write(b"b") is ErrorCode.none
    assert producer.end() is ErrorCode.none
    assert written(cluster) == [b"a", b"b"]


def test_a_new_leader_knows_which_transactions_are_open_and_which_were_aborted(
    cluster: Cluster,
) -> None:
    one, two = Producer(cluster, "one"), Producer(cluster, "two")
    for producer in (one, two):
        producer.add(0)
        producer.write(producer.name.encode())
    one.end(committed=False)
    one.add(0)
    one.write(b"again")
    cluster.stop_broker(cluster.leader("t", 0))
    log = cluster.partition("t", 0).log
    assert log.isolation.ongoing == {two.id: 1, one.id: 3}
    assert [one.first_offset for one in log.isolation.aborted(0, 4)] == [0]
    two.end()
    one.end()
    assert written(cluster) == [b"two", b"again"]


def test_a_topic_that_is_deleted_needs_no_end(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0, 1)
    producer.write(b"a")
    freeze(cluster)
    producer.end()
    assert producer.state() is State.PREPARE_COMMIT
    cluster.delete_topic("t")
    assert producer.state() is State.COMPLETE_COMMIT


def test_a_record_that_comes_after_the_end_is_refused(cluster: Cluster) -> None:
    producer = open_transaction(cluster)
    producer.end()
    assert producer.write(b"late") is ErrorCode.transaction_abortable
    assert cluster.partition("t", 0).end_offset == 2
