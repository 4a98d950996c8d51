"""What groups of both protocols, classic and consumer, have in common."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sojourn.kafka.groups.heartbeats import DelayedHeartbeat


class State(enum.Enum):
    """A group's state; the values are what Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # classic
    COMPLETING_REBALANCE = "CompletingRebalance"  # classic
    ASSIGNING = "Assigning"  # consumer
    RECONCILING = "Reconciling"  # consumer
    STABLE = "Stable"
    DEAD = "Dead"


class AnyMember(Protocol):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    #: The heartbeat that is expected next; an older one that expires has no effect.
    heartbeat: DelayedHeartbeat | None

    @property
    def awaits_answer(self) -> bool:
        """Whether a request of it waits here, so that no heartbeat can be expected."""


class AnyGroup(Protocol):
    """A group, as tools and offsets see it."""

    group_id: str
    #: When its last member left, on the cluster's clock; None if it has members, or never had.
    empty_since_ms: int | None

    @property
    def kind(self) -> str:
        """The type that tools show: classic or consumer."""

    @property
    def state(self) -> State: ...

    @property
    def is_dead(self) -> bool:
        """Whether it was deleted, or has moved to another broker."""

    @property
    def generation(self) -> int:
        """Counts rebalances; of a consumer group this is its epoch."""

    @property
    def members(self) -> Mapping[str, AnyMember]: ...

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def protocol(self) -> str | None:
        """How partitions are assigned: a classic protocol, or an assignor."""

    def reads(self, topic: str) -> bool:
        """Whether a member reads the topic, or might."""
