"""A Kafka cluster in this process: real sockets, real replication, a clock that a test can move.

with Cluster(brokers=3) as cluster:
    cluster.create_topic("t", partitions=6, replication_factor=3)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from zlib import crc32

from sojourn.clock import SystemClock
from sojourn.kafka import metadata
from sojourn.kafka.agenda import Agenda
from sojourn.kafka.broker import Broker
from sojourn.kafka.configs import BROKER, Settings
from sojourn.kafka.controller import Controller
from sojourn.kafka.groups import Groups
from sojourn.kafka.listener import Listener
from sojourn.kafka.purgatories import Purgatories
from sojourn.timer import Timer

if TYPE_CHECKING:
    from sojourn.clock import Clock
    from sojourn.kafka.topic import Topic


class Cluster:
    """Brokers 1 to `brokers`, on `host` and ports chosen by the system, or from `port` up.

    `clock` is where every timeout of the brokers comes from: the system's, or a `ManualClock`
    to move by hand. `config` holds broker settings by their Kafka names. Everything may be
    called from any thread.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        clock: Clock | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        config: Mapping[str, object] | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers must be ≥ 1, got {brokers}")
        self.clock: Any = SystemClock() if clock is None else clock
        self.settings = Settings(BROKER, None, config)
        self.id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.agenda = Agenda()
        self.timer = Timer(self.clock, name="kafka")
        self.purgatories = Purgatories(self.timer)
        self._listener = Listener(host, self.settings.number("socket.request.max.bytes"))
        self.brokers: list[Broker] = []
        self.controller = Controller(self)
        self.groups = Groups(self)
        try:
            for n in range(brokers):
                broker = Broker(
                    n + 1,
                    self,
                    self._listener,
                    port + n if port else 0,
                    Settings(BROKER, self.settings),
                )
                self.brokers.append(broker)
        except OSError:
            self.close()
            raise
        for broker in self.brokers:
            broker.register(metadata.handlers(broker))
            broker.register(self.groups.handlers(broker))
            self.start_broker(broker.id)

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: host:port of every broker, with commas between."""
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers)

    def now_ms(self) -> int:
        """The time on the cluster's clock; its zero means nothing."""
        return int(self.clock.now_ns()) // 1_000_000

    def broker(self, broker_id: int) -> Broker:
        """The broker of this id."""
        if not 1 <= broker_id <= len(self.brokers):
            raise ValueError(f"there is no broker {broker_id}, only 1 to {len(self.brokers)}")
        return self.brokers[broker_id - 1]

    def coordinator(self, group_id: str) -> Broker | None:
        """The broker that coordinates this group; None while no broker is alive.

        By a hash of the id over all brokers; if that one is stopped, the next that is alive.
        """
        start = crc32(group_id.encode()) % len(self.brokers)
        for broker in self.brokers[start:] + self.brokers[:start]:
            if broker.is_alive:
                return broker
        return None

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> Topic:
        """Create a topic, at once."""
        with self.agenda:
            return self.controller.create_topic(name, partitions, replication_factor, config)

    # Faults.

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker as if it had died: its connections break, its log stays."""
        broker = self.broker(broker_id)
        with self.agenda:
            if not broker.is_alive:
                return
            broker.is_alive = False
            self.controller.broker_stopped(broker)
            self.groups.settle()
        broker.door.shut()

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped, on the same port, with the log it had."""
        broker = self.broker(broker_id)
        with self.agenda:
            if broker.is_alive:
                return
            broker.is_alive = True
            self.controller.broker_started(broker)
            self.groups.settle()
        broker.door.open()

    def close(self) -> None:
        """Stop everything. What waits is dropped, and its connections are closed."""
        self.timer.close()
        for broker in self.brokers:
            broker.is_alive = False
            broker.door.close()
        self.purgatories.close()
        self._listener.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Cluster of {len(self.brokers)} brokers at {self.bootstrap_servers}>"
