"""Deleting records waits for the low watermark of every replica that is up."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn.kafka import Cluster
from tests.kafka.wire_client import WireClient, direct, only


def test_deleting_records_waits_for_the_low_watermark(cluster: Cluster, wire: WireClient) -> None:
    for _ in range(3):
        wire.ask(wire.produce("t"))
    cluster.pause_follower(3, "t", 0)
    deletions = cluster.purgatories.delete_records
    wire.send(wire.delete_records("t", 2))
    assert deletions.watched == 1
    cluster.resume(3, "t", 0)
    result = only(wire.receive())
    assert (result.error_code, result.low_watermark) == (ErrorCode.none, 2)
    assert deletions.watched == deletions.delayed == 0
    assert {log.start_offset for log in cluster.partition("t", 0).logs.values()} == {2}
    gone = only(wire.ask(wire.fetch("t", {0: 0})))
    assert gone.error_code is ErrorCode.offset_out_of_range


def test_deleting_records_expires(cluster: Cluster, wire: WireClient) -> None:
    wire.ask(wire.produce("t"))
    cluster.pause_follower(3, "t", 0)
    deletions = cluster.purgatories.delete_records
    wire.send(wire.delete_records("t", -1, timeout_ms=1_000))
    assert deletions.watched == 1
    cluster.clock.advance(1_000)
    assert only(wire.receive()).error_code is ErrorCode.request_timed_out
    assert deletions.watched == 0


def test_deleting_records_does_not_wait_for_a_broker_that_is_down(
    cluster: Cluster, wire: WireClient
) -> None:
    wire.ask(wire.produce("t"))
    cluster.pause_follower(3, "t", 0)
    wire.send(wire.delete_records("t", -1))
    assert cluster.purgatories.delete_records.watched == 1
    cluster.stop_broker(3)
    assert only(wire.receive()).low_watermark == 1


def test_deleting_records_that_are_not_committed_is_refused(
    cluster: Cluster, wire: WireClient
) -> None:
    result = only(wire.ask(wire.delete_records("t", 5)))
    assert (result.error_code, result.low_watermark) == (ErrorCode.offset_out_of_range, -1)
    with direct(cluster, 2) as elsewhere:
        result = only(elsewhere.ask(elsewhere.delete_records("t", 0)))
        assert result.error_code is ErrorCode.not_leader_or_follower


def test_records_of_internal_topics_are_not_deleted(cluster: Cluster, wire: WireClient) -> None:
    wire.ask("find_coordinator", 2, key="g", key_type=0)
    leader = cluster.leader("__consumer_offsets", 0)
    with direct(cluster, leader) as client:
        result = only(client.ask(client.delete_records("__consumer_offsets", 0)))
    assert result.error_code is ErrorCode.invalid_topic_exception


def test_deleting_records_ends_when_its_leader_moves(cluster: Cluster, wire: WireClient) -> None:
    wire.ask(wire.produce("t"))
    cluster.pause_follower(3, "t", 0)
    wire.send(wire.delete_records("t", 1))
    assert cluster.purgatories.delete_records.watched == 1
    cluster.move_leader("t", 0, 2)
    result = only(wire.receive())
    assert (result.error_code, result.low_watermark) == (ErrorCode.not_leader_or_follower, -1)
    assert cluster.purgatories.delete_records.watched == 0
