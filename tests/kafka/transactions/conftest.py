"""A cluster for transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sojourn import ManualClock

if TYPE_CHECKING:
    from sojourn.kafka import Cluster


@pytest.fixture
def cluster(manual_clock: ManualClock) -> Iterator[Cluster]:
    """Three brokers that all have both partitions of `t`; two have to be in sync."""
    from sojourn.kafka import Cluster

    with Cluster(brokers=3, clock=manual_clock, config={"min.insync.replicas": 2}) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=3)
        yield cluster
