"""A produce waits for the replicas in sync, while its leader and its topic last."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn.kafka import Cluster
from tests.kafka.batches import batch
from tests.kafka.wire_client import WireClient, only


def pause_both(cluster: Cluster) -> None:
    cluster.pause_follower(2, "t", 0)
    cluster.pause_follower(3, "t", 0)


def send_and_wait(cluster: Cluster, wire: WireClient, **options: Any) -> None:
    """Have a produce wait for both followers, which are paused."""
    pause_both(cluster)
    wire.send(wire.produce("t", **options))
    assert cluster.purgatories.produce.watched == 1


def test_a_produce_waits_for_every_replica_in_sync(cluster: Cluster, wire: WireClient) -> None:
    send_and_wait(cluster, wire)
    produce = cluster.purgatories.produce
    cluster.resume(2, "t", 0)
    assert produce.watched == 1  # broker 3 has not got it
    cluster.resume(3, "t", 0)
    assert produce.watched == produce.delayed == 0
    result = only(wire.receive())
    assert (result.error_code, result.base_offset) == (ErrorCode.none, 0)
    assert cluster.partition("t", 0).high_watermark == 1


def test_a_produce_that_every_replica_has_at_once_never_waits(
    cluster: Cluster, wire: WireClient
) -> None:
    assert only(wire.ask(wire.produce("t"))).error_code is ErrorCode.none
    assert cluster.purgatories.produce.watched == 0


def test_a_produce_with_acks_1_waits_for_nobody(cluster: Cluster, wire: WireClient) -> None:
    pause_both(cluster)
    assert only(wire.ask(wire.produce("t", acks=1))).error_code is ErrorCode.none
    assert cluster.partition("t", 0).high_watermark == 0


def test_a_produce_with_acks_0_gets_no_answer_and_the_next_request_does(
    cluster: Cluster, wire: WireClient
) -> None:
    wire.send(wire.produce("t", acks=0))
    assert only(wire.ask(wire.produce("t"))).base_offset == 1


def test_a_produce_expires_on_the_pending_partitions_only(
    cluster: Cluster, wire: WireClient
) -> None:
    cluster.create_topic("two", partitions=3, replication_factor=3)
    led = [i for i in range(3) if cluster.leader("two", i) == 1]
    other = next(i for i in range(3) if i not in led)
    cluster.move_leader("two", other, 1)
    pending, fine = other, led[0]
    for broker_id in (2, 3):
        cluster.pause_follower(broker_id, "two", pending)
    wire.send(wire.produce("two", fine, pending, timeout_ms=5_000))
    assert cluster.purgatories.produce.watched
    cluster.clock.advance(4_999)
    assert cluster.purgatories.produce.delayed == 1
    cluster.clock.advance(1)
    assert cluster.purgatories.produce.watched == cluster.purgatories.produce.delayed == 0
    (topic,) = wire.receive().responses
    first, second = topic.partition_responses
    assert (first.index, first.error_code, first.base_offset) == (fine, ErrorCode.none, 0)
    assert (second.index, second.error_code) == (pending, ErrorCode.request_timed_out)
    assert second.base_offset == 0  # it was appended
    assert cluster.purgatories.produce.metrics().expired == 1


def test_with_too_few_in_sync_nothing_is_appended(cluster: Cluster, wire: WireClient) -> None:
    cluster.stop_broker(2)
    cluster.stop_broker(3)
    result = only(wire.ask(wire.produce("t")))
    assert (result.error_code, result.base_offset) == (ErrorCode.not_enough_replicas, -1)
    assert cluster.partition("t", 0).end_offset == 0
    assert only(wire.ask(wire.produce("t", acks=1))).error_code is ErrorCode.none


def fall_out_of_sync(cluster: Cluster, wire: WireClient) -> None:
    """Have a produce of two minutes wait, and both followers drop out of sync, in 45 s."""
    send_and_wait(cluster, wire, timeout_ms=120_000)
    cluster.clock.advance(29_000)
    assert cluster.partition("t", 0).isr == {1, 2, 3}
    cluster.clock.advance(16_000)  # 30 s behind, and looked at every 15 s
    assert cluster.partition("t", 0).isr == {1}


def test_a_produce_with_too_few_in_sync_waits_for_its_time(
    cluster: Cluster, wire: WireClient
) -> None:
    fall_out_of_sync(cluster, wire)
    produce = cluster.purgatories.produce
    cluster.clock.advance(120_000 - 45_000 - 1)
    assert (produce.watched, produce.delayed) == (1, 1)
    assert cluster.partition("t", 0).high_watermark == 0
    cluster.clock.advance(1)
    result = only(wire.receive())
    assert (result.error_code, result.base_offset) == (ErrorCode.request_timed_out, 0)
    assert (produce.watched, produce.delayed) == (0, 0)


def test_a_produce_with_too_few_in_sync_completes_when_they_are_back(
    cluster: Cluster, wire: WireClient
) -> None:
    fall_out_of_sync(cluster, wire)
    cluster.resume(2, "t", 0)
    assert cluster.partition("t", 0).isr == {1, 2}
    result = only(wire.receive())
    assert (result.error_code, result.base_offset) == (ErrorCode.none, 0)
    assert cluster.purgatories.produce.watched == 0


def test_a_produce_with_too_few_in_sync_completes_when_fewer_are_asked_for(
    cluster: Cluster, wire: WireClient
) -> None:
    fall_out_of_sync(cluster, wire)
    partition = cluster.partition("t", 0)
    with cluster.agenda:
        partition.topic.settings.replace({"min.insync.replicas": "1"})
        partition.on_settings_changed()
    assert only(wire.receive()).error_code is ErrorCode.none


def test_one_replica_out_of_sync_does_not_hold_up_a_produce(
    cluster: Cluster, wire: WireClient
) -> None:
    cluster.pause_follower(3, "t", 0)
    wire.send(wire.produce("t", timeout_ms=120_000))
    assert cluster.purgatories.produce.watched
    cluster.clock.advance(45_000)
    assert only(wire.receive()).error_code is ErrorCode.none
    partition = cluster.partition("t", 0)
    assert partition.isr == {1, 2}
    cluster.resume(3, "t", 0)
    assert partition.isr == {1, 2, 3}
    assert {log.end_offset for log in partition.logs.values()} == {1}


def test_a_produce_ends_when_its_leader_moves(cluster: Cluster, wire: WireClient) -> None:
    send_and_wait(cluster, wire, records=batch(*[b"value"] * 200))
    cluster.move_leader("t", 0, 2)
    assert only(wire.receive()).error_code is ErrorCode.not_leader_or_follower
    assert cluster.purgatories.produce.watched == 0
    # Nobody was told that it was there, and the new leader does not have it.
    cluster.resume(2, "t", 0)
    cluster.resume(3, "t", 0)
    assert {log.end_offset for log in cluster.partition("t", 0).logs.values()} == {0}


def test_a_produce_ends_when_its_leader_moves_and_is_back_at_once(
    cluster: Cluster, wire: WireClient
) -> None:
    send_and_wait(cluster, wire)
    with cluster.agenda:
        cluster.move_leader("t", 0, 2)
        cluster.move_leader("t", 0, 1)
    assert only(wire.receive()).error_code is ErrorCode.not_leader_or_follower
    assert cluster.purgatories.produce.watched == 0


def test_a_produce_waits_on_while_the_same_broker_leads(cluster: Cluster, wire: WireClient) -> None:
    send_and_wait(cluster, wire)
    produce = cluster.purgatories.produce
    partition = cluster.partition("t", 0)
    epoch = partition.leader_epoch
    with cluster.agenda:  # broker 3 is no replica any more, which begins an epoch
        cluster.controller.reassign(partition, (1, 2))
    assert (partition.leader, partition.leader_epoch) == (1, epoch + 1)
    assert produce.watched == 1
    cluster.resume(2, "t", 0)
    assert only(wire.receive()).error_code is ErrorCode.none


def test_a_produce_ends_when_its_topic_goes(cluster: Cluster, wire: WireClient) -> None:
    send_and_wait(cluster, wire)
    produce = cluster.purgatories.produce
    with cluster.agenda:
        cluster.controller.delete_topic(cluster.controller.topics["t"])
    assert only(wire.receive()).error_code is ErrorCode.unknown_topic_or_partition
    assert (produce.watched, produce.delayed) == (0, 0)


def test_a_topic_that_went_does_not_answer_for_the_next_of_its_name(
    cluster: Cluster, wire: WireClient
) -> None:
    controller = cluster.controller
    for _ in range(2):
        with cluster.agenda:
            topic = controller.add_topic("same", [(1, 2)], controller.topic_settings(None))
        cluster.pause_follower(2, "same", 0)
        wire.send(wire.produce("same"))
        assert cluster.purgatories.produce.watched == 1
        with cluster.agenda:
            controller.delete_topic(topic)
        assert only(wire.receive()).error_code is ErrorCode.unknown_topic_or_partition


def test_each_partition_of_a_produce_is_answered_by_what_became_of_it(
    cluster: Cluster, wire: WireClient
) -> None:
    config = {"min.insync.replicas": 2}
    cluster.create_topic("four", partitions=4, replication_factor=3, config=config)
    for index in range(4):
        if cluster.leader("four", index) != 1:
            cluster.move_leader("four", index, 1)
        cluster.pause_follower(2, "four", index)
        cluster.pause_follower(3, "four", index)
    produce = cluster.purgatories.produce
    wire.send(wire.produce("four", 0, 1, 2, 3, timeout_ms=10_000))
    assert produce.watched == 4
    cluster.resume(2, "four", 0)
    cluster.resume(3, "four", 0)
    cluster.stop_broker(3)  # the others wait for broker 2 alone
    assert produce.watched == 3
    cluster.resume(2, "four", 1)
    cluster.move_leader("four", 1, 2)  # which has the record, and too late
    cluster.move_leader("four", 2, 2)
    assert (produce.watched, produce.delayed) == (1, 1)
    cluster.stop_broker(2)  # too few are in sync, and partition 0 has been replicated before
    cluster.clock.advance(10_000)
    (topic,) = wire.receive().responses
    assert [(p.error_code, p.base_offset) for p in topic.partition_responses] == [
        (ErrorCode.none, 0),
        (ErrorCode.none, 0),
        (ErrorCode.not_leader_or_follower, 0),
        (ErrorCode.request_timed_out, 0),
    ]


def test_a_retry_of_what_is_replicated_waits_for_nothing(
    cluster: Cluster, wire: WireClient
) -> None:
    records = batch(b"value", producer_id=1, producer_epoch=0, base_sequence=0)
    assert only(wire.ask(wire.produce("t", records=records))).error_code is ErrorCode.none
    pause_both(cluster)
    cluster.clock.advance(24 * 3_600_000)  # long after what was signalled is forgotten
    result = only(wire.ask(wire.produce("t", records=records)))
    assert (result.error_code, result.base_offset) == (ErrorCode.none, 0)


def test_the_key_of_a_leadership_is_forgotten_after_a_minute_without_a_produce(
    cluster: Cluster, wire: WireClient
) -> None:
    known_keys = []
    for topic, ms in [("t", 60_000), ("solo", 1), ("solo", 0)]:
        wire.ask(wire.produce(topic))
        known_keys.append(cluster.purgatories.produce.metrics().known_keys)
        cluster.clock.advance(ms)
    assert known_keys == [2, 2, 1]


def test_elections_leave_nothing_behind_in_the_purgatory(
    cluster: Cluster, wire: WireClient
) -> None:
    produce = cluster.purgatories.produce
    known_keys = []
    for turn in range(300):
        cluster.move_leader("t", 0, 1 + (turn + 1) % 3)
        if cluster.leader("t", 0) == 1:
            assert only(wire.ask(wire.produce("t"))).error_code is ErrorCode.none
        cluster.clock.advance(3_000)
        known_keys.append(produce.metrics().known_keys)
    assert cluster.partition("t", 0).high_watermark == 100
    assert max(known_keys) < 30
    assert produce.watched == produce.delayed == 0
