"""A broker: its id, its door, its settings, and the handler of each API.

A handler is called as `handle(request, reply, context)`: `request` as kio read it, `reply` to
be called once with the answer's fields, now or later and from any thread. Handlers run on the
listener's thread with the cluster's agenda held, and never block: a request that has to wait is a
`DelayedRequest` in a purgatory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sojourn._log import log
from sojourn.errors import OutOfRange
from sojourn.kafka import wire
from sojourn.kafka.fetch.sessions import FetchSessions
from sojourn.kafka.metadata_cache import MetadataCache
from sojourn.kafka.network.door import Door
from sojourn.kafka.refusal import Refused
from sojourn.kafka.reply import Reply as Reply

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.network.connection import Connection
    from sojourn.kafka.network.listener import Listener
    from sojourn.kafka.partition import Partition
    from sojourn.kafka.settings.layers import Settings


class Context(NamedTuple):
    """The client of a request, and the broker that it was sent to."""

    api_version: int
    client_id: str
    client_host: str
    connection_id: int
    broker: Broker
    local_host: str  # the address to which the client has connected
    connection: Connection


_PORT_MAX = 65_535
_EVERY_ADDRESS = ("0.0.0.0", "::", "")
_LISTENER = re.compile(r"(\w+)://\[?(.*?)\]?:(\d+)")


def advertised(listeners: str, number: int, protocol: str) -> tuple[str, int] | None:
    """Host and port that the n-th broker advertises, each the next port; None if not set."""
    if not listeners:
        return None
    match = _LISTENER.fullmatch(listeners)
    if (
        match is None
        or match[1] != protocol
        or not match[2]
        or not int(match[3]) + number <= _PORT_MAX
    ):
        raise OutOfRange(
            f"advertised.listeners must be {protocol}://HOST:PORT, got {listeners!r}; of several "
            "brokers each takes the next port"
        )
    return match[2], int(match[3]) + number


def advertised_hosts(listeners: str) -> list[str]:
    """The host of `advertised.listeners`, for the certificate; empty if it is not set."""
    match = _LISTENER.fullmatch(listeners)
    return [match[2]] if match is not None else []


Handler = Callable[[Any, Reply, Context], None]


class Broker:
    """One broker of a cluster: an id, a door, settings and handlers."""

    def __init__(
        self, broker_id: int, cluster: Cluster, listener: Listener, port: int, settings: Settings
    ) -> None:
        self.id = broker_id
        self.cluster = cluster
        self.settings = settings
        self.is_alive = False
        self.handlers: dict[str, Handler] = {}
        self.fetch_sessions = FetchSessions(self)
        self.metadata_cache = MetadataCache(cluster)
        number = len(cluster.brokers)  # counted from 0
        self.advertised = advertised(
            settings.text("advertised.listeners"), number, cluster.security.protocol
        )
        security = cluster.security
        self.door = Door(listener, port, security.serve(self), lambda: security.tls(self))
        # The part of its static settings that is its own.
        own = {
            "broker.id": str(broker_id),
            "node.id": str(broker_id),
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.log_dir,
            "listeners": f"{security.protocol}://{self.host}:{self.port}",
        }
        settings.layers[2].replace(own)

    @property
    def host(self) -> str:
        return self.door.host

    @property
    def port(self) -> int:
        return self.door.port

    @property
    def log_dir(self) -> str:
        """The directory that clients see; the logs are in memory."""
        return f"/sojourn/broker-{self.id}"

    def endpoint(self, context: Context) -> dict[str, Any]:
        """Its host and port in answers: what it advertises, or where it listens.

        If it listens on every address, the one to which the client has connected.
        """
        host, port = self.advertised or (self.host, self.port)
        if host in _EVERY_ADDRESS:
            host = context.local_host
        return {"node_id": self.id, "host": host, "port": port, "rack": None}

    def led_partition(self, topic: str, index: int, leader_epoch: int = -1) -> Partition:
        """The partition, if this broker leads it, in the epoch that the client has; or Refused."""
        partition = self.metadata_cache.partition(topic, index)
        if partition is None:
            raise Refused(wire.ErrorCode.unknown_topic_or_partition)
        partition.check_epoch(leader_epoch)
        if not partition.is_led_by(self.id):
            raise Refused(wire.ErrorCode.not_leader_or_follower)
        return partition

    def register(self, handlers: Mapping[str, Handler]) -> None:
        """Serve these APIs, and advertise them."""
        for name in handlers:
            if name not in wire.VERSIONS:
                raise ValueError(f"{name!r} has no entry in wire.VERSIONS")
        self.handlers.update(handlers)

    def serve(self, connection: Connection, request: wire.Request) -> None:
        """Serve a request of a connection, on the listener's thread."""
        api = request.api
        if api.name not in self.handlers:
            log.warning("kafka: broker %d does not serve %s; connection closed", self.id, api.name)
            connection.close()
            return
        faults = self.cluster.faults
        if faults.is_active and faults.apply(self, connection, request):
            return
        self.handle(connection, request, Reply(connection, api, request.correlation_id))

    def handle(self, connection: Connection, request: wire.Request, reply: Reply) -> None:
        """Call the request's handler; if that raises, the connection is closed."""
        api = request.api
        context = Context(
            api.version,
            request.client_id,
            connection.host,
            connection.number,
            self,
            connection.local_host,
            connection,
        )
        try:
            with self.cluster.agenda:
                if self.is_alive:
                    self.handlers[api.name](request.payload, reply, context)
                else:
                    connection.close_soon()
        except Exception:
            log.exception(
                "kafka: broker %d could not handle %s version %d; connection closed",
                self.id,
                api.name,
                api.version,
            )
            connection.close_soon()

    def __repr__(self) -> str:
        state = "" if self.is_alive else " stopped"
        return f"<Broker {self.id} at {self.host}:{self.port}{state}>"
