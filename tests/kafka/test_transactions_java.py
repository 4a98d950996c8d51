"""Kafka's own Java client, of both versions, in transactions against our brokers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

import sojourn
from sojourn.kafka import Cluster
from tests.kafka.conformance import real, recording

PROGRAM = Path(__file__).parent / "java" / "Transactions.java"
QUIET = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@pytest.mark.nightly
@pytest.mark.parametrize("version", recording.VERSIONS)
def test_the_java_client_commits_aborts_and_is_fenced(version: str) -> None:
    if not sojourn.compiled:
        pytest.skip("nothing of this is compiled: the other build's run has asked")
    try:
        jars = real.jars(version)
    except real.Unavailable as why:
        pytest.skip(str(why))
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=3)
        done = subprocess.run(
            ["java", *QUIET, "-cp", f"{jars}/*", str(PROGRAM), cluster.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
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
