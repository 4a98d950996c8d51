"""Produce: each answer that a client can get at once. What waits is in delayed/test_produce.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.internal_topics import ADMIN_CLIENT
from sojourn.kafka.log.batch import TRANSACTIONAL
from sojourn.kafka.wire import ErrorCode
from tests.kafka import requests
from tests.kafka.batches import batch
from tests.kafka.wire_client import DirectClient, build_request, direct, only


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two brokers; broker 1 leads `t`."""
    with Cluster(brokers=2, clock=ManualClock()) as cluster:
        cluster.create_topic("t", replication_factor=2)
        cluster.move_leader("t", 0, 1)
        yield cluster


def produce(cluster: Cluster, topic: str, records: bytes, **options: Any) -> Any:
    """Ask broker 1, or another, in a version that has all fields."""
    client = DirectClient(cluster.broker(options.pop("at", 1)), options.pop("client_id", "test"))
    return client.ask(build_request("produce", 11, **requests.produce(topic, records, **options)))


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_acks_are_all_one_or_none(cluster: Cluster, acks: int) -> None:
    result = only(produce(cluster, "t", batch(b"a"), acks=acks))
    assert result.error_code is ErrorCode.invalid_required_acks
    assert result.error_message == f"acks must be -1, 0 or 1, got {acks}"
    assert (result.base_offset, result.log_start_offset) == (-1, -1)
    assert cluster.partition("t", 0).end_offset == 0


def test_what_is_appended_has_its_offset_and_the_start_of_the_log(cluster: Cluster) -> None:
    cluster.append("t", [b"0", b"1", b"2"])
    with cluster.agenda:
        cluster.partition("t", 0).delete_records(2)
    answer = produce(cluster, "t", batch(b"a", b"b"))
    result = only(answer)
    assert (result.index, result.error_code, result.error_message) == (0, ErrorCode.none, None)
    assert (result.base_offset, result.log_start_offset) == (3, 2)
    assert result.log_append_time is None
    assert result.record_errors == ()
    assert answer.node_endpoints == ()
    assert cluster.partition("t", 0).end_offset == 5


def test_an_unknown_or_deleted_topic_is_refused(cluster: Cluster) -> None:
    topic = cluster.create_topic("gone")
    partition = topic.partitions[0]
    cluster.delete_topic("gone")
    assert partition.is_deleted
    for name in ("gone", "nowhere"):
        result = only(produce(cluster, name, batch(b"a")))
        assert result.error_code is ErrorCode.unknown_topic_or_partition
        assert result.current_leader.leader_id == -1


def test_another_broker_names_the_leader_and_where_it_is(cluster: Cluster) -> None:
    answer = produce(cluster, "t", batch(b"a"), at=2)
    result = only(answer)
    assert result.error_code is ErrorCode.not_leader_or_follower
    leader, partition = cluster.broker(1), cluster.partition("t", 0)
    assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (
        1,
        partition.leader_epoch,
    )
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, leader.host, leader.port)


def test_only_an_admin_client_writes_to_internal_topics(cluster: Cluster) -> None:
    with direct(cluster) as client:
        client.ask("find_coordinator", 2, key="g", key_type=0)
    topic = "__consumer_offsets"
    index = next(p.index for p in cluster.controller.topics[topic].partitions if p.leader == 1)
    records = batch((b"k", b"v"))
    for client_id, code in [
        ("test", ErrorCode.invalid_topic_exception),
        (ADMIN_CLIENT, ErrorCode.none),
    ]:
        fields = requests.produce(topic, records, index)
        admin = DirectClient(cluster.broker(1), client_id)
        assert only(admin.ask(build_request("produce", 11, **fields))).error_code is code


def test_a_transactional_batch_needs_a_transactional_id(cluster: Cluster) -> None:
    records = batch(
        b"a", attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0
    )
    result = only(produce(cluster, "t", records))
    assert result.error_code is ErrorCode.transactional_id_authorization_failed
    assert cluster.partition("t", 0).end_offset == 0


@pytest.mark.parametrize(
    ("records", "code", "start"),
    [
        (batch(b"a")[:-1], ErrorCode.invalid_record, -1),
        (batch(b"a")[:-1] + b"x", ErrorCode.corrupt_message, -1),
        (batch(bytes(2_000)), ErrorCode.message_too_large, -1),
        (batch(b"no key"), ErrorCode.invalid_record, 2),
    ],
    ids=["cut off", "corrupt", "too large", "no key"],
)
def test_a_batch_that_is_refused_has_the_start_of_the_log_where_it_was_looked_at(
    cluster: Cluster, records: bytes, code: ErrorCode, start: int
) -> None:
    config = {"cleanup.policy": "compact,delete", "max.message.bytes": 1_000}
    cluster.create_topic("keys", replication_factor=2, config=config)
    cluster.move_leader("keys", 0, 1)
    cluster.append("keys", [("k", "0"), ("k", "1"), ("k", "2")])
    with cluster.agenda:
        cluster.partition("keys", 0).delete_records(2)
    result = only(produce(cluster, "keys", records))
    assert (result.error_code, result.log_start_offset) == (code, start)
    assert result.error_message
    assert cluster.partition("keys", 0).end_offset == 3


def test_a_record_that_is_refused_is_named(cluster: Cluster) -> None:
    cluster.create_topic("keys", replication_factor=2, config={"cleanup.policy": "compact"})
    cluster.move_leader("keys", 0, 1)
    result = only(produce(cluster, "keys", batch((b"k", b"0"), b"1", b"2")))
    assert [one.batch_index for one in result.record_errors] == [1, 2]
    assert all("without key" in one.batch_index_error_message for one in result.record_errors)
    assert result.error_message == "One or more records have been rejected"


def test_without_an_answer_an_error_closes_the_connection(cluster: Cluster) -> None:
    client = direct(cluster)
    client.send(client.produce("t", acks=0))
    assert not client.has_answer()
    assert not client.is_closed
    client.send(client.produce("nowhere", acks=0))
    assert client.is_closed
    assert not client.has_answer()
