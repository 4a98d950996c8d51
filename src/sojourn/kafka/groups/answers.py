"""What a group answers, before it is put into the words of a protocol version."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.kafka.wire import ErrorCode

#: "I do not know who I am yet": what a member says that has no id.
UNKNOWN_MEMBER = ""
NO_GENERATION = -1


@dataclass(frozen=True)
class MemberMetadata:
    """What the leader is told about a member."""

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
