"""Look at a cluster and feed it without a client: records in, records out, and waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.errors import OutOfRange, TimedOut, WrongType
from sojourn.kafka import Cluster, Record
from sojourn.kafka.refusal import Refused
from tests.kafka.client_libraries import CODECS, EACH, KAFKA_PYTHON_WARNS, LIBRDKAFKA, ClientLibrary
from tests.kafka.wire_client import connect, direct
from tests.until import PATIENCE_S

pytestmark = pytest.mark.filterwarnings(KAFKA_PYTHON_WARNS)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, clock=ManualClock()) as cluster:
        cluster.create_topic("orders", partitions=2, replication_factor=3)
        yield cluster


def test_what_is_appended_is_what_is_there(cluster: Cluster) -> None:
    now_ms = cluster.wall_ms()
    whole = Record(b"three", b"k", (("h", b"1"), ("n", None)), timestamp_ms=now_ms - 300)
    placed = cluster.append("orders", [b"one", ("key", "zwei ü"), whole, None], partition=1)
    assert [record.offset for record in placed] == [0, 1, 2, 3]
    assert cluster.records("orders") == placed
    assert cluster.records("orders", 0) == []
    assert [record.value for record in placed] == [b"one", "zwei ü".encode(), b"three", None]
    assert [record.key for record in placed] == [None, b"key", b"k", None]
    assert placed[2].headers == (("h", b"1"), ("n", None))
    assert [record.timestamp_ms for record in placed] == [now_ms, now_ms, now_ms - 300, now_ms]


def test_records_are_those_that_are_committed(cluster: Cluster) -> None:
    leader = cluster.leader("orders", 0)
    for broker in cluster.brokers:
        if broker.id != leader:
            cluster.pause_follower(broker.id, "orders", 0)
    cluster.append("orders", [b"one"])
    assert cluster.records("orders") == []
    assert [record.value for record in cluster.records("orders", committed=False)] == [b"one"]


def test_records_before_the_start_of_the_log_are_gone(cluster: Cluster) -> None:
    cluster.append("orders", [b"0", b"1", b"2"])
    with cluster.agenda:
        cluster.partition("orders", 0).delete_records(2)
    assert [record.value for record in cluster.records("orders")] == [b"2"]


@pytest.mark.parametrize("client", EACH)
def test_clients_read_what_was_appended(client: ClientLibrary) -> None:
    with Cluster() as cluster:
        cluster.create_topic("t")
        cluster.append("t", ["one", "two"])
        assert client.or_skip().consume(cluster.bootstrap_servers, "t", 2) == [b"one", b"two"]


@pytest.mark.parametrize("codec", CODECS)
def test_what_clients_have_compressed_is_read(codec: str) -> None:
    values = [b"%d" % number * 50 for number in range(20)]
    with Cluster() as cluster:
        cluster.create_topic("t")
        LIBRDKAFKA.or_skip().produce(cluster.bootstrap_servers, "t", values, codec)
        assert [record.value for record in cluster.records("t")] == values


def test_times_of_append_are_told_as_such() -> None:
    with Cluster(clock=ManualClock()) as cluster:
        cluster.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
        placed = cluster.append("t", [Record(b"x", timestamp_ms=5)])
        assert placed == cluster.records("t")
        assert placed[0].timestamp_ms == cluster.wall_ms()


def test_what_cannot_be_appended_is_said(cluster: Cluster) -> None:
    with pytest.raises(Refused, match="unknown_topic_or_partition: bills/0"):
        cluster.append("bills", [b"x"])
    with pytest.raises(Refused, match="unknown_topic_or_partition: bills"):
        cluster.records("bills")
    with pytest.raises(WrongType, match="a record must be bytes, a string or None, got 5"):
        cluster.append("orders", [5])  # type: ignore[list-item]
    with pytest.raises(WrongType, match=r"a value, \(key, value\) or a Record"):
        cluster.append("orders", [(b"a", b"b", b"c")])  # type: ignore[list-item]
    with pytest.raises(OutOfRange, match="at least one record"):
        cluster.append("orders", [])
    for broker in cluster.brokers:
        cluster.stop_broker(broker.id)
    with pytest.raises(Refused, match="orders/0 has no leader"):
        cluster.append("orders", [b"x"])


def test_waiting_ends_when_something_has_happened_at_the_brokers(cluster: Cluster) -> None:
    done = threading.Event()

    def wait() -> None:
        cluster.wait_until(lambda: cluster.purgatories.produce.watched, PATIENCE_S)
        done.set()

    leader = cluster.leader("orders", 0)
    for broker in cluster.brokers:
        if broker.id != leader:
            cluster.pause_follower(broker.id, "orders", 0)
    thread = threading.Thread(target=wait)
    thread.start()
    with connect(cluster, leader) as wire:
        wire.send(wire.produce("orders"))
        assert done.wait(PATIENCE_S)
    thread.join()


def test_waiting_ends_when_something_has_happened_elsewhere(cluster: Cluster) -> None:
    looks = iter(range(100))
    cluster.wait_until(lambda: next(looks) == 3)
    assert next(looks) == 4


def test_waiting_ends_after_the_step_in_which_the_condition_began_to_hold(cluster: Cluster) -> None:
    holds, seen, returned = threading.Event(), threading.Event(), threading.Event()
    too_early: list[bool] = []

    def step() -> None:
        with cluster.agenda:
            holds.set()
            assert seen.wait(PATIENCE_S)
            too_early.append(returned.wait(0.05))  # time for one who does not wait to show itself

    thread = threading.Thread(target=step)

    def condition() -> bool:  # it is looked at once
        thread.start()
        assert holds.wait(PATIENCE_S)
        seen.set()
        return True

    cluster.wait_until(condition, PATIENCE_S)
    returned.set()
    thread.join()
    assert too_early == [False]


def test_purgatories_are_found_by_attribute_and_by_name(cluster: Cluster) -> None:
    purgatories = cluster.purgatories
    assert purgatories["delete-records"] is purgatories.delete_records
    assert {purgatories[one.name] for one in purgatories} == set(purgatories)
    with pytest.raises(KeyError):
        purgatories["deletions"]


def test_nothing_waits_in_a_cluster_that_is_closed(cluster: Cluster) -> None:
    wire = direct(cluster, cluster.leader("orders", 0))
    wire.send(wire.fetch("orders", {0: 0}))
    assert cluster.purgatories.fetch.watched
    cluster.close()
    assert [one.watched for one in cluster.purgatories] == [0] * 8
    assert not wire.has_answer()


def test_waiting_for_too_long_says_what_waits(cluster: Cluster) -> None:
    cluster.faults.drop("fetch")
    with pytest.raises(TimedOut, match=r"the moon did not .* within 0.01 s; .*drop api=fetch"):
        cluster.wait_until(lambda: False, timeout_s=0.01, what="the moon")
