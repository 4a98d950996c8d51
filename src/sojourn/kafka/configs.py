"""Configuration: what can be set on a broker and on a topic, its type, default and bounds.

A topic's setting is, in this order: its own, the broker-wide one of the corresponding name
(`log.retention.ms` for `retention.ms`), the default. Values are kept as text, as the protocol
has them, and checked when set. Settings that change nothing here are accepted when Kafka would
accept them, so that a client's own topic definitions can be used unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sojourn.errors import OutOfRange

# The protocol's numbers for types.
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = range(1, 8)

# And for where a value comes from.
TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5

_I32 = 2**31 - 1
_I64 = 2**63 - 1


class InvalidConfig(OutOfRange):
    """A name that nobody knows, or a value that cannot be."""


class Definition(NamedTuple):
    """What a setting may be."""

    type: int
    default: str
    low: float = 0
    high: float = _I64
    choices: tuple[str, ...] = ()
    broker_name: str = ""  # of a topic's setting: what it is called broker-wide
    read_only: bool = False

    def checked(self, name: str, value: str) -> str:
        """Return the value if it may be, or say why not."""
        text = value.strip()
        if self.type == BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise InvalidConfig(f"{name} must be true or false, got {value!r}")
            return text.lower()
        if self.type in (INT, SHORT, LONG, DOUBLE):
            as_number: Callable[[str], float] = float if self.type == DOUBLE else int
            try:
                number = as_number(text)
            except ValueError:
                raise InvalidConfig(f"{name} must be a number, got {value!r}") from None
            if not self.low <= number <= self.high:
                raise InvalidConfig(f"{name} must be from {self.low} to {self.high}, got {value}")
            return text
        if self.choices:
            parts = [part.strip() for part in text.split(",")] if self.type == LIST else [text]
            if self.type == LIST and not text:
                parts = []  # taking the last one away leaves none
            for part in parts:
                if part not in self.choices:
                    allowed = ", ".join(self.choices)
                    raise InvalidConfig(f"{name} must be one of {allowed}, got {value!r}")
        return text


_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC: Mapping[str, Definition] = {
    "cleanup.policy": Definition(
        LIST, "delete", choices=("delete", "compact"), broker_name="log.cleanup.policy"
    ),
    "compression.type": Definition(
        STRING, "producer", choices=_CODECS, broker_name="compression.type"
    ),
    "delete.retention.ms": Definition(LONG, "86400000"),
    "file.delete.delay.ms": Definition(LONG, "60000"),
    "flush.messages": Definition(LONG, str(_I64), low=1),
    "flush.ms": Definition(LONG, str(_I64)),
    "follower.replication.throttled.replicas": Definition(LIST, ""),
    "index.interval.bytes": Definition(INT, "4096", high=_I32),
    "leader.replication.throttled.replicas": Definition(LIST, ""),
    "max.compaction.lag.ms": Definition(LONG, str(_I64), low=1),
    "max.message.bytes": Definition(INT, "1048588", high=_I32, broker_name="message.max.bytes"),
    "message.downconversion.enable": Definition(BOOLEAN, "true"),
    "message.format.version": Definition(STRING, "3.0-IV1"),
    "message.timestamp.after.max.ms": Definition(LONG, str(_I64)),
    "message.timestamp.before.max.ms": Definition(LONG, str(_I64)),
    "message.timestamp.difference.max.ms": Definition(LONG, str(_I64)),
    "message.timestamp.type": Definition(
        STRING,
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        broker_name="log.message.timestamp.type",
    ),
    "min.cleanable.dirty.ratio": Definition(DOUBLE, "0.5", high=1),
    "min.compaction.lag.ms": Definition(LONG, "0"),
    "min.insync.replicas": Definition(
        INT, "1", low=1, high=_I32, broker_name="min.insync.replicas"
    ),
    "preallocate": Definition(BOOLEAN, "false"),
    "retention.bytes": Definition(LONG, "-1", low=-1, broker_name="log.retention.bytes"),
    "retention.ms": Definition(LONG, "604800000", low=-1, broker_name="log.retention.ms"),
    "segment.bytes": Definition(INT, "1073741824", low=14, high=_I32),
    "segment.index.bytes": Definition(INT, "10485760", low=4, high=_I32),
    "segment.jitter.ms": Definition(LONG, "0"),
    "segment.ms": Definition(LONG, "604800000", low=1),
    "unclean.leader.election.enable": Definition(
        BOOLEAN, "false", broker_name="unclean.leader.election.enable"
    ),
}

BROKER: Mapping[str, Definition] = {
    "advertised.listeners": Definition(STRING, ""),  # not set: they are the listeners
    "auto.create.topics.enable": Definition(BOOLEAN, "true", read_only=True),
    "broker.id": Definition(INT, "-1", low=-1, high=_I32, read_only=True),
    "controller.quota.window.num": Definition(INT, "11", low=1, high=_I32, read_only=True),
    "controller.quota.window.size.seconds": Definition(INT, "1", low=1, high=_I32, read_only=True),
    "default.replication.factor": Definition(INT, "1", low=1, high=_I32, read_only=True),
    "delete.topic.enable": Definition(BOOLEAN, "true", read_only=True),
    # Kafka's code says 3 s, its own configuration for development 0, and so do we: a test should
    # not wait unless it asks to.
    "group.initial.rebalance.delay.ms": Definition(INT, "0", high=_I32, read_only=True),
    "group.max.session.timeout.ms": Definition(INT, "1800000", high=_I32, read_only=True),
    "group.max.size": Definition(INT, str(_I32), low=1, high=_I32, read_only=True),
    "group.min.session.timeout.ms": Definition(INT, "6000", high=_I32, read_only=True),
    "listeners": Definition(STRING, "", read_only=True),
    "node.id": Definition(INT, "-1", low=-1, high=_I32, read_only=True),
    "log.dirs": Definition(STRING, "", read_only=True),
    "log.cleanup.policy": TOPIC["cleanup.policy"]._replace(broker_name=""),
    "compression.type": TOPIC["compression.type"]._replace(broker_name=""),
    "log.message.timestamp.type": TOPIC["message.timestamp.type"]._replace(broker_name=""),
    "log.retention.bytes": TOPIC["retention.bytes"]._replace(broker_name=""),
    "log.retention.check.interval.ms": Definition(LONG, "300000", low=1, read_only=True),
    "log.retention.ms": TOPIC["retention.ms"]._replace(broker_name=""),
    "max.incremental.fetch.session.cache.slots": Definition(INT, "1000", high=_I32, read_only=True),
    "message.max.bytes": TOPIC["max.message.bytes"]._replace(broker_name=""),
    "min.insync.replicas": TOPIC["min.insync.replicas"]._replace(broker_name=""),
    "num.partitions": Definition(INT, "1", low=1, high=_I32, read_only=True),
    "offset.metadata.max.bytes": Definition(INT, "4096", high=_I32, read_only=True),
    "offsets.retention.minutes": Definition(INT, "10080", low=1, high=_I32, read_only=True),
    "producer.id.expiration.check.interval.ms": Definition(
        INT, "600000", low=1, high=_I32, read_only=True
    ),
    "producer.id.expiration.ms": Definition(INT, "86400000", low=1, high=_I32),
    "replica.fetch.max.bytes": Definition(INT, "1048576", high=_I32, read_only=True),
    "replica.lag.time.max.ms": Definition(LONG, "30000", read_only=True),
    "socket.request.max.bytes": Definition(INT, "104857600", low=1, high=_I32, read_only=True),
    "unclean.leader.election.enable": TOPIC["unclean.leader.election.enable"]._replace(
        broker_name=""
    ),
    # Not of Kafka's: its quotas are set per user, of which we have none.
    "sojourn.partition.mutations.per.second": Definition(DOUBLE, "inf", high=float("inf")),
}


class Settings:
    """Settings of one broker, topic or cluster: what was set, over what is beneath."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        beneath: Settings | None = None,
        values: Mapping[str, object] | None = None,
    ) -> None:
        self.definitions = definitions
        self.beneath = beneath
        self.own: dict[str, str] = {}
        #: Whether a client has changed them since.
        self.is_altered = False
        for name, value in (values or {}).items():
            self.set(name, _as_text(value))

    def set(self, name: str, value: str) -> None:
        """Set it, or raise InvalidConfig."""
        self.own[name] = self.checked(name, value)

    def checked(self, name: str, value: str) -> str:
        if name not in self.definitions:
            raise InvalidConfig(f"Unknown config name: {name}")
        return self.definitions[name].checked(name, value)

    def unset(self, name: str) -> None:
        self.own.pop(name, None)

    def text(self, name: str) -> str:
        """The value in force."""
        found = self.own.get(name)
        if found is not None:
            return found
        definition = self.definitions[name]
        if self.beneath is not None:
            broker_name = definition.broker_name or name
            if broker_name in self.beneath.definitions:
                return self.beneath.text(broker_name)
        return definition.default

    def number(self, name: str) -> int:
        return int(self.text(name))

    def flag(self, name: str) -> bool:
        return self.text(name) == "true"


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
