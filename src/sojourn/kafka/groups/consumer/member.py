"""A member of a consumer group: what it reads, and how far it has come towards its target.

STABLE                  it has all of its target
UNREVOKED_PARTITIONS    it has to revoke partitions, and has not said yet that it did
UNRELEASED_PARTITIONS   it has what is free of its target, and waits for what others revoke
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from sojourn.kafka.groups.consumer.revocation import DelayedRevocation
    from sojourn.kafka.groups.heartbeats import DelayedHeartbeat

#: A partition: its topic's id, and its number.
Place = tuple[UUID, int]

#: The epoch of a static member that is away and may come back.
AWAY = -2


class MemberState(enum.Enum):
    STABLE = "stable"
    UNREVOKED_PARTITIONS = "unrevoked-partitions"
    UNRELEASED_PARTITIONS = "unreleased-partitions"


@dataclass(eq=False)
class ConsumerMember:
    """A consumer in its group. With an `instance_id` it is static: it may be away for a session,
    and keeps its partitions."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None

    #: The target that it has reached, or works on; the one before.
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    #: What it has, each with the epoch in which it got it.
    assigned: dict[Place, int] = field(default_factory=dict)
    #: What it has to revoke.
    revoking: dict[Place, int] = field(default_factory=dict)

    heartbeat: DelayedHeartbeat | None = field(default=None, repr=False)
    #: While it has to revoke partitions: its time to do so.
    revocation: DelayedRevocation | None = field(default=None, repr=False)

    @property
    def awaits_answer(self) -> bool:
        return False

    def has_since(self, epoch: int, place: Place) -> bool:
        """Whether it has the partition, since this epoch or an earlier one."""
        since = self.assigned.get(place, self.revoking.get(place))
        return since is not None and since <= epoch

    def has_reached(self, target_epoch: int) -> bool:
        """Whether it has all of this target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch
