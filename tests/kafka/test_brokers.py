"""Broker ids: from 1, or as listed; and what cannot be one is said."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka import Cluster
from tests.kafka.wire_client import WireClient


def told_ids(cluster: Cluster) -> list[int]:
    """The ids that a client learns."""
    broker = cluster.brokers[0]
    with WireClient(broker.host, broker.port) as client:
        return [found.node_id for found in client.ask("metadata", 1, topics=[]).brokers]


@pytest.mark.parametrize(
    ("brokers", "ids"),
    [(1, [1]), (3, [1, 2, 3]), ([0], [0]), ((7, 3, 5), [7, 3, 5]), (range(2), [0, 1])],
)
def test_brokers_have_the_ids_that_were_asked_for(brokers: Any, ids: list[int]) -> None:
    with Cluster(brokers=brokers, clock=ManualClock()) as cluster:
        assert told_ids(cluster) == ids
        assert [cluster.broker(broker_id).id for broker_id in ids] == ids
        cluster.create_topic("t", partitions=len(ids), replication_factor=len(ids))
        assert {cluster.leader("t", index) for index in range(len(ids))} == set(ids)
        with pytest.raises(OutOfRange, match="there is no broker 9, only "):
            cluster.broker(9)


@pytest.mark.parametrize(
    ("brokers", "complaint"),
    [
        (0, "brokers must be ≥ 1, got 0"),
        ([], "at least one id"),
        ([0, -1], "from 0 to 2147483647, got -1"),
        ([2**31], "from 0 to 2147483647, got 2147483648"),
        ([1, 2, 1], r"an id of its own, got \[1, 2, 1\]"),
    ],
)
def test_ids_out_of_range_are_refused(brokers: Any, complaint: str) -> None:
    with pytest.raises(OutOfRange, match=complaint):
        Cluster(brokers=brokers)


@pytest.mark.parametrize(
    ("brokers", "complaint"),
    [
        ("3", "a number, or a list of ids, got '3'"),
        (None, "a number, or a list of ids, got None"),
        (True, "a number, or a list of ids, got True"),
        ([1, "2"], "must be an integer, got '2'"),
        ([1.5], "must be an integer, got 1.5"),
        ([True], "must be an integer, got True"),
    ],
)
def test_ids_that_are_no_integers_are_refused(brokers: Any, complaint: str) -> None:
    with pytest.raises(WrongType, match=complaint):
        Cluster(brokers=brokers)


@pytest.mark.parametrize(("port", "brokers"), [(99_999, 1), (65_536, 1), (-1, 1), (65_534, 3)])
def test_ports_that_there_are_not_are_refused(port: int, brokers: int) -> None:
    most = 65_536 - brokers
    with pytest.raises(OutOfRange, match=f"port must be an integer ≥ 0 and ≤ {most}, got {port}"):
        Cluster(brokers=brokers, port=port)


@pytest.mark.parametrize("port", ["9092", 9092.0, None])
def test_a_port_that_is_no_integer_is_refused(port: Any) -> None:
    with pytest.raises(WrongType, match=r"port must be an integer ≥ 0, got .*; 0 lets the system"):
        Cluster(port=port)


@pytest.mark.parametrize("host", [None, 3, b"127.0.0.1"])
def test_a_host_that_is_no_string_is_refused(host: Any) -> None:
    with pytest.raises(WrongType, match="host must be a name or an address, got "):
        Cluster(host=host)
