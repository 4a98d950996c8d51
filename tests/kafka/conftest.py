"""Fixtures of Kafka's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sojourn.kafka import Cluster
    from tests.kafka.wire_client import WireClient


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[WireClient]:
    """A client of broker 1, without a socket; each file has its own `cluster`."""
    from tests.kafka.wire_client import direct

    with direct(cluster) as wire:
        yield wire
