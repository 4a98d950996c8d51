"""What members ask of a group and what they are answered, in no version of the protocol yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sojourn.kafka.wire import ErrorCode

#: What a member sends as its id before it has one.
UNKNOWN_MEMBER = ""
NO_GENERATION = -1


@dataclass(frozen=True)
class Join:
    """A request to join a group."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: dict[str, bytes]
    #: A member without an id is given one and has to join again with it.
    needs_member_id: bool = True
    #: The client understands that a returning leader keeps the assignment.
    can_skip_assignment: bool = True


@dataclass(frozen=True)
class Sync:
    """A request for the member's assignment; the leader's brings everybody's."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes] | None = None


@dataclass(frozen=True)
class MemberMetadata:
    """One member, as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True)
class JoinAnswer:
    """The answer to a join; only the leader gets `members`."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[MemberMetadata, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True)
class SyncAnswer:
    """The answer to a sync: what the leader assigned."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


JoinReply = Callable[[JoinAnswer], object]
SyncReply = Callable[[SyncAnswer], object]
