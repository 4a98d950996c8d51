"""A group of consumers: its members, state and generation. Nothing here waits.

    EMPTY -------- a member joins ---------> PREPARING_REBALANCE <--------------+
      ^                                          |         ^                    |
      +------------ no member is left -----------+         |                    |
                                                 |         | a member joins,    |
                                   all have      |         | leaves or expires  | the same, or the
                                   rejoined      v         |                    | leader joins again
                                         COMPLETING_REBALANCE                   |
                                                 |                              |
                                                 | the leader's assignment      |
                                                 v                              |
                                               STABLE --------------------------+

DEAD: deleted, or moved to another broker.
Callers hold the agenda.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sojourn.kafka.groups.any_group import State as State
from sojourn.kafka.groups.member import Member
from sojourn.kafka.groups.messages import JoinAnswer, MemberMetadata, SyncAnswer
from sojourn.kafka.groups.store import StoredGroup
from sojourn.kafka.groups.subscription import subscribed_topics
from sojourn.kafka.wire import ErrorCode

_STATES_BEFORE = {
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.PREPARING_REBALANCE: {State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
    State.DEAD: set(State),
}


@dataclass(eq=False)
class Group:
    """One group, from its first member to its last."""

    group_id: str
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    #: A member was added while the first rebalance was delayed.
    new_member_added: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    #: Ids that were given out, and not joined with yet.
    pending_members: set[str] = field(default_factory=set)
    #: Members of this generation that have not asked for their assignment.
    pending_syncs: set[str] = field(default_factory=set)
    empty_since_ms: int | None = None
    #: The topics its consumers read; None if they are not known.
    topics: frozenset[str] | None = None

    kind = "classic"

    @property
    def is_dead(self) -> bool:
        return self.state is State.DEAD

    def move_to(self, state: State) -> None:
        """Change the state; an error if the drawing above has no such step."""
        if self.state not in _STATES_BEFORE[state]:
            raise AssertionError(f"group {self.group_id!r} cannot go from {self.state} to {state}")
        self.state = state

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin: none is being prepared, and the group is not dead."""
        return self.state in _STATES_BEFORE[State.PREPARING_REBALANCE]

    # Members.

    def new_member_id(self, client_id: str, instance_id: str | None) -> str:
        """A unique member id."""
        return f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}"

    def add(self, member: Member) -> None:
        """Add the member; the first becomes the leader."""
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Remove the member; if it led, the longest-standing member leads."""
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
        """Give a static member that has come back its new id; it keeps its place."""
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

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """Why a request with these ids is not from a member; None if it is."""
        if instance_id is not None:
            static_id = self.static_members.get(instance_id)
            if static_id is None:
                return ErrorCode.unknown_member_id
            return None if static_id == member_id else ErrorCode.fenced_instance_id
        return None if member_id in self.members else ErrorCode.unknown_member_id

    @property
    def awaiting_join(self) -> int:
        """How many members have a join waiting."""
        return sum(member.join_reply is not None for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        """Whether every member has a join waiting, and no id that was given out is unused."""
        return self.awaiting_join == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest time that any member needs to rejoin."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make a member lead that has rejoined; False if none has."""
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
        """Whether a member with these protocols could join."""
        names = set(names)
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and bool(names & self._common(names))

    def select_protocol(self) -> str:
        """The protocol with most votes among those all members have; of equals the first named."""
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
        """Begin the next generation with the members there are, and choose its protocol."""
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
        """What the leader needs to assign partitions."""
        assert self.protocol is not None
        return tuple(
            MemberMetadata(member.member_id, member.instance_id, member.protocols[self.protocol])
            for member in self.members.values()
        )

    def join_answer(self, member: Member, *, skip_assignment: bool = False) -> JoinAnswer:
        """The answer to the member's join in the present generation."""
        is_leader = member.member_id == self.leader
        return JoinAnswer(
            ErrorCode.none,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            self.metadata_for_leader() if is_leader else (),
            skip_assignment and is_leader,
        )

    def sync_answer(self, member: Member) -> SyncAnswer:
        """The answer to the member's sync: its assignment."""
        return SyncAnswer(ErrorCode.none, self.protocol_type, self.protocol, member.assignment)

    def _subscribed(self) -> frozenset[str] | None:
        if self.protocol_type != "consumer" or self.protocol is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            member_topics = subscribed_topics(member.protocols[self.protocol])
            if member_topics is None:
                return None
            topics |= member_topics
        return frozenset(topics)

    def reads(self, topic: str) -> bool:
        return self.topics is None or topic in self.topics

    # Storing and loading.

    def stored(self) -> StoredGroup:
        """The present generation, to be stored."""
        return StoredGroup(
            self.group_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            tuple(member.without_requests() for member in self.members.values()),
        )

    @classmethod
    def restored(cls, stored: StoredGroup) -> Group:
        """A group as it was stored: stable, or empty."""
        group = cls(
            stored.group_id,
            State.STABLE if stored.members else State.EMPTY,
            stored.generation,
            stored.protocol_type,
            stored.protocol,
        )
        for member in stored.members:
            group.add(member.without_requests())
        group.leader = stored.leader
        group.topics = group._subscribed() if stored.members else frozenset()
        return group
