"""One member of a group: what it can do, what it was given, and which request of it waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.kafka.groups.answers import JoinAnswer, SyncAnswer
    from sojourn.kafka.groups.heartbeat import DelayedHeartbeat


@dataclass(eq=False)
class Member:
    """A consumer, as its group knows it. With an `instance_id` it is static: it may be gone for a
    session and come back as the same member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: dict[str, bytes]  # name -> metadata, the most wanted first
    assignment: bytes = b""

    #: True until its first join is answered. It does not know its id before, so it cannot send
    #: heartbeats, and a join that waits does not prove that it lives.
    is_new: bool = False
    join_reply: Callable[[JoinAnswer], object] | None = field(default=None, repr=False)
    sync_reply: Callable[[SyncAnswer], object] | None = field(default=None, repr=False)
    #: The heartbeat that is expected of it next; an older one that runs out means nothing.
    heartbeat: DelayedHeartbeat | None = field(default=None, repr=False)

    @property
    def is_static(self) -> bool:
        """Whether it has a group.instance.id."""
        return self.instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether no heartbeat can be expected: it waits for our answer."""
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)

    def vote(self, candidates: set[str]) -> str:
        """The protocol among the candidates that it wants most."""
        return next(name for name in self.protocols if name in candidates)
