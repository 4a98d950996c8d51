"""An administrator ends a transaction: markers that no coordinator asked for."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.transactions import State
from sojourn.kafka.wire import ErrorCode
from tests.kafka.in_process import ask
from tests.kafka.transactions.producer import (
    TIMEOUT_MS,
    Producer,
    freeze,
    open_transaction,
    resume,
    written,
)


def write_marker(
    cluster: Cluster, producer: Producer, *partitions: int, **fields: Any
) -> list[ErrorCode] | None:
    """Abort the producer's transaction, as an administrator does; None: it waits."""
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": list(partitions or (0,))}],
        **fields,
    }
    leader = cluster.leader("t", 0)
    answer = ask(cluster, leader, "write_txn_markers", 1, {"markers": [marker]})
    if answer.fields is None:
        return None
    (topic,) = answer.fields["markers"][0]["topics"]
    return [partition["error_code"] for partition in topic["partitions"]]


def test_an_end_is_not_written_after_that_of_a_newer_coordinator(cluster: Cluster) -> None:
    producer = open_transaction(cluster)
    assert write_marker(cluster, producer, coordinator_epoch=7) == [ErrorCode.none]
    assert producer.end() is ErrorCode.none
    assert producer.state() is State.COMPLETE_COMMIT
    assert cluster.partition("t", 0).end_offset == 2  # the record, and the administrator's marker
    assert written(cluster) == []


def test_a_transaction_hangs_if_brokers_do_not_ask_and_the_administrator_ends_it(
    manual_clock: ManualClock,
) -> None:
    config = {"transaction.partition.verification.enable": False}
    with Cluster(clock=manual_clock, config=config) as cluster:
        cluster.create_topic("t", partitions=2)
        producer = open_transaction(cluster)
        producer.end()
        assert producer.write(b"late") is ErrorCode.none
        manual_clock.advance(2 * TIMEOUT_MS)  # the coordinator knows nothing of it
        log = cluster.partition("t", 0).log
        assert (log.last_stable_offset, log.high_watermark) == (2, 3)
        assert write_marker(cluster, producer) == [ErrorCode.none]
        assert log.last_stable_offset == log.high_watermark == 4
        assert written(cluster) == [b"a"]


def test_an_administrators_end_waits_for_the_replicas(cluster: Cluster) -> None:
    producer = open_transaction(cluster)
    followers = freeze(cluster)
    assert write_marker(cluster, producer) is None
    assert cluster.purgatories.produce.watched == 1
    resume(cluster, followers)
    assert cluster.purgatories.produce.watched == 0
    assert write_marker(cluster, producer) == [ErrorCode.none]


def test_an_administrators_end_is_refused_for_each_partition_by_itself(cluster: Cluster) -> None:
    producer = open_transaction(cluster)
    assert write_marker(cluster, producer, 0, 7, producer_epoch=-1) == [
        ErrorCode.invalid_producer_epoch,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert cluster.partition("t", 0).end_offset == 1
