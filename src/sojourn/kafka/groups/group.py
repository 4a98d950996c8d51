"""A group of consumers: its members, its state and its generation. It waits for nothing.

    EMPTY --------- somebody joins --------> PREPARING_REBALANCE <--------------+
      ^                                          |         ^                    |
      +------------- nobody is left -------------+         |                    |
                                                 |         | joins, leaves, dies|
                                   all who will  |         |                    | the same, or the
                                   have rejoined v         |                    | leader joins again
                                         COMPLETING_REBALANCE                   |
                                                 |                              |
                                                 | the leader's assignment      |
                                                 v                              |
                                               STABLE --------------------------+

DEAD: deleted, or moved to another broker.
Callers hold the agenda.
"""

from __future__ import annotations

import enum
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sojourn.kafka.groups.answers import JoinAnswer, MemberMetadata, SyncAnswer
from sojourn.kafka.groups.member import Member
from sojourn.kafka.groups.subscription import subscribed_topics
from sojourn.kafka.wire import ErrorCode


class State(enum.Enum):
    """Where a group is; the values are what Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_BEFORE = {
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.PREPARING_REBALANCE: {State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
    State.DEAD: set(State),
}


@dataclass(frozen=True)
class StoredMember:
    """A member as it is written down."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


@dataclass(frozen=True)
class StoredGroup:
    """A generation as it is written down: enough for another broker to go on with."""

    group_id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: tuple[StoredMember, ...]


@dataclass(eq=False)
class Group:
    """One group, from its first member to its last."""

    group_id: str
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    #: Somebody new came while the first rebalance was put off.
    new_member_added: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    #: Ids that were given out and not used yet.
    pending_members: set[str] = field(default_factory=set)
    #: Members of this generation that have not asked for their assignment.
    pending_syncs: set[str] = field(default_factory=set)
    #: Since when nobody has been in it, on the cluster's clock; None if somebody is, or never was.
    empty_since_ms: int | None = None
    #: What its consumers read; None if that cannot be told.
    topics: frozenset[str] | None = None

    def move_to(self, state: State) -> None:
        """Change the state, if that is a step that a group can take."""
        if self.state not in _BEFORE[state]:
            raise AssertionError(f"group {self.group_id!r} cannot go from {self.state} to {state}")
        self.state = state

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin: none is being prepared, and the group lives."""
        return self.state in _BEFORE[State.PREPARING_REBALANCE]

    # Members.

    def new_member_id(self, client_id: str, instance_id: str | None) -> str:
        """An id that nobody has had."""
        return f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}"

    def add(self, member: Member) -> None:
        """Take the member in; the first becomes the leader."""
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Let the member go; the leader's place goes to the one who has been here longest."""
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if (
            member.instance_id is not None
            and self.static_members.get(member.instance_id) == member_id
        ):
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace(self, member: Member, new_member_id: str) -> None:
        """A static member has come back under a new id; it keeps its place."""
        old_member_id = member.member_id
        self.members = {
            (new_member_id if member_id == old_member_id else member_id): one
            for member_id, one in self.members.items()
        }
        member.member_id = new_member_id
        assert member.instance_id is not None
        self.static_members[member.instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_syncs:
            self.pending_syncs.remove(old_member_id)
            self.pending_syncs.add(new_member_id)

    def why_not(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """What is wrong with somebody who claims to be this member; None if it is."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            return None if known == member_id else ErrorCode.fenced_instance_id
        return None if member_id in self.members else ErrorCode.unknown_member_id

    @property
    def awaiting_join(self) -> int:
        """How many members have a join waiting."""
        return sum(member.join_reply is not None for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        """Whether every known member has a join waiting, and no id is out unused."""
        return self.awaiting_join == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest time that any member asks for to rejoin."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """See to it that the leader is one who has rejoined; False if nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_reply is not None:
            return True
        for member in self.members.values():
            if member.join_reply is not None:
                self.leader = member.member_id
                return True
        return False

    # Protocols.

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody with these protocols could be a member."""
        names = set(names)
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and bool(names & self._common(names))

    def select_protocol(self) -> str:
        """The protocol all members know, by their votes; of equals the one that was named first."""
        common = self._common(next(iter(self.members.values())).protocols)
        votes = Counter(member.vote(common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def _common(self, names: Iterable[str]) -> set[str]:
        common = set(names)
        for member in self.members.values():
            common &= member.protocols.keys()
        return common

    # Generations.

    def begin_generation(self) -> None:
        """All who will have rejoined: count up, and choose the protocol."""
        self.generation += 1
        self.pending_syncs.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.topics = self._subscribed()
            self.move_to(State.COMPLETING_REBALANCE)
        else:
            self.protocol = None
            self.topics = frozenset()
            self.move_to(State.EMPTY)

    def metadata_for_leader(self) -> tuple[MemberMetadata, ...]:
        """What the leader needs to know to assign."""
        assert self.protocol is not None
        return tuple(
            MemberMetadata(member.member_id, member.instance_id, member.protocols[self.protocol])
            for member in self.members.values()
        )

    def joined(self, member: Member, *, skip_assignment: bool = False) -> JoinAnswer:
        """What the member is told of the present generation."""
        leads = member.member_id == self.leader
        return JoinAnswer(
            ErrorCode.none,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            self.metadata_for_leader() if leads else (),
            skip_assignment and leads,
        )

    def synced(self, member: Member) -> SyncAnswer:
        """What the member is told of its assignment."""
        return SyncAnswer(ErrorCode.none, self.protocol_type, self.protocol, member.assignment)

    def _subscribed(self) -> frozenset[str] | None:
        if self.protocol_type != "consumer" or self.protocol is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            of_member = subscribed_topics(member.protocols[self.protocol])
            if of_member is None:
                return None
            topics |= of_member
        return frozenset(topics)

    def reads(self, topic: str) -> bool:
        """Whether a member reads the topic, or may."""
        return self.topics is None or topic in self.topics

    # Writing down, and going on from there.

    def stored(self) -> StoredGroup:
        """The present generation, to be written down."""
        return StoredGroup(
            self.group_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            tuple(
                StoredMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.session_timeout_ms,
                    member.rebalance_timeout_ms,
                    tuple(member.protocols.items()),
                    member.assignment,
                )
                for member in self.members.values()
            ),
        )

    @classmethod
    def restored(cls, stored: StoredGroup) -> Group:
        """A group as it was written down: stable, or empty."""
        group = cls(
            stored.group_id,
            State.STABLE if stored.members else State.EMPTY,
            stored.generation,
            stored.protocol_type,
            stored.protocol,
        )
        for one in stored.members:
            group.add(
                Member(
                    one.member_id,
                    one.instance_id,
                    one.client_id,
                    one.client_host,
                    one.session_timeout_ms,
                    one.rebalance_timeout_ms,
                    dict(one.protocols),
                    one.assignment,
                )
            )
        group.leader = stored.leader
        group.topics = group._subscribed() if stored.members else frozenset()
        return group
