"""Fetch: how much is returned of which partition. When it waits is in delayed/test_fetch.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.wire import ErrorCode
from tests.kafka.batches import batch
from tests.kafka.wire_client import WireClient, direct

RECORDS = batch(bytes(100))
SIZE = len(RECORDS)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(clock=ManualClock()) as cluster:
        cluster.create_topic("t", partitions=2)
        yield cluster


def receive_sizes(wire: WireClient) -> dict[int, int]:
    """How many bytes each partition has in the answer."""
    (topic,) = wire.receive().responses
    return {one.partition_index: len(one.records or b"") for one in topic.partitions}


def test_exactly_as_many_bytes_as_asked_for_are_enough(cluster: Cluster, wire: WireClient) -> None:
    wire.ask(wire.produce("t", records=RECORDS))
    wire.send(wire.fetch("t", {0: 0}, min_bytes=SIZE))
    assert receive_sizes(wire) == {0: SIZE}
    assert cluster.purgatories.fetch.metrics().completed == 0  # it did not wait
    wire.send(wire.fetch("t", {0: 0}, min_bytes=2 * SIZE))
    assert cluster.purgatories.fetch.watched == 1
    with direct(cluster) as other:
        other.ask(other.produce("t", records=RECORDS))
    assert receive_sizes(wire) == {0: 2 * SIZE}


def test_all_partitions_together_have_to_have_enough(cluster: Cluster, wire: WireClient) -> None:
    wire.send(wire.fetch("t", {0: 0, 1: 0}, min_bytes=2 * SIZE))
    for index in range(2):
        assert cluster.purgatories.fetch.watched == 2
        with direct(cluster) as other:
            other.ask(other.produce("t", index, records=RECORDS))
    assert receive_sizes(wire) == {0: SIZE, 1: SIZE}
    assert cluster.purgatories.fetch.watched == 0


def test_an_answer_has_no_more_than_its_limit_over_all_partitions(wire: WireClient) -> None:
    wire.ask(wire.produce("t", 0, 1, records=RECORDS))
    wire.send(wire.fetch("t", {0: 0, 1: 0}, max_bytes=SIZE))
    assert receive_sizes(wire) == {0: SIZE, 1: 0}
    wire.send(wire.fetch("t", {1: 0, 0: 0}, max_bytes=2 * SIZE))
    assert receive_sizes(wire) == {0: SIZE, 1: SIZE}


def test_the_first_batch_is_returned_whatever_its_size(wire: WireClient) -> None:
    wire.ask(wire.produce("t", 1, records=RECORDS))
    wire.send(wire.fetch("t", {0: 0, 1: 0}, max_bytes=1, partition_max_bytes=1))
    assert receive_sizes(wire) == {0: 0, 1: SIZE}


def test_a_partition_that_does_not_exist_does_not_end_the_wait_for_others(
    cluster: Cluster, wire: WireClient
) -> None:
    wire.send(wire.fetch("t", {7: 0, 0: 0}))
    assert cluster.purgatories.fetch.watched == 1
    with direct(cluster) as other:
        other.ask(other.produce("t", records=RECORDS))
    (topic,) = wire.receive().responses
    unknown, known = topic.partitions
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    assert (known.error_code, len(known.records)) == (ErrorCode.none, SIZE)


@pytest.mark.parametrize(
    ("offsets", "options"), [({0: 0}, {"max_wait_ms": 0}), ({0: 0, 1: 7}, {}), ({7: 0}, {})]
)
def test_what_is_answered_at_once_was_never_in_the_purgatory(
    cluster: Cluster, wire: WireClient, offsets: dict[int, int], options: dict[str, int]
) -> None:
    wire.ask(wire.fetch("t", offsets, **options))
    metrics = cluster.purgatories.fetch.metrics()
    assert (metrics.completed, metrics.expired) == (0, 0)
