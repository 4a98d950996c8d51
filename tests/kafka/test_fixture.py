"""The fixture `kafka_cluster`, as a user's test would have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sojourn import ManualClock
    from sojourn.kafka import Cluster


def test_the_fixture_has_three_brokers_on_the_system_clock(kafka_cluster: Cluster) -> None:
    assert [broker.id for broker in kafka_cluster.brokers] == [1, 2, 3]
    assert kafka_cluster.bootstrap_servers.count("127.0.0.1:") == 3


def test_with_a_manual_clock_the_brokers_go_by_it(
    kafka_cluster: Cluster, manual_clock: ManualClock
) -> None:
    assert kafka_cluster.clock is manual_clock


@pytest.mark.kafka_cluster(brokers=1, config={"num.partitions": 7})
def test_a_marker_says_what_cluster_it_is(kafka_cluster: Cluster) -> None:
    assert len(kafka_cluster.brokers) == 1
    assert kafka_cluster.settings.number("num.partitions") == 7
