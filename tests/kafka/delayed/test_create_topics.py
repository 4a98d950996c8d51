"""Creating topics and partitions waits for leaders."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn.kafka import Cluster
from tests.kafka.wire_client import WireClient, only


def test_creating_topics_waits_for_leaders(cluster: Cluster, wire: WireClient) -> None:
    cluster.pause_elections()
    topic = cluster.purgatories.topic
    wire.send(wire.create_topics("new", partitions=2))
    assert topic.watched == 1
    cluster.resume_elections()
    result = only(wire.receive())
    assert (result.error_code, result.num_partitions) == (ErrorCode.none, 2)
    assert topic.watched == topic.delayed == 0


def test_creating_topics_expires_for_those_without_a_leader(
    cluster: Cluster, wire: WireClient
) -> None:
    cluster.pause_elections()
    wire.send(wire.create_topics("new", "solo", timeout_ms=2_000))
    assert cluster.purgatories.topic.watched == 1
    cluster.clock.advance(2_000)
    codes = {result.name: result.error_code for result in wire.receive().topics}
    assert codes == {
        "new": ErrorCode.request_timed_out,
        "solo": ErrorCode.topic_already_exists,
    }
    assert cluster.purgatories.topic.watched == 0
    assert "new" in cluster.controller.topics


def test_creating_partitions_waits_for_leaders_and_expires(
    cluster: Cluster, wire: WireClient
) -> None:
    cluster.pause_elections()
    topic = cluster.purgatories.topic
    wire.send(wire.create_partitions("t", 3, timeout_ms=2_000))
    assert topic.watched == 1
    cluster.clock.advance(2_000)
    assert only(wire.receive()).error_code is ErrorCode.request_timed_out
    wire.send(wire.create_partitions("t", 4))
    assert topic.watched == 1
    cluster.resume_elections()
    assert only(wire.receive()).error_code is ErrorCode.none
    assert topic.watched == 0
    assert all(p.leader > 0 for p in cluster.controller.topics["t"].partitions)


def test_creating_topics_without_time_times_out_and_creates_nothing(
    cluster: Cluster, wire: WireClient
) -> None:
    completed = cluster.purgatories.topic.metrics().completed
    result = only(wire.ask(wire.create_topics("new", timeout_ms=0)))
    assert result.error_code is ErrorCode.request_timed_out
    assert "new" not in cluster.controller.topics
    assert cluster.purgatories.topic.metrics().completed == completed


def test_validating_creates_nothing(cluster: Cluster, wire: WireClient) -> None:
    result = only(wire.ask(wire.create_topics("new", validate_only=True)))
    assert result.error_code is ErrorCode.none
    assert "new" not in cluster.controller.topics


def test_topics_that_cannot_be_do_not_wait(cluster: Cluster, wire: WireClient) -> None:
    cluster.pause_elections()
    assert only(wire.ask(wire.create_topics("t"))).error_code is ErrorCode.topic_already_exists
