"""A fetch waits for bytes, while its leader and its topic last."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.kafka import Cluster
from tests.kafka.batches import batch
from tests.kafka.wire_client import WireClient, direct, only


def test_a_fetch_waits_for_a_byte_and_gets_it(cluster: Cluster, wire: WireClient) -> None:
    fetch = cluster.purgatories.fetch
    idle = fetch.watched  # the followers' own
    wire.send(wire.fetch("solo", {0: 0}))
    assert fetch.watched == idle + 1
    with direct(cluster) as other:
        other.ask(other.produce("solo"))
    result = only(wire.receive())
    assert result.high_watermark == 1
    assert len(result.records) == len(batch(b"value"))
    assert fetch.watched == idle


def test_a_fetch_expires_with_what_there_is(cluster: Cluster, wire: WireClient) -> None:
    wire.ask(wire.produce("solo"))
    fetch = cluster.purgatories.fetch
    idle = fetch.watched
    wire.send(wire.fetch("solo", {0: 0}, min_bytes=1_000, max_wait_ms=3_000))
    assert fetch.watched == idle + 1
    cluster.clock.advance(2_999)
    assert fetch.watched == idle + 1
    cluster.clock.advance(1)
    result = only(wire.receive())
    assert (result.error_code, len(result.records)) == (ErrorCode.none, len(batch(b"value")))
    assert fetch.watched == idle


def test_an_idle_cluster_of_single_replicas_watches_nothing() -> None:
    with Cluster(clock=ManualClock()) as cluster, direct(cluster) as wire:
        cluster.create_topic("t")
        wire.send(wire.fetch("t", {0: 0}))
        assert cluster.purgatories.fetch.watched == 1
        cluster.clock.advance(3_000)
        assert only(wire.receive()).records == b""
        assert cluster.purgatories.fetch.watched == cluster.purgatories.fetch.delayed == 0


def test_a_fetch_counts_each_partition_no_further_than_its_cap(
    cluster: Cluster, wire: WireClient
) -> None:
    size = len(batch(bytes(1_000)))
    for _ in range(4):
        wire.ask(wire.produce("solo", records=batch(bytes(1_000))))
    asked = wire.fetch("solo", {0: 0}, min_bytes=3 * size, partition_max_bytes=2 * size)
    idle = cluster.purgatories.fetch.watched
    wire.send(asked)
    assert cluster.purgatories.fetch.watched == idle + 1
    cluster.clock.advance(3_000)
    assert len(only(wire.receive()).records) == 2 * size


def test_a_fetch_does_not_see_what_is_not_committed(cluster: Cluster, wire: WireClient) -> None:
    for follower in (2, 3):
        cluster.pause_follower(follower, "t", 0)
    wire.ask(wire.produce("t", acks=1))
    fetch = cluster.purgatories.fetch
    idle = fetch.watched
    wire.send(wire.fetch("t", {0: 0}))
    assert fetch.watched == idle + 1
    cluster.resume(2, "t", 0)
    assert fetch.metrics().completed == 0
    cluster.resume(3, "t", 0)
    assert only(wire.receive()).records


@pytest.mark.parametrize("asked", [{"max_wait_ms": 0}, {"min_bytes": 0}])
def test_a_fetch_that_need_not_wait_does_not(
    cluster: Cluster, wire: WireClient, asked: dict[str, int]
) -> None:
    assert only(wire.ask(wire.fetch("solo", {0: 0}, **asked))).records == b""


def test_a_fetch_with_an_error_is_answered_at_once(cluster: Cluster, wire: WireClient) -> None:
    assert only(wire.ask(wire.fetch("solo", {0: 7}))).error_code is ErrorCode.offset_out_of_range
    unknown = only(wire.ask(wire.fetch("nowhere", {0: 0})))
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    ahead = only(wire.ask(wire.fetch("solo", {0: 0}, leader_epoch=9)))
    assert ahead.error_code is ErrorCode.unknown_leader_epoch
    with direct(cluster, 2) as elsewhere:
        result = only(elsewhere.ask(elsewhere.fetch("solo", {0: 0})))
        assert result.error_code is ErrorCode.not_leader_or_follower


def test_a_fetch_ends_when_its_leader_moves(cluster: Cluster, wire: WireClient) -> None:
    idle = cluster.purgatories.fetch.watched
    epoch = cluster.partition("t", 0).leader_epoch
    wire.send(wire.fetch("t", {0: 0}, leader_epoch=epoch))
    assert cluster.purgatories.fetch.watched == idle + 1
    cluster.move_leader("t", 0, 2)
    assert only(wire.receive()).error_code is ErrorCode.fenced_leader_epoch
    assert cluster.purgatories.fetch.watched == idle
    cluster.move_leader("t", 0, 1)
    fenced = only(wire.ask(wire.fetch("t", {0: 0}, leader_epoch=epoch)))
    assert fenced.error_code is ErrorCode.fenced_leader_epoch


def test_a_fetch_ends_when_its_topic_goes(cluster: Cluster, wire: WireClient) -> None:
    idle = cluster.purgatories.fetch.watched
    wire.send(wire.fetch("solo", {0: 0}))
    assert cluster.purgatories.fetch.watched == idle + 1
    with cluster.agenda:
        cluster.controller.delete_topic(cluster.controller.topics["solo"])
    assert only(wire.receive()).error_code is ErrorCode.unknown_topic_or_partition
