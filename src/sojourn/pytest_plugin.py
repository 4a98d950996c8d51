"""Fixtures for tests of code that waits; pytest finds them wherever sojourn is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sojourn.core.clock import ManualClock
    from sojourn.kafka import Cluster
    from sojourn.kafka.faults import Faults


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka_cluster(**options): what the fixture kafka_cluster passes to sojourn.kafka.Cluster",
    )


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that moves only when told to: `manual_clock.advance(50)` runs what falls due."""
    from sojourn.core.clock import ManualClock

    return ManualClock()


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A Kafka cluster of three brokers, or as `@pytest.mark.kafka_cluster(brokers=1)` has it.

    In a test that asks for `manual_clock` too, the brokers go by that clock.
    """
    pytest.importorskip("kio", reason="kio is not installed: pip install 'sojourn[kafka]'")
    from sojourn.kafka import Cluster

    options: dict[str, Any] = {"brokers": 3}
    if "manual_clock" in request.fixturenames:
        options["clock"] = request.getfixturevalue("manual_clock")
    for marker in request.node.iter_markers("kafka_cluster"):
        options |= marker.kwargs
    with Cluster(**options) as cluster:
        yield cluster


@pytest.fixture
def kafka_faults(kafka_cluster: Cluster) -> Iterator[Faults]:
    """The faults of `kafka_cluster`; a test that fails shows which it had scripted."""
    yield kafka_cluster.faults
    for fault in kafka_cluster.faults.listed():
        print(fault)  # pytest shows it beside the failure
    kafka_cluster.faults.clear()
