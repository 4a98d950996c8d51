"""A real Spark cluster on loopback: a master and two workers, each a process of its own.

A process has one Spark session, and the tests have theirs; so a job for the cluster runs as a
program of its own: `spark_cluster.run(program)`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.spark.fixtures import need_java
from tests.until import until

_STARTS_WITHIN_S = 120
_RUNS_WITHIN_S = 600


@dataclass(frozen=True)
class SparkCluster:
    master: str  # spark://127.0.0.1:port
    workers: int

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run a module with SPARK_MASTER in its environment; return what it prints."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", program, *map(str, arguments)],
            cwd=ROOT,
            env=os.environ | {"SPARK_MASTER": self.master},
            capture_output=True,
            text=True,
            check=False,
            timeout=_RUNS_WITHIN_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    need_java()
    folder = tmp_path_factory.mktemp("spark-cluster")
    with ExitStack() as stack:
        master = stack.enter_context(
            _daemon(folder / "master", r"(spark://127\.0\.0\.1:\d+)", "master.Master")
        )
        for n in range(2):
            stack.enter_context(
                _daemon(
                    folder / f"worker-{n}",
                    r"(Successfully registered with master)",
                    "worker.Worker",
                    *("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{n}")),
                    master,
                )
            )
        yield SparkCluster(master, 2)


@contextmanager
def _daemon(log: Path, ready: str, name: str, *arguments: str) -> Iterator[str]:
    """Start one, wait until its log has what is looked for, give that; stop it in the end."""
    import pyspark

    from sojourn.spark.java import find_java
    from tests.spark import home as spark_home

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java(os.environ).home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": spark_home.java_options(),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with log.open("w") as file:
        process = subprocess.Popen(  # spark-class becomes the JVM, so this is the JVM's process
            [
                home / "bin" / "spark-class",
                f"org.apache.spark.deploy.{name}",
                *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                *arguments,
            ],
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )

    def is_ready() -> re.Match[str] | None:
        assert process.poll() is None, f"{name} did not start:\n{log.read_text()}"
        return re.search(ready, log.read_text())

    try:
        yield until(is_ready, lambda: f"{name} to start:\n{log.read_text()}", _STARTS_WITHIN_S)[1]
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
