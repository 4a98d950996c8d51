"""Whom a scenario asks: our cluster or a real one, behind one face.

    world.topic("t")                                  there is a topic, known to every broker
    world.ask("at its end", "fetch", 12, ...)         a step: its answer is compared
    world.ask("...", ..., timed_ms=400)               compared as well: did it wait for so long?
    world.send(...) / world.waits(...) / world.receive(...)    a step in parts

On our cluster time is a ManualClock: a request that waits costs nothing. A real Kafka waits.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from sojourn import ManualClock
from sojourn.kafka import Cluster
from tests.kafka.conformance.exchange import CLOSED, Exchange
from tests.kafka.conformance.normal import Normal
from tests.kafka.conformance.real import USERS, RealCluster
from tests.kafka.conformance.recording import Answer

#: What both are started with: one replica of what Kafka keeps for itself, no waiting for members.
CONFIG = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}

#: A scenario with this in its config has brokers that know two users, by three mechanisms.
SASL = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}

_PATIENCE_S = 30.0

# Scenarios spread a request's fields into a call, and mypy takes them for these.
_One = Any


class World(ABC):
    """One scenario's cluster and what it has answered."""

    def __init__(self, scenario: str, normal: Normal) -> None:
        self.scenario = scenario
        self.answers: list[Answer] = []
        self.topic_ids: dict[str, str] = {}
        self._normal = normal
        self._exchanges: dict[tuple[int, str], Exchange] = {}
        self._steps: set[str] = set()

    # Steps.

    def ask(
        self,
        step: str,
        api: str,
        version: int,
        *,
        at: _One = 1,
        client: _One = "conformance",
        timed_ms: _One = 0,
        **fields: Any,
    ) -> Any:
        """Ask, note what came back, and return it as it came."""
        exchange = self.exchange(at, client)
        start_s = time.monotonic()
        exchange.send(api, version, **fields)
        waited = self._await(exchange, at, timed_ms)
        answer = exchange.receive()
        if timed_ms and not isinstance(waited, bool):
            waited = time.monotonic() - start_s >= timed_ms / 1000 * 0.8
        noted = {**answer, "waited": waited} if timed_ms and answer != CLOSED else answer
        self.note(f"{step}, v{version}", noted)
        return answer

    def eventually(
        self, step: str, until: Callable[[Any], bool], api: str, version: int, **fields: Any
    ) -> Any:
        """Ask again and again until the answer is as it should be, and note that one."""
        answer = self.setup(until, api, version, **fields)
        self.note(f"{step}, v{version}", answer)
        return answer

    def setup(
        self,
        until: Callable[[Any], bool],
        api: str,
        version: int,
        *,
        at: _One = 1,
        client: _One = "conformance",
        **fields: Any,
    ) -> Any:
        """The same, and note nothing."""
        exchange = self.exchange(at, client)
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            exchange.send(api, version, **fields)
            self._await(exchange, at, 0)
            answer = exchange.receive()
            if answer != CLOSED and until(answer):
                return answer
            assert time.monotonic() < deadline_s, (self.scenario, api, answer)
            self.advance(20)

    def send(self, api: str, version: int, *, at: _One = 1, client: _One, **fields: Any) -> None:
        """Ask, and go on."""
        self.exchange(at, client).send(api, version, **fields)
        self.settle(at)

    def waits(self, step: str, *, at: int = 1, client: str) -> None:
        """Note whether this client's request is still waiting."""
        self.settle(at)
        self.note(step, {"waits": not self.exchange(at, client).has_answer()})

    def receive(self, step: str, *, at: int = 1, client: str) -> Any:
        """Note what came back at last."""
        exchange = self.exchange(at, client)
        self._await(exchange, at, 0)
        answer = exchange.receive()
        self.note(step, answer)
        return answer

    def raw(self, step: str, frame: bytes, *, at: int = 1) -> None:
        """Send a frame that no library would write, and note the answer's bytes."""
        exchange = self.exchange(at, "raw")
        exchange.send_raw(frame)
        self.note(step, exchange.receive())

    def number(self, *ids: str) -> None:
        """Number these ids now: where an answer brings several, their order says nothing."""
        for one in ids:
            self._normal(one)

    def note(self, step: str, answer: Any) -> None:
        """Note what came back, or what came of several requests with random answers."""
        assert step not in self._steps, f"{self.scenario}: {step} twice"
        self._steps.add(step)
        self.answers.append(Answer(self.scenario, step, self._normal(answer)))

    # What steps need.

    def exchange(self, at: int, client: str) -> Exchange:
        """This client's connection to this broker."""
        found = self._exchanges.get((at, client))
        if found is None:
            host, port = self.address(at)
            found = self._exchanges[at, client] = Exchange(host, port, client)
        return found

    def topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        assignment: list[list[int]] | None = None,
    ) -> str:
        """Make a topic, wait until every broker knows it, return its id."""
        manual = [
            {"partition_index": index, "broker_ids": brokers}
            for index, brokers in enumerate(assignment or [])
        ]
        asked = {
            "name": name,
            "num_partitions": -1 if manual else partitions,
            "replication_factor": -1 if manual else 1,
            "assignments": manual,
            "configs": [{"name": key, "value": one} for key, one in (config or {}).items()],
        }
        created = self.exchange(1, "setup").ask("create_topics", 7, topics=[asked], timeout=10_000)
        assert created["topics"][0]["error_code"] == 0, created
        for broker in self.brokers():
            known = self.setup(_has_leaders, "metadata", 12, at=broker, topics=[{"name": name}])
        for partition in known["topics"][0]["partitions"]:
            # The leader may know that it leads before it does.
            rows = [{"partition_index": partition["partition_index"], "timestamp": -1}]
            self.setup(
                lambda answer: answer["topics"][0]["partitions"][0]["error_code"] == 0,
                "list_offsets",
                5,
                at=partition["leader_id"],
                replica_id=-1,
                topics=[{"name": name, "partitions": rows}],
            )
        self.topic_ids[name] = created["topics"][0]["topic_id"]
        return self.topic_ids[name]

    def coordinator(self, group: str = "g") -> None:
        """Wait until groups are coordinated."""
        self.setup(
            lambda answer: answer["error_code"] == 0, "find_coordinator", 2, key=group, key_type=0
        )
        self.setup(
            lambda answer: answer["groups"][0]["error_code"] == 0,
            "describe_groups",
            2,
            groups=[group],
        )

    def now_ms(self) -> int:
        """Wall time, as both clusters have it when the scenario begins."""
        return int(time.time() * 1000)

    @abstractmethod
    def brokers(self) -> list[int]: ...

    @abstractmethod
    def address(self, broker: int) -> tuple[str, int]: ...

    @abstractmethod
    def advance(self, ms: int) -> None:
        """Let this much time pass."""

    @abstractmethod
    def settle(self, at: int) -> None:
        """Wait until the broker has taken up what it was sent."""

    @abstractmethod
    def _await(self, exchange: Exchange, at: int, timed_ms: int) -> bool | None:
        """Let time pass until there is an answer; whether that was needed, if it is known."""

    @abstractmethod
    def freeze(self, broker: int) -> None:
        """The broker stops doing anything, and its connections stay."""

    @abstractmethod
    def thaw(self, broker: int) -> None: ...

    @abstractmethod
    def stop(self, broker: int) -> None:
        """The broker dies, and the others know of it."""

    def close(self) -> None:
        for exchange in self._exchanges.values():
            exchange.close()


def _has_leaders(answer: Any) -> bool:
    (topic,) = answer["topics"]
    return topic["error_code"] == 0 and all(one["leader_id"] >= 0 for one in topic["partitions"])


class Ours(World):
    """A scenario on our cluster."""

    def __init__(self, scenario: str, brokers: int, config: Mapping[str, str]) -> None:
        self.clock = ManualClock()
        has_users = SASL.items() <= config.items()
        self.cluster = Cluster(
            brokers,
            clock=self.clock,
            config=CONFIG | dict(config),
            security="SASL_PLAINTEXT" if has_users else "PLAINTEXT",
            users=USERS if has_users else None,
        )
        places = {}
        for broker in self.cluster.brokers:
            places[str(broker.port)] = f"port-{broker.id}"
            places[broker.log_dir] = f"dir-{broker.id}"
        super().__init__(scenario, Normal(places))

    def brokers(self) -> list[int]:
        return [broker.id for broker in self.cluster.brokers if broker.is_alive]

    def address(self, broker: int) -> tuple[str, int]:
        found = self.cluster.broker(broker)
        return found.host, found.port

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    def settle(self, at: int) -> None:
        # What was sent before is taken up at the latest in the round after the first of these.
        for _ in range(2):
            self.cluster._listener.call(lambda: None)

    def _await(self, exchange: Exchange, at: int, timed_ms: int) -> bool:
        self.settle(at)
        waited = not exchange.has_answer()
        for _ in range(120):
            if exchange.has_answer():
                break
            self.clock.advance(timed_ms or 500)
            self.settle(at)
        return waited

    def freeze(self, broker: int) -> None:
        for partition in self.cluster.controller.partitions():
            if broker in partition.fetchers:
                self.cluster.pause_follower(broker, partition.topic.name, partition.index)

    def thaw(self, broker: int) -> None:
        for partition in self.cluster.controller.partitions():
            if broker in partition.fetchers:
                self.cluster.resume(broker, partition.topic.name, partition.index)

    def stop(self, broker: int) -> None:
        self.cluster.stop_broker(broker)

    def close(self) -> None:
        super().close()
        self.cluster.close()


class Real(World):
    """A scenario on a real Kafka."""

    def __init__(self, scenario: str, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._stopped: set[int] = set()
        places = {str(cluster.controller_port): "port-controller"}
        for broker, port in cluster.ports.items():
            places[str(port)] = f"port-{broker}"
            places[str(cluster.directory / f"log-{broker}")] = f"dir-{broker}"
        super().__init__(scenario, Normal(places))

    def brokers(self) -> list[int]:
        return [broker for broker in self._cluster.brokers if broker not in self._stopped]

    def address(self, broker: int) -> tuple[str, int]:
        return "127.0.0.1", self._cluster.ports[broker]

    def advance(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def settle(self, at: int) -> None:
        time.sleep(0.25)

    def _await(self, exchange: Exchange, at: int, timed_ms: int) -> bool | None:
        return None

    def freeze(self, broker: int) -> None:
        self._cluster.freeze(broker)

    def thaw(self, broker: int) -> None:
        self._cluster.thaw(broker)

    def stop(self, broker: int) -> None:
        self._cluster.stop(broker)
        self._stopped.add(broker)
        others = self.brokers()
        for other in others:
            self.setup(
                lambda answer: len(answer["brokers"]) == len(others),
                "metadata",
                12,
                at=other,
                topics=[],
            )
