"""Faults that a test scripts: they strike the requests they are meant for, and no others."""

from __future__ import annotations

import dataclasses
import datetime
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from sojourn import ManualClock
from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka import Cluster
from sojourn.kafka import wire as protocol
from sojourn.kafka.apis.answer_shapes import can_carry_error
from sojourn.kafka.faults.faulted_request import FaultedRequest
from tests.kafka.batches import batch
from tests.kafka.wire_client import WireClient, connect, only
from tests.until import PATIENCE_S, until

READS = ("fetch", "metadata", "describe_topic_partitions")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(clock=ManualClock()) as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.create_topic("bills", partitions=2)
        yield cluster


# Where errors stand, in every version of every API.


def sample(entity: Any, topic_id: UUID) -> Any:
    """A request with one of everything."""
    values = {}
    for field in dataclasses.fields(entity):
        values[field.name] = _sample(field.type, field, topic_id)
    return entity(**values)


def _sample(annotation: Any, field: Any, topic_id: UUID) -> Any:
    arguments = [one for one in getattr(annotation, "__args__", ()) if one is not type(None)]
    if getattr(annotation, "__origin__", None) is tuple:
        return (_sample(arguments[0], field, topic_id),)
    if dataclasses.is_dataclass(annotation):
        return sample(annotation, topic_id)
    if field.name in ("session_id", "session_epoch"):
        return -1 if field.name == "session_epoch" else 0
    kind = str(field.metadata.get("kafka_type", ""))
    if arguments and getattr(arguments[0], "__origin__", None) is tuple:
        return _sample(arguments[0], field, topic_id)
    if arguments and dataclasses.is_dataclass(arguments[0]):
        return None  # a cursor
    if kind == "uuid":
        return topic_id
    if kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=1_000)
    if kind.startswith("datetime"):
        return datetime.datetime.now(datetime.UTC)
    if kind == "string":
        return "orders"
    if kind in ("bytes", "records"):
        return b""
    if kind == "bool":
        return False
    if field.name == "acks":
        return 1
    return 2 if field.name == "resource_type" else 0


def errors_in(answer: Any) -> list[ErrorCode]:
    found: list[ErrorCode] = []
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if isinstance(value, ErrorCode):
            found.append(value)
        for one in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(one):
                found += errors_in(one)
    return found


@pytest.mark.parametrize("api", sorted(protocol.VERSIONS))
def test_every_version_says_the_error_and_does_nothing(api: str, cluster: Cluster) -> None:
    assert can_carry_error(api) is (api != "alter_replica_log_dirs")
    if not can_carry_error(api):
        with pytest.raises(OutOfRange, match="has no place for an error; drop or delay it"):
            cluster.faults.answer(api, "POLICY_VIOLATION")
        return
    topic_id = cluster.controller.topics["orders"].id
    broker = cluster.brokers[0]
    if api not in READS:
        broker.handlers[api] = lambda *_: pytest.fail("it was handled")
    low, high = protocol.VERSIONS[api]
    for version in range(low, high + 1):
        fault = cluster.faults.answer(api, "POLICY_VIOLATION", times=1)
        request = sample(load_request_schema(protocol.API_KEYS[api], version), topic_id)
        with WireClient(broker.host, broker.port) as client:
            client.send(request)
            found = errors_in(client.receive())
        assert ErrorCode.policy_violation in found, version
        assert set(found) <= {ErrorCode.policy_violation, ErrorCode.none}, version
        assert (fault.hits, fault.is_active) == (1, False)


@pytest.mark.parametrize("version", range(8, 10))
def test_offsets_are_refused_for_a_group_or_for_a_partition(version: int, cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    groups = [
        {
            "group_id": "g",
            "member_id": None,
            "member_epoch": -1,
            "topics": [{"name": "orders", "partition_indexes": [0, 1]}],
        }
    ]
    with WireClient(broker.host, broker.port) as client:
        cluster.faults.answer("OffsetFetch", "NOT_COORDINATOR", times=1)
        (group,) = client.ask("offset_fetch", version, groups=groups, require_stable=False).groups
        assert (group.error_code, group.topics) == (ErrorCode.not_coordinator, ())
        cluster.faults.answer(
            "OffsetFetch", "UNSTABLE_OFFSET_COMMIT", topic="orders", partition=1, times=1
        )
        (group,) = client.ask("offset_fetch", version, groups=groups, require_stable=False).groups
        assert group.error_code is ErrorCode.none
        assert {one.partition_index: one.error_code for one in group.topics[0].partitions} == {
            0: ErrorCode.none,
            1: ErrorCode.unstable_offset_commit,
        }


# Which requests a fault strikes.


def test_the_next_three_produces_to_a_partition_are_refused_and_the_others_are_not(
    cluster: Cluster,
) -> None:
    fault = cluster.faults.answer("Produce", "NOT_LEADER", topic="orders", partition=0, times=3)
    with connect(cluster) as wire:
        for _ in range(3):
            answer = wire.ask(wire.produce("orders", 0, 1))
            rows = {row.index: row for row in answer.responses[0].partition_responses}
            assert rows[0].error_code is ErrorCode.not_leader_or_follower
            assert rows[0].base_offset == -1
            assert rows[1].error_code is ErrorCode.none
        assert only(wire.ask(wire.produce("orders", 0))).error_code is ErrorCode.none
        assert only(wire.ask(wire.produce("bills", 0))).error_code is ErrorCode.none
    assert fault.hits == 3
    assert not fault.is_active
    assert len(cluster.faults) == 0
    assert cluster.partition("orders", 0).end_offset == 1
    assert cluster.partition("orders", 1).end_offset == 3


def test_what_was_handled_can_be_answered_with_an_error(cluster: Cluster) -> None:
    cluster.faults.answer("produce", "REQUEST_TIMED_OUT", handled=True)
    with connect(cluster) as wire:
        row = only(wire.ask(wire.produce("orders")))
    assert row.error_code is ErrorCode.request_timed_out
    assert cluster.partition("orders", 0).end_offset == 1


def test_of_two_errors_for_a_partition_the_first_is_said(cluster: Cluster) -> None:
    cluster.faults.answer("produce", "NOT_LEADER", topic="orders", partition=0)
    cluster.faults.answer("produce", "KAFKA_STORAGE_ERROR", topic="orders")
    with connect(cluster) as wire:
        (topic,) = wire.ask(wire.produce("orders", 0, 1)).responses
    assert {row.index: row.error_code for row in topic.partition_responses} == {
        0: ErrorCode.not_leader_or_follower,
        1: ErrorCode.kafka_storage_error,
    }


def test_a_produce_without_answer_that_is_refused_loses_its_connection(cluster: Cluster) -> None:
    cluster.faults.answer("produce", "NOT_LEADER")
    with connect(cluster) as wire:
        wire.send(wire.produce("orders", acks=0))
        assert wire.is_closed


def test_a_fetch_that_waits_is_refused_at_once_also_in_a_session(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    partitions = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1000} for n in (0, 1)]
    fetch: dict[str, Any] = {
        "replica_id": -1,
        "max_wait": 60_000,
        "min_bytes": 1,
        "max_bytes": 1000,
    }
    fetch |= {"max_bytes": 1000, "isolation_level": 0, "forgotten_topics_data": [], "rack_id": ""}
    with WireClient(broker.host, broker.port) as client:
        cluster.append("orders", [b"one"])
        topics = [{"topic": "orders", "partitions": partitions}]
        first = client.ask("fetch", 11, session_id=0, session_epoch=0, topics=topics, **fetch)
        assert first.session_id
        partitions[0]["fetch_offset"] = 1
        cluster.faults.answer("fetch", "NOT_LEADER", topic="orders", partition=1, times=1)
        second = client.ask(
            "fetch",
            11,
            session_id=first.session_id,
            session_epoch=1,
            topics=[{"topic": "orders", "partitions": partitions[:1]}],
            **fetch,
        )
        assert second.session_id == first.session_id
        assert {one.partition_index: one.error_code for one in second.responses[0].partitions}[
            1
        ] is ErrorCode.not_leader_or_follower
        cluster.faults.answer("fetch", "FETCH_SESSION_ID_NOT_FOUND", times=1)
        third = client.ask(
            "fetch", 11, session_id=first.session_id, session_epoch=2, topics=[], **fetch
        )
        assert third.error_code is ErrorCode.fetch_session_id_not_found


def test_only_this_client_and_this_broker_are_struck() -> None:
    with Cluster(brokers=2, clock=ManualClock()) as cluster:
        fault = cluster.faults.answer("list_groups", "NOT_COORDINATOR", client_id="me", broker=2)
        codes = {}
        for broker in cluster.brokers:
            for name in ("me", "you"):
                with WireClient(broker.host, broker.port, name) as client:
                    codes[broker.id, name] = client.ask("list_groups", 0).error_code
        assert codes.pop((2, "me")) is ErrorCode.not_coordinator
        assert set(codes.values()) == {ErrorCode.none}
        assert fault.hits == 1


def test_a_seed_strikes_the_same_requests_again(cluster: Cluster) -> None:
    def struck(seed: int | None) -> list[bool]:
        with cluster.faults.answer("heartbeat", 25, probability=0.5, seed=seed) as fault:
            broker = cluster.brokers[0]
            with WireClient(broker.host, broker.port) as client:
                hits = []
                for _ in range(40):
                    before = fault.hits
                    client.ask("heartbeat", 0, group_id="g", generation_id=1, member_id="m")
                    hits.append(fault.hits > before)
            assert f"seed={fault.seed}" in repr(fault)
            return hits

    assert struck(7) == struck(7)
    assert struck(7) != struck(8)
    assert any(struck(None))


def test_metadata_of_a_topic_is_refused_and_the_brokers_are_told(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    cluster.faults.answer("metadata", "LEADER_NOT_AVAILABLE", topic="orders")
    for version in (0, 1, 9, 12):
        more = {
            "allow_auto_topic_creation": True,
            "include_topic_authorized_operations": False,
            "include_cluster_authorized_operations": False,
        }
        for topics in ([{"name": "orders", "topic_id": None}], None if version else []):
            with WireClient(broker.host, broker.port) as client:
                answer = client.ask("metadata", version, topics=topics, **more)
            codes = {topic.name: topic.error_code for topic in answer.topics}
            assert codes["orders"] is ErrorCode.leader_not_available
            assert codes.get("bills") in (None, ErrorCode.none)
            assert len(answer.brokers) == 1


# Time and lost connections.


def test_a_delay_is_on_the_clusters_clock_and_over_before_advance_returns(
    cluster: Cluster,
) -> None:
    clock = cluster.clock
    fault = cluster.faults.delay("produce", ms=800)
    with connect(cluster) as wire:
        wire.send(wire.produce("orders"))
        cluster.wait_until(lambda: fault.hits == 1, PATIENCE_S)
        clock.advance(799)
        assert cluster.partition("orders", 0).end_offset == 0
        clock.advance(1)
        assert cluster.partition("orders", 0).end_offset == 1
        assert only(wire.receive()).error_code is ErrorCode.none


def test_a_delay_runs_from_the_moment_of_its_hit(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for the hit, and then moves the clock, moves the delay, however soon."""
    fault = cluster.faults.delay("produce", ms=800)
    start, seen = FaultedRequest.start, threading.Event()

    def slow_start(faulted: FaultedRequest) -> bool:
        seen.wait(0.05)
        return start(faulted)

    monkeypatch.setattr(FaultedRequest, "start", slow_start)
    with connect(cluster) as wire:
        wire.send(wire.produce("orders"))
        cluster.wait_until(lambda: fault.hits == 1, PATIENCE_S)
        cluster.clock.advance(800)
        seen.set()
        assert cluster.partition("orders", 0).end_offset == 1


def test_delays_add_up(cluster: Cluster) -> None:
    cluster.faults.delay(ms=300)
    fault = cluster.faults.delay("produce", ms=500)
    with connect(cluster) as wire:
        wire.send(wire.produce("orders"))
        cluster.wait_until(lambda: fault.hits == 1, PATIENCE_S)
        cluster.clock.advance(799)
        assert cluster.partition("orders", 0).end_offset == 0
        cluster.clock.advance(1)
        assert cluster.partition("orders", 0).end_offset == 1


def test_a_late_answer_is_of_what_was_done_at_once(cluster: Cluster) -> None:
    cluster.faults.delay("produce", ms=800, answer=True)
    with connect(cluster) as wire:
        wire.send(wire.produce("orders"))
        cluster.wait_until(lambda: cluster.partition("orders", 0).end_offset == 1, PATIENCE_S)
        assert not wire.has_answer(0.02)
        cluster.clock.advance(800)
        assert only(wire.receive()).error_code is ErrorCode.none


def test_a_delayed_request_goes_with_its_client(cluster: Cluster) -> None:
    before = len(cluster.timer)
    fault = cluster.faults.delay("produce", ms=800)
    with connect(cluster) as wire:
        wire.send(wire.produce("orders"))
        cluster.wait_until(lambda: fault.hits == 1, PATIENCE_S)
        assert len(cluster.timer) == before + 1
    until(lambda: len(cluster.timer) == before)
    cluster.clock.advance(800)
    assert cluster.partition("orders", 0).end_offset == 0


def test_a_delayed_request_of_a_broker_that_stops_is_never_handled(cluster: Cluster) -> None:
    fault = cluster.faults.delay("produce", ms=800)
    with connect(cluster) as wire:
        wire.send(wire.produce("orders"))
        cluster.wait_until(lambda: fault.hits == 1, PATIENCE_S)
        cluster.stop_broker(1)
        cluster.start_broker(1)
        cluster.clock.advance(800)
        assert wire.is_closed
    assert cluster.partition("orders", 0).end_offset == 0


@pytest.mark.parametrize(("verb", "appended"), [("drop", 0), ("lose", 1)])
def test_a_dropped_request_is_not_handled_and_a_lost_answer_is_of_one_that_was(
    cluster: Cluster, verb: str, appended: int
) -> None:
    getattr(cluster.faults, verb)("produce", times=1)
    with connect(cluster) as wire:
        wire.send(wire.produce("orders"))
        assert wire.is_closed
    assert cluster.partition("orders", 0).end_offset == appended


def test_a_lost_answer_may_leave_the_client_waiting(cluster: Cluster) -> None:
    cluster.faults.lose("produce", hang=True)
    with connect(cluster) as wire:
        wire.send(wire.produce("orders"))
        cluster.wait_until(lambda: cluster.partition("orders", 0).end_offset == 1, PATIENCE_S)
        assert not wire.has_answer(0.02)
        assert cluster.brokers[0].door.connections == 1
    until(lambda: cluster.brokers[0].door.connections == 0)


def test_the_answer_of_a_produce_that_waited_is_lost_too() -> None:
    with Cluster(brokers=2, clock=ManualClock()) as cluster:
        cluster.create_topic("t", replication_factor=2)
        leader = cluster.leader("t", 0)
        cluster.pause_follower(3 - leader, "t", 0)
        cluster.faults.lose("produce")
        with connect(cluster, leader) as wire:
            wire.send(wire.produce("t"))
            cluster.wait_until(lambda: cluster.purgatories.produce.watched == 1, PATIENCE_S)
            cluster.resume(3 - leader, "t", 0)
            assert wire.is_closed
        assert cluster.partition("t", 0).high_watermark == 1


# Scripting.


def test_a_fault_ends_with_its_block_and_is_still_listed(cluster: Cluster) -> None:
    with cluster.faults.drop("produce") as fault:
        assert list(cluster.faults) == [fault]
        assert cluster.faults.is_active
    assert list(cluster.faults) == []
    assert not cluster.faults.is_active
    assert cluster.faults.listed() == [fault]
    assert repr(fault) == "<Fault 1: drop api=produce, 0 hits, ended>"
    assert fault.as_dict() == {"id": 1, "do": "drop", "api": "produce", "hits": 0, "active": False}


def test_clear_ends_all(cluster: Cluster) -> None:
    faults = [cluster.faults.drop(), cluster.faults.delay(ms=5)]
    cluster.faults.clear()
    assert [fault.is_active for fault in faults] == [False, False]
    assert cluster.faults.listed() == faults


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (lambda f: f.answer("produse", 1), "no API 'produse' here; there is produce"),
        (lambda f: f.answer("produce", "NOT_LEADR"), "did you mean NOT_LEADER"),
        (lambda f: f.answer("produce", 4711), "no error 4711"),
        (lambda f: f.answer("produce", 0), "got NONE"),
        (lambda f: f.drop("heartbeat", topic="t"), "heartbeat name no topic; leave topic out"),
        (lambda f: f.drop("create_topics", topic="t", partition=1), "not partitions"),
        (lambda f: f.drop("produce", partition=1), "of which topic"),
        (lambda f: f.drop("produce", times=0), "times must be"),
        (lambda f: f.drop("produce", probability=0), "above 0 and at most 1"),
        (lambda f: f.drop("produce", broker=9), "no broker 9"),
        (lambda f: f.delay("produce", ms=-1), "ms must be"),
        (lambda f: f.drop("produce", probability="often"), "must be a number"),
        (lambda f: f.drop("produce", seed="x"), "must be an integer"),
        (lambda f: f.drop("produce", topic=1), "topic must be a name"),
        (lambda f: f.answer("produce", None), "name or a number"),
    ],
    ids=range(15),
)
def test_what_cannot_be_scripted_is_said(script: Any, complaint: str, cluster: Cluster) -> None:
    with pytest.raises((OutOfRange, WrongType), match=complaint):
        script(cluster.faults)
    assert not cluster.faults.is_active


def test_batches_of_two_partitions_are_told_apart_by_their_rows(cluster: Cluster) -> None:
    """The rows that are left come back beside the error, topic by topic."""
    cluster.faults.answer("produce", "KAFKA_STORAGE_ERROR", topic="bills")
    broker = cluster.brokers[0]
    topics = [
        {"name": name, "partition_data": [{"index": 0, "records": batch(b"x")}]}
        for name in ("orders", "bills")
    ]
    with WireClient(broker.host, broker.port) as client:
        answer = client.ask(
            "produce", 9, transactional_id=None, acks=1, timeout=1_000, topic_data=topics
        )
    assert {t.name: t.partition_responses[0].error_code for t in answer.responses} == {
        "orders": ErrorCode.none,
        "bills": ErrorCode.kafka_storage_error,
    }
