"""A real Kafka, from Maven Central: nodes that are processes, started and stopped here.

Everything lies under build/kafka: the jars of each version, and for each cluster a directory
that is removed when the cluster stops.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.checkout import ROOT
from tests.kafka.conformance.exchange import Exchange

BUILD = ROOT / "build" / "kafka"
#: A small JVM that starts quickly.
JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_CLUSTER_ID = "c29qb3Vybi1rYWZrYS0wMQ"
_READY_S = 900.0
_CONTROLLER = 100

#: Who can log in to brokers with `sasl.enabled.mechanisms`.
USERS = {"alice": "alice-secret", "bob": "bob-secret"}

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>none</groupId><artifactId>none</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{version}</version></dependency></dependencies></project>
"""


class Unavailable(Exception):
    """There is no real Kafka to be had here; says why."""


def jars(version: str) -> Path:
    """The directory of this version's jars, fetched if they are not there; or Unavailable."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is not installed")
    target = BUILD / version / "jars"
    if (target / "complete").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    pom = target.parent / "pom.xml"
    pom.write_text(_POM.format(version=version))
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={target}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"Maven could not fetch Kafka {version}: {done.stdout[-500:]}")
    (target / "complete").touch()
    return target


class RealCluster:
    """One node that is broker and controller; or, of several brokers, a controller besides."""

    def __init__(self, version: str, brokers: int, config: Mapping[str, str]) -> None:
        self._jars = jars(version)
        self.brokers = list(range(1, brokers + 1))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        (BUILD / "clusters").mkdir(exist_ok=True)
        self.directory = Path(tempfile.mkdtemp(prefix=f"{version}-", dir=BUILD / "clusters"))
        ports = _free_ports(2 * brokers + 1)
        self.controller_port = ports[0]
        self.ports = dict(zip(self.brokers, ports[1 : brokers + 1], strict=True))
        self._mechanisms = [
            one for one in config.get("sasl.enabled.mechanisms", "").split(",") if one
        ]
        # With SASL brokers have a second listener, for each other and for us to see them start.
        plain = ports[brokers + 1 :] if self._mechanisms else ports[1 : brokers + 1]
        self._plain_ports = dict(zip(self.brokers, plain, strict=True))
        try:
            nodes = self.brokers if brokers == 1 else [_CONTROLLER, *self.brokers]
            for node in nodes:
                self._format(node, self._properties(node, ports[0], config))
            for node in nodes:
                self.start(node)
            self._await_all()
        except BaseException:
            self.close()
            raise

    def _properties(self, node: int, controller_port: int, config: Mapping[str, str]) -> Path:
        alone = len(self.brokers) == 1
        quorum = self.brokers[0] if alone else _CONTROLLER
        roles = "broker,controller" if alone else "controller" if node == quorum else "broker"
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self._plain_ports[node]}")
            if self._mechanisms:
                listeners.append(f"SASL_PLAINTEXT://127.0.0.1:{self.ports[node]}")
                config = {**config, **self._sasl_properties()}
        if node == quorum:
            listeners.append(f"CONTROLLER://127.0.0.1:{controller_port}")
        values = {
            "process.roles": roles,
            "node.id": node,
            "controller.quorum.voters": f"{quorum}@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "log.dirs": self.directory / f"log-{node}",
            **config,
        }
        path = self.directory / f"{node}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return path

    def _sasl_properties(self) -> dict[str, str]:
        modules = "org.apache.kafka.common.security"
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        found = {
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,"
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        for mechanism in self._mechanisms:
            module = f"{modules}.scram.ScramLoginModule required;"
            if mechanism == "PLAIN":
                module = f"{modules}.plain.PlainLoginModule required {users};"
            name = f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config"
            found[name] = module
        return found

    def _format(self, node: int, properties: Path) -> None:
        command = self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID)
        for mechanism in self._mechanisms:
            if mechanism.startswith("SCRAM"):
                for name, password in USERS.items():
                    command += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        done = subprocess.run(
            [*command, "-c", str(properties)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Unavailable(f"node {node} cannot be formatted: {done.stdout}{done.stderr}")

    def _java(self, *arguments: str) -> list[str]:
        return ["java", *JAVA, "-cp", f"{self._jars}/*", *arguments]

    def start(self, node: int) -> None:
        with (self.directory / f"{node}.out").open("ab") as out:
            self._processes[node] = subprocess.Popen(
                self._java("kafka.Kafka", str(self.directory / f"{node}.properties")),
                stdout=out,
                stderr=out,
            )

    def stop(self, node: int) -> None:
        process = self._processes.pop(node)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        process.kill()
        process.wait()

    def freeze(self, node: int) -> None:
        os.kill(self._processes[node].pid, signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        os.kill(self._processes[node].pid, signal.SIGCONT)

    def _await_all(self) -> None:
        """Wait until every broker knows of every broker."""
        deadline_s = time.monotonic() + _READY_S
        for broker in self.brokers:
            while not self._knows_all(broker):
                gone = [node for node, one in self._processes.items() if one.poll() is not None]
                if gone or time.monotonic() > deadline_s:
                    said = (self.directory / f"{(gone or [broker])[0]}.out").read_text()
                    raise Unavailable(f"node {(gone or [broker])[0]} did not start: {said[-2000:]}")
                time.sleep(0.05)

    def _knows_all(self, broker: int) -> bool:
        try:
            with contextlib.closing(Exchange("127.0.0.1", self._plain_ports[broker])) as exchange:
                answer = exchange.ask("metadata", 9, topics=[])
        except OSError:
            return False
        return answer != "closed" and len(answer["brokers"]) == len(self.brokers)

    def close(self) -> None:
        for node in list(self._processes):
            self.stop(node)
        shutil.rmtree(self.directory, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in socks]


@contextlib.contextmanager
def running(version: str, brokers: int, config: Mapping[str, str]) -> Iterator[RealCluster]:
    cluster = RealCluster(version, brokers, config)
    try:
        yield cluster
    finally:
        cluster.close()
