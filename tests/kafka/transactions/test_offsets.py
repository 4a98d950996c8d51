"""A group's offsets, committed in a transaction: pending until it ends."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.wire import ErrorCode
from tests.kafka.in_process import coordinator
from tests.kafka.transactions.producer import Producer


def test_pending_offsets_outlive_the_groups_coordinator(cluster: Cluster) -> None:
    producer = Producer(cluster)
    assert producer.commit_offset(5) is ErrorCode.none
    cluster.stop_broker(coordinator(cluster, "g"))
    assert cluster.groups.store.is_pending("g", "t", 0)
    assert "g" in cluster.groups
    producer.end()
    assert cluster.groups.store.offsets("g")["t", 0].offset == 5


def test_pending_offsets_of_a_deleted_topic_are_gone(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.commit_offset(5)
    cluster.delete_topic("t")
    producer.end()
    assert cluster.groups.store.offsets("g") == {}


def test_a_group_with_pending_offsets_does_not_expire(manual_clock: ManualClock) -> None:
    config = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1_000}
    with Cluster(clock=manual_clock, config=config) as cluster:
        cluster.create_topic("t", partitions=2)
        producer = Producer(cluster, timeout_ms=900_000)
        producer.commit_offset(5)
        manual_clock.advance(120_000)
        assert "g" in cluster.groups
        producer.end()
        assert cluster.groups.store.offsets("g")["t", 0].offset == 5
        manual_clock.advance(120_000)
        assert "g" not in cluster.groups
