"""Kafka's own Java client, of both versions, in transactions against our brokers."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka import Cluster
from tests.kafka.conformance import recording
from tests.kafka.java_programs import jars_or_skip, run_java


@pytest.mark.nightly
@pytest.mark.parametrize("version", recording.VERSIONS)
def test_the_java_client_commits_aborts_and_is_fenced(version: str) -> None:
    jars = jars_or_skip(version)
    config = {"group.coordinator.rebalance.protocols": "classic"}  # refuses the newer protocol
    with Cluster(brokers=3, config=config) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=3)
        lines = run_java("Transactions.java", jars, cluster, timeout_s=300)
    assert lines == [
        "committed [a, c]",
        "all [a, b, c]",
        "offset 5",
        "fenced",
        "committed [a, c, of the second]",
        "state Ongoing [t-0]",
        "listed [ends, fencing, offsets, open]",
        "hangs true",
        "stable true",
        "unsupported",
    ]
