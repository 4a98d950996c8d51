"""Topics, settings, offsets and elections: each answer that a client can get."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.topic import spread
from tests.kafka import requests
from tests.kafka.batches import batch
from tests.kafka.wire_client import WireClient, build_request, direct, only


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, clock=ManualClock()) as cluster:
        yield cluster


# Creating.


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "x" * 250, "a/b"])
def test_a_bad_name_is_refused(wire: WireClient, name: str) -> None:
    result = only(wire.ask(wire.create_topics(name)))
    assert result.error_code is ErrorCode.invalid_topic_exception
    assert result.error_message


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249])
def test_a_good_name_is_taken(cluster: Cluster, wire: WireClient, name: str) -> None:
    assert only(wire.ask(wire.create_topics(name))).error_code is ErrorCode.none
    assert name in cluster.controller.topics


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"partitions": 0}, ErrorCode.invalid_partitions),
        ({"partitions": -2}, ErrorCode.invalid_partitions),
        ({"replication_factor": 0}, ErrorCode.invalid_replication_factor),
        ({"replication_factor": 4}, ErrorCode.invalid_replication_factor),
        ({"assignments": {0: (1,)}}, ErrorCode.invalid_request),  # and counts too
        ({"config": {"retention.ms": "soon"}}, ErrorCode.invalid_config),
        ({"config": {"min.insync.replicas": "0"}}, ErrorCode.invalid_config),
        ({"config": {"no.such.thing": "1"}}, ErrorCode.invalid_config),
        ({"config": {"retention.ms": None}}, ErrorCode.invalid_config),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_its_reason(
    cluster: Cluster, wire: WireClient, options: dict[str, Any], code: ErrorCode
) -> None:
    result = only(wire.ask(wire.create_topics("t", **options)))
    assert result.error_code is code
    assert result.error_message
    assert not cluster.controller.topics


@pytest.mark.parametrize(
    "assignments",
    [
        {0: ()},
        {0: (1, 1)},
        {0: (1, 2), 1: (3,)},
        {0: (1, 9)},
        {1: (1,)},
        {0: (1,), 2: (2,)},
    ],
)
def test_a_bad_assignment_is_refused(
    wire: WireClient, assignments: dict[int, tuple[int, ...]]
) -> None:
    request = wire.create_topics("t", partitions=-1, replication_factor=-1, assignments=assignments)
    assert only(wire.ask(request)).error_code is ErrorCode.invalid_replica_assignment


def test_an_assignment_is_followed(cluster: Cluster, wire: WireClient) -> None:
    request = wire.create_topics(
        "t", partitions=-1, replication_factor=-1, assignments={0: (3, 1), 1: (2, 3)}
    )
    assert only(wire.ask(request)).num_partitions == 2
    assert [p.replicas for p in cluster.controller.topics["t"].partitions] == [(3, 1), (2, 3)]
    assert [cluster.leader("t", index) for index in (0, 1)] == [3, 2]


def test_counts_left_out_are_the_clusters_own() -> None:
    config = {"num.partitions": 5, "default.replication.factor": 2}
    with (
        Cluster(brokers=2, clock=ManualClock(), config=config) as cluster,
        direct(cluster) as wire,
    ):
        result = only(wire.ask(wire.create_topics("t", partitions=-1, replication_factor=-1)))
        assert (result.num_partitions, result.replication_factor) == (5, 2)


def test_each_topic_has_its_own_result(cluster: Cluster, wire: WireClient) -> None:
    cluster.create_topic("there")
    request = wire.create_topics("new", "there", "bad name", "twice", "twice")
    codes = {result.name: result.error_code for result in wire.ask(request).topics}
    assert codes == {
        "new": ErrorCode.none,
        "there": ErrorCode.topic_already_exists,
        "bad name": ErrorCode.invalid_topic_exception,
        "twice": ErrorCode.invalid_request,
    }


def test_names_that_a_metric_could_not_tell_apart_collide(
    cluster: Cluster, wire: WireClient
) -> None:
    cluster.create_topic("a.b")
    assert only(wire.ask(wire.create_topics("a_b"))).error_code is ErrorCode.invalid_topic_exception


def test_replicas_are_spread_evenly() -> None:
    placed = spread([1, 2, 3, 4], 12, 3, start=0)
    assert placed[:6] == [(1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2), (1, 3, 4), (2, 4, 1)]
    assert all(len(set(replicas)) == 3 for replicas in placed)
    leaders = [replicas[0] for replicas in placed]
    assert {leaders.count(broker) for broker in (1, 2, 3, 4)} == {3}
    everywhere = [broker for replicas in placed for broker in replicas]
    assert {everywhere.count(broker) for broker in (1, 2, 3, 4)} == {9}
    assert spread([7], 2, 1, start=5) == [(7,), (7,)]


def test_a_topic_comes_into_being_when_asked_about(cluster: Cluster, wire: WireClient) -> None:
    fresh = {"topics": [{"name": "fresh"}], "allow_auto_topic_creation": True}
    (first,) = wire.ask("metadata", 9, **fresh).topics
    assert first.error_code is ErrorCode.unknown_topic_or_partition  # it comes after the answer
    (topic,) = wire.ask("metadata", 9, **fresh).topics
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.none, 1)


def test_a_topic_is_not_made_when_it_may_not_be(wire: WireClient) -> None:
    fresh = {"topics": [{"name": "fresh"}], "allow_auto_topic_creation": False}
    (topic,) = wire.ask("metadata", 9, **fresh).topics
    assert topic.error_code is ErrorCode.unknown_topic_or_partition


# The quota.


def test_the_quota_on_partitions_throttles_and_lets_in_again() -> None:
    config = {"sojourn.partition.mutations.per.second": 1}
    clock = ManualClock()
    with Cluster(clock=clock, config=config) as cluster, direct(cluster) as wire:
        first = wire.ask(wire.create_topics("a", partitions=20))  # 11 s' worth, and 9 more
        assert only(first).error_code is ErrorCode.none
        second = wire.ask(wire.create_topics("b"))
        assert only(second).error_code is ErrorCode.throttling_quota_exceeded
        assert second.throttle_time == timedelta(milliseconds=9_000)
        assert "b" not in cluster.controller.topics
        sixth = wire.ask(wire.create_topics("b", version=6))  # the first that is refused
        assert only(sixth).error_code is ErrorCode.throttling_quota_exceeded
        more = wire.ask(wire.create_partitions("a", 21))
        assert only(more).error_code is ErrorCode.throttling_quota_exceeded
        assert len(cluster.controller.topics["a"].partitions) == 20
        clock.advance(8_999)
        third = wire.ask(wire.create_topics("b"))
        assert only(third).error_code is ErrorCode.throttling_quota_exceeded
        clock.advance(1)
        assert only(wire.ask(wire.create_topics("b"))).error_code is ErrorCode.none


def test_the_quota_throttles_some_topics_and_lets_others_in() -> None:
    config = {"sojourn.partition.mutations.per.second": 1}
    with (
        Cluster(clock=ManualClock(), config=config) as cluster,
        direct(cluster) as wire,
    ):
        response = wire.ask(wire.create_topics("a", "b", "c", partitions=12))
        assert [result.error_code for result in response.topics] == [
            ErrorCode.none,
            ErrorCode.throttling_quota_exceeded,
            ErrorCode.throttling_quota_exceeded,
        ]
        # A client too old to know of the quota is asked to wait, not refused.
        old = wire.ask(wire.create_topics("d", partitions=1, version=5))
        assert only(old).error_code is ErrorCode.none
        assert old.throttle_time > timedelta(milliseconds=0)


# Partitions and deletion.


def test_a_topic_that_is_refused_has_no_partitions_in_the_answer(wire: WireClient) -> None:
    config = {"leader.replication.throttled.replicas": None}
    result = only(wire.ask(wire.create_topics("new", config=config)))
    assert result.error_code is ErrorCode.invalid_config
    assert (result.num_partitions, result.replication_factor) == (-1, -1)


def test_a_millisecond_is_time_enough_to_create_and_none_is_not(
    cluster: Cluster, wire: WireClient
) -> None:
    assert only(wire.ask(wire.create_topics("t", timeout_ms=1))).error_code is ErrorCode.none
    late = only(wire.ask(wire.create_partitions("t", 2, timeout_ms=0)))
    assert late.error_code is ErrorCode.request_timed_out
    assert only(wire.ask(wire.create_partitions("t", 2, timeout_ms=1))).error_code is ErrorCode.none
    assert len(cluster.controller.topics["t"].partitions) == 2


def test_partitions_of_a_topic_are_added_once_in_a_request(
    cluster: Cluster, wire: WireClient
) -> None:
    for name in ("t", "u"):
        cluster.create_topic(name)
    topics = [{"name": name, "count": 2, "assignments": None} for name in ("t", "t", "u")]
    results = wire.ask("create_partitions", 3, topics=topics, timeout=1_000).results
    assert [(one.name, one.error_code) for one in results] == [
        ("t", ErrorCode.invalid_request),
        ("u", ErrorCode.none),
    ]


def test_partitions_that_are_added_can_be_placed_by_hand(
    cluster: Cluster, wire: WireClient
) -> None:
    topic = cluster.create_topic("t", replication_factor=2)
    for brokers, code in [
        ([[1, 3]], ErrorCode.invalid_replica_assignment),  # two are added
        ([[1, 3], [1]], ErrorCode.invalid_replica_assignment),
        ([[1, 3], [3, 2]], ErrorCode.none),
    ]:
        rows = [{"broker_ids": replicas} for replicas in brokers]
        topics = [{"name": "t", "count": 3, "assignments": rows}]
        assert (
            only(wire.ask("create_partitions", 3, topics=topics, timeout=1_000)).error_code is code
        )
    assert [one.replicas for one in topic.partitions[1:]] == [(1, 3), (3, 2)]


def test_partitions_can_only_become_more(cluster: Cluster, wire: WireClient) -> None:
    cluster.create_topic("t", partitions=2, replication_factor=2)
    assert only(wire.ask(wire.create_partitions("t", 2))).error_code is ErrorCode.invalid_partitions
    assert only(wire.ask(wire.create_partitions("t", 5))).error_code is ErrorCode.none
    partitions = cluster.controller.topics["t"].partitions
    assert [p.index for p in partitions] == [0, 1, 2, 3, 4]
    assert {len(p.replicas) for p in partitions} == {2}
    unknown = only(wire.ask(wire.create_partitions("u", 5)))
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition


def test_a_deleted_topic_is_gone_and_its_name_is_free(cluster: Cluster, wire: WireClient) -> None:
    first = cluster.create_topic("t", replication_factor=3)
    wire.ask(wire.produce("t"))
    (result,) = wire.ask("delete_topics", 5, topic_names=["t"], timeout=1_000).responses
    assert result.error_code is ErrorCode.none
    (result,) = wire.ask("delete_topics", 5, topic_names=["t"], timeout=1_000).responses
    assert result.error_code is ErrorCode.unknown_topic_or_partition
    assert cluster.purgatories.fetch.watched == 0  # its followers have nothing to follow
    second = cluster.create_topic("t")
    assert second.id != first.id
    assert cluster.partition("t", 0).end_offset == 0


def test_a_topic_can_be_deleted_by_its_id(cluster: Cluster, wire: WireClient) -> None:
    topic = cluster.create_topic("t")
    topics = [{"name": None, "topic_id": topic.id}]
    (result,) = wire.ask("delete_topics", 6, topics=topics, timeout=1_000).responses
    assert (result.error_code, result.name) == (ErrorCode.none, "t")
    (result,) = wire.ask("delete_topics", 6, topics=topics, timeout=1_000).responses
    assert result.error_code is ErrorCode.unknown_topic_id


# Settings.


def describe(
    wire: WireClient, kind: int, name: str, *keys: str, documentation: bool = False
) -> Any:
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
    options = {"include_synonyms": True, "include_documentation": documentation}
    (result,) = wire.ask("describe_configs", 4, resources=[asked], **options).results
    return result


def alter(
    wire: WireClient, name: str, *changes: tuple[str, int, str | None], kind: int = 2
) -> ErrorCode:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    (response,) = wire.ask("incremental_alter_configs", 1, resources=[resource]).responses
    code: ErrorCode = response.error_code
    return code


def test_settings_are_listed_with_where_they_come_from(cluster: Cluster, wire: WireClient) -> None:
    cluster.create_topic("t", config={"retention.ms": 1_000})
    by_name = {entry.name: entry for entry in describe(wire, 2, "t").configs}
    assert (by_name["retention.ms"].value, by_name["retention.ms"].config_source) == ("1000", 1)
    assert by_name["min.insync.replicas"].config_source == 5
    assert alter(wire, "", ("min.insync.replicas", 0, "2"), kind=4) is ErrorCode.none
    (entry,) = describe(wire, 2, "t", "min.insync.replicas").configs
    assert (entry.value, entry.config_source) == ("2", 3)
    assert [synonym.value for synonym in entry.synonyms] == ["2", "1"]
    assert describe(wire, 4, "1").configs
    assert describe(wire, 4, "2").error_code is ErrorCode.invalid_request  # it is to be asked
    assert describe(wire, 2, "u").error_code is ErrorCode.unknown_topic_or_partition
    assert describe(wire, 4, "99").error_code is ErrorCode.invalid_request


def test_a_setting_is_documented_with_whether_it_has_an_effect_here(
    cluster: Cluster, wire: WireClient
) -> None:
    cluster.create_topic("t")
    assert {entry.documentation for entry in describe(wire, 2, "t").configs} == {None}
    entries = [
        *describe(wire, 2, "t", documentation=True).configs,
        *describe(wire, 4, "1", documentation=True).configs,
    ]
    texts = {entry.name: entry.documentation for entry in entries}
    for name in ("retention.ms", "log.retention.ms", "log.retention.hours", "num.partitions"):
        assert texts[name] == "Has the effect that Kafka's documentation describes."
    for name in ("flush.ms", "log.flush.interval.ms", "num.io.threads"):
        assert texts[name] == "Checked and described; has no effect on this cluster."


def test_settings_change_one_by_one(cluster: Cluster, wire: WireClient) -> None:
    topic = cluster.create_topic("t", config={"retention.ms": 1_000})
    done = alter(wire, "t", ("retention.ms", 1, None), ("cleanup.policy", 2, "compact"))
    assert done is ErrorCode.none
    assert topic.settings.own == {"cleanup.policy": "delete,compact"}
    assert alter(wire, "t", ("cleanup.policy", 3, "delete")) is ErrorCode.none
    assert topic.settings.own == {"cleanup.policy": "compact"}
    assert alter(wire, "t", ("cleanup.policy", 3, "compact")) is ErrorCode.none
    assert topic.settings.own == {"cleanup.policy": ""}
    assert alter(wire, "t", ("nonsense", 0, "1")) is ErrorCode.invalid_config
    assert alter(wire, "t", ("retention.ms", 2, "1")) is ErrorCode.invalid_config
    assert alter(wire, "1", ("num.partitions", 0, "3"), kind=4) is ErrorCode.invalid_request


def test_settings_altered_the_old_way_replace_all(cluster: Cluster, wire: WireClient) -> None:
    topic = cluster.create_topic("t", config={"retention.ms": 1_000})
    configs = [{"name": "segment.ms", "value": "5"}]
    resource = {"resource_type": 2, "resource_name": "t", "configs": configs}
    (response,) = wire.ask("alter_configs", 2, resources=[resource]).responses
    assert response.error_code is ErrorCode.none
    assert topic.settings.own == {"segment.ms": "5"}


def test_a_lower_minimum_in_sync_takes_effect_at_once(cluster: Cluster, wire: WireClient) -> None:
    cluster.create_topic("t", replication_factor=3, config={"min.insync.replicas": 3})
    cluster.move_leader("t", 0, 1)
    cluster.stop_broker(3)
    assert only(wire.ask(wire.produce("t"))).error_code is ErrorCode.not_enough_replicas
    assert alter(wire, "t", ("min.insync.replicas", 0, "2")) is ErrorCode.none
    assert only(wire.ask(wire.produce("t"))).error_code is ErrorCode.none


def test_times_of_append_are_the_clusters(cluster: Cluster, wire: WireClient) -> None:
    cluster.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    cluster.clock.advance(3_600_000)
    with direct(cluster, cluster.leader("t", 0)) as wire:
        result = only(wire.ask(wire.produce("t")))
        append_ms = round(result.log_append_time.timestamp() * 1000)
        assert append_ms == cluster.wall_ms() > time.time() * 1000 + 3_000_000
        fetched = only(wire.ask(wire.fetch("t", {0: 0})))
        assert int.from_bytes(fetched.records[35:43], "big") == append_ms


# Offsets.


def listed(wire: WireClient, timestamp: int, leader_epoch: int = -1) -> Any:
    return only(
        wire.ask(
            "list_offsets", 7, **requests.list_offsets("t", timestamp, leader_epoch=leader_epoch)
        )
    )


@pytest.fixture
def timed(cluster: Cluster) -> Iterator[WireClient]:
    """Offsets 0-2 of times 1000, 1010, 1020; 3-5 of 2000, 2010, 2020."""
    cluster.create_topic("t")
    with direct(cluster, cluster.leader("t", 0)) as wire:
        for start_ms in (1_000, 2_000):
            records = batch(b"a", b"b", b"c", timestamp_ms=start_ms, step_ms=10)
            wire.ask(wire.produce("t", records=records))
        yield wire


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [
        (-2, 0),
        (-1, 6),
        (-3, 5),
        (0, 0),
        (1_000, 0),
        (1_001, 1),
        (1_020, 2),
        (1_021, 3),
        (2_015, 5),
        (2_021, -1),
    ],
)
def test_offsets_are_found_by_time(timed: WireClient, timestamp: int, offset: int) -> None:
    assert listed(timed, timestamp).offset == offset


def test_the_first_offset_moves_with_deletion(timed: WireClient) -> None:
    timed.ask(timed.delete_records("t", 4))
    assert listed(timed, -2).offset == 4
    assert listed(timed, 0).offset == 4
    assert listed(timed, 2_011).offset == 5


def test_a_stale_epoch_is_fenced(cluster: Cluster, timed: WireClient) -> None:
    assert listed(timed, -1, leader_epoch=0).error_code is ErrorCode.none
    assert listed(timed, -1, leader_epoch=5).error_code is ErrorCode.unknown_leader_epoch


def test_an_epochs_end_is_told(cluster: Cluster) -> None:
    cluster.create_topic("t", replication_factor=2)
    first = cluster.leader("t", 0)
    second = next(b for b in cluster.partition("t", 0).replicas if b != first)
    with direct(cluster, first) as wire:
        wire.ask(wire.produce("t"))
    cluster.move_leader("t", 0, second)
    with direct(cluster, second) as wire:
        wire.ask(wire.produce("t"))
        ends = []
        for epoch in (0, 1, 2):
            asked = {"partition": 0, "leader_epoch": epoch}
            topics = [{"topic": "t", "partitions": [asked]}]
            result = only(wire.ask("offset_for_leader_epoch", 4, topics=topics))
            ends.append((result.leader_epoch, result.end_offset))
    assert ends == [(0, 1), (1, 2), (-1, -1)]


# Elections.


def elect(wire: WireClient, kind: int, *partitions: int) -> dict[int, ErrorCode]:
    asked = [{"topic": "t", "partitions": list(partitions)}] if partitions else None
    response = wire.ask(
        "elect_leaders", 2, election_type=kind, topic_partitions=asked, timeout=1_000
    )
    return {
        result.partition_id: result.error_code
        for topic in response.replica_election_results
        for result in topic.partition_result
    }


def test_the_preferred_replica_can_be_had_back(cluster: Cluster, wire: WireClient) -> None:
    cluster.create_topic("t", partitions=2, replication_factor=3)
    preferred = cluster.leader("t", 0)
    other = next(b for b in (1, 2, 3) if b != preferred)
    cluster.move_leader("t", 0, other)
    assert elect(wire, 0, 0, 1, 7) == {
        0: ErrorCode.none,
        1: ErrorCode.election_not_needed,
        7: ErrorCode.unknown_topic_or_partition,
    }
    assert cluster.leader("t", 0) == preferred
    assert elect(wire, 0) == {}
    if preferred != 1:
        cluster.stop_broker(preferred)
        assert elect(wire, 0, 0)[0] is ErrorCode.preferred_leader_not_available


def test_an_unclean_election_is_held_only_for_who_has_no_leader(
    cluster: Cluster, wire: WireClient
) -> None:
    request = wire.create_topics("t", partitions=-1, replication_factor=-1, assignments={0: (2, 3)})
    wire.ask(request)
    assert elect(wire, 1, 0) == {0: ErrorCode.election_not_needed}
    cluster.pause_follower(3, "t", 0)
    with direct(cluster, 2) as leader:
        leader.ask(leader.produce("t", acks=1))
    cluster.clock.advance(60_000)
    cluster.stop_broker(2)
    assert cluster.leader("t", 0) == -1
    assert elect(wire, 1, 0) == {0: ErrorCode.none}
    assert cluster.leader("t", 0) == 3


def test_producer_ids_are_given_once(cluster: Cluster, wire: WireClient) -> None:
    ask = build_request("init_producer_id", 4, transactional_id=None, transaction_timeout=1_000)
    ids = [wire.ask(ask).producer_id for _ in range(3)]
    with direct(cluster, 2) as elsewhere:
        ids.append(elsewhere.ask(ask).producer_id)
    assert len(set(ids)) == 4
