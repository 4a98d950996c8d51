"""Programs in tests/kafka/java, run with the jars of a real Kafka against a cluster of ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import sojourn
from sojourn.kafka import Cluster
from tests.kafka.conformance import real

_FOLDER = Path(__file__).parent / "java"


def jars_or_skip(version: str) -> Path:
    """The jars of this version; skips, with the reason, where they cannot be had."""
    if not sojourn.compiled:
        pytest.skip("nothing of this is compiled: the other build's run has asked")
    try:
        return real.jars(version)
    except real.Unavailable as why:
        pytest.skip(str(why))


def run_java(program: str, jars: Path, cluster: Cluster, timeout_s: float) -> list[str]:
    """The lines that a program prints; it is told where the cluster is."""
    command = ["java", *real.JAVA, "-cp", f"{jars}/*", str(_FOLDER / program)]
    done = subprocess.run(
        [*command, cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
