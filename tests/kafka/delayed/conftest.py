"""A cluster for requests that wait, on a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sojourn import ManualClock

if TYPE_CHECKING:
    from sojourn.kafka import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three brokers, a topic that all have and broker 1 leads, and one of broker 1 alone."""
    from sojourn.kafka import Cluster

    with Cluster(brokers=3, clock=ManualClock()) as cluster:
        cluster.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
        cluster.move_leader("t", 0, 1)
        controller = cluster.controller
        with cluster.agenda:
            controller.add_topic("solo", [(1,)], controller.topic_settings(None))
        yield cluster
