"""Asks a broker's handlers without sockets: fields in, fields out, at once and in this thread."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from sojourn.kafka import Cluster
from sojourn.kafka.broker import Context


class Answer:
    """The answer to one request, when it comes."""

    def __init__(self) -> None:
        self.fields: Any = None
        self.is_over = False

    def __call__(self, fields: Any) -> None:
        self.fields, self.is_over = fields, True

    def send_nothing(self) -> None:
        self.is_over = True

    def hang_up(self) -> None:
        self.is_over = True

    def on_hang_up(self, step: Callable[[], object]) -> None:
        pass


def ask(cluster: Cluster, broker_id: int, api: str, version: int, fields: dict[str, Any]) -> Answer:
    """Ask this broker; of one that is down, or of -1, no answer comes."""
    answer = Answer()
    if broker_id < 0 or not cluster.broker(broker_id).is_alive:
        return answer
    broker = cluster.broker(broker_id)
    nobody: Any = None  # a handler that asks for the connection has no business here
    context = Context(version, "test", "host", 1, broker, "host", nobody)
    handle: Callable[..., None] = broker.handlers[api]
    with cluster.agenda:
        handle(_request(fields), answer, context)
    return answer


def coordinator(cluster: Cluster, key: str) -> int:
    """The broker that coordinates a group or a transactional id; -1 if all are down."""
    broker = cluster.coordinator(key)
    return -1 if broker is None else broker.id


def _request(fields: Any) -> Any:
    """As a handler gets it: attributes, not keys."""
    if isinstance(fields, dict):
        return SimpleNamespace(**{name: _request(value) for name, value in fields.items()})
    if isinstance(fields, list):
        return tuple(_request(one) for one in fields)
    return fields
