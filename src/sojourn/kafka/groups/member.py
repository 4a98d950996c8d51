"""One member of a group: its protocols, its assignment, and which request of it waits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.kafka.groups.heartbeats import DelayedHeartbeat
    from sojourn.kafka.groups.messages import JoinReply, SyncReply


@dataclass(eq=False)
class Member:
    """A consumer in its group. With an `instance_id` it is static: it may be gone for a session
    and come back as the same member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: dict[str, bytes]  # name -> metadata, in the order of the member's preference
    assignment: bytes = b""

    #: True until its first join is answered. Before that it has no id to send heartbeats with,
    #: and a join that waits does not prove that it is alive.
    is_new: bool = False
    join_reply: JoinReply | None = field(default=None, repr=False)
    sync_reply: SyncReply | None = field(default=None, repr=False)
    #: The heartbeat that is expected next; an older one that expires has no effect.
    heartbeat: DelayedHeartbeat | None = field(default=None, repr=False)

    @property
    def is_static(self) -> bool:
        """Whether it has a group.instance.id."""
        return self.instance_id is not None

    @property
    def awaits_answer(self) -> bool:
        """Whether a request of it waits here, so that no heartbeat can be expected."""
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)

    def vote(self, candidates: set[str]) -> str:
        """The candidate protocol that it prefers."""
        return next(name for name in self.protocols if name in candidates)

    def without_requests(self) -> Member:
        """A copy with no request and no heartbeat waiting, to be stored or loaded."""
        return replace(
            self,
            protocols=dict(self.protocols),
            is_new=False,
            join_reply=None,
            sync_reply=None,
            heartbeat=None,
        )
