"""What members of consumer groups send and are answered, in no version of the protocol yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sojourn.kafka.groups.consumer.member import Place

#: A member's epoch when it joins, and when it leaves.
JOIN = 0
LEAVE = -1


@dataclass(frozen=True)
class Beat:
    """A heartbeat. A field that is None has not changed since the last one."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    #: The partitions that the member has.
    owned: frozenset[Place] | None = None
    #: Before version 1 the coordinator chooses the member's id.
    needs_member_id: bool = False

    @property
    def is_full(self) -> bool:
        """Whether it says everything, as after an answer that was lost."""
        return (
            self.rebalance_timeout_ms is not None
            and (self.topics is not None or self.regex is not None)
            and self.owned is not None
        )


@dataclass(frozen=True)
class BeatAnswer:
    """The answer to a heartbeat; `assigned` only if the member needs to know."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assigned: Collection[Place] | None = None
