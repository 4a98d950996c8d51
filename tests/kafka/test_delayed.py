"""The delayed requests, one by one: each parks, completes for its reason, expires with its
answer and leaves nothing watched. The clock is moved by hand, and there are no sockets: a request
waits, or is answered, before `send` returns.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.kafka import Cluster
from tests.kafka.batches import batch
from tests.kafka.wire_client import WireClient, direct, only


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three brokers, a topic that all have and broker 1 leads, and one of broker 1 alone."""
    with Cluster(brokers=3, clock=ManualClock()) as cluster:
        cluster.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
        cluster.move_leader("t", 0, 1)
        with direct(cluster) as wire:
            assert (
                only(
                    wire.ask(
                        wire.create_topics(
                            "solo", assignments={0: (1,)}, partitions=-1, replication_factor=-1
                        )
                    )
                ).error_code
                is ErrorCode.none
            )
        yield cluster


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[WireClient]:
    with direct(cluster) as wire:
        yield wire


def pause_both(cluster: Cluster) -> None:
    cluster.pause_follower(2, "t", 0)
    cluster.pause_follower(3, "t", 0)


# Produce.


def test_a_produce_waits_for_every_replica_in_sync(cluster: Cluster, wire: WireClient) -> None:
    pause_both(cluster)
    produce = cluster.purgatories.produce
    wire.send(wire.produce("t"))
    assert produce.watched == 1
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
    pause_both(cluster)
    wire.send(wire.produce("t", timeout_ms=120_000))
    assert cluster.purgatories.produce.watched
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
    pause_both(cluster)
    wire.send(wire.produce("t", records=batch(*[b"value"] * 200)))
    assert cluster.purgatories.produce.watched
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
    pause_both(cluster)
    wire.send(wire.produce("t"))
    assert cluster.purgatories.produce.watched
    with cluster.agenda:
        cluster.move_leader("t", 0, 2)
        cluster.move_leader("t", 0, 1)
    assert only(wire.receive()).error_code is ErrorCode.not_leader_or_follower
    assert cluster.purgatories.produce.watched == 0


def test_a_produce_waits_on_while_the_same_broker_leads(cluster: Cluster, wire: WireClient) -> None:
    pause_both(cluster)
    wire.send(wire.produce("t"))
    produce = cluster.purgatories.produce
    assert produce.watched
    partition = cluster.partition("t", 0)
    epoch = partition.leader_epoch
    with cluster.agenda:  # broker 3 is let go of, which begins an epoch
        cluster.controller.reassign(partition, (1, 2))
    assert (partition.leader, partition.leader_epoch) == (1, epoch + 1)
    assert produce.watched == 1
    cluster.resume(2, "t", 0)
    assert only(wire.receive()).error_code is ErrorCode.none


def test_a_produce_ends_when_its_topic_goes(cluster: Cluster, wire: WireClient) -> None:
    pause_both(cluster)
    wire.send(wire.produce("t"))
    produce = cluster.purgatories.produce
    assert produce.watched
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


# Fetch.


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
    pause_both(cluster)
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


# Delete records.


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


# Create topics and partitions.


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
