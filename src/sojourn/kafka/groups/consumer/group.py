"""A consumer group: its members, its epoch, the target, and who has which partition.

    group epoch        raised when the members, what they read, or those topics change
    assignment epoch   the group epoch for which the target was computed
    member epoch       the target that a member has reached, or works on

    EMPTY         no members
    ASSIGNING     the group epoch is ahead of the target's
    RECONCILING   a member has not reached the target
    STABLE        all have

Nothing here waits. Callers hold the agenda.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from sojourn.kafka.groups.any_group import State
from sojourn.kafka.groups.consumer.member import ConsumerMember, MemberState, Place
from sojourn.kafka.groups.consumer.reconciliation import Next
from sojourn.kafka.groups.consumer.regexes import ResolvedRegexes


@dataclass(eq=False)
class ConsumerGroup:
    """One group, from its first member until it is deleted."""

    group_id: str
    default_assignor: str = ""
    epoch: int = 1
    assignment_epoch: int = 1
    #: When the target was computed, on the cluster's clock.
    assigned_ms: int | None = None
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    #: Each member's part of the target.
    target: dict[str, frozenset[Place]] = field(default_factory=dict)
    regexes: ResolvedRegexes = field(default_factory=ResolvedRegexes)
    #: Id and number of partitions of what it reads, when the epoch was last raised; None of a
    #: topic that did not exist.
    metadata: Mapping[str, tuple[UUID, int] | None] = field(default_factory=dict)
    empty_since_ms: int | None = None
    is_dead: bool = False
    #: Who has each partition, also if it has to give it up.
    _holders: dict[Place, ConsumerMember] = field(default_factory=dict, repr=False)

    kind = "consumer"
    protocol_type = "consumer"

    @property
    def state(self) -> State:
        if self.is_dead:
            return State.DEAD
        if not self.members:
            return State.EMPTY
        if self.epoch > self.assignment_epoch:
            return State.ASSIGNING
        reached = all(one.has_reached(self.assignment_epoch) for one in self.members.values())
        return State.STABLE if reached else State.RECONCILING

    @property
    def generation(self) -> int:
        return self.epoch

    @property
    def protocol(self) -> str:
        """The assignor that most members ask for; the default if none asks."""
        votes = Counter(one.assignor for one in self.members.values() if one.assignor)
        return votes.most_common(1)[0][0] if votes else self.default_assignor

    # Topics.

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What the member reads: by name, and by its regex as far as that is resolved."""
        return member.topics | self.regexes.topics(member.regex)

    def topics(self) -> frozenset[str]:
        """What any member reads."""
        return frozenset().union(*(self.topics_of(one) for one in self.members.values()))

    def reads(self, topic: str) -> bool:
        return any(topic in self.topics_of(one) for one in self.members.values())

    def regexes_in_use(self) -> set[str]:
        return {one.regex for one in self.members.values() if one.regex}

    # Members.

    def add(self, member: ConsumerMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        return self.members.get(self.static_members.get(instance_id, ""))

    def replace(self, member: ConsumerMember, new_member_id: str) -> None:
        """Give a static member that has come back its new id; it keeps its part."""
        old_member_id, member.member_id = member.member_id, new_member_id
        self.members = {one.member_id: one for one in self.members.values()}
        assert member.instance_id is not None
        self.static_members[member.instance_id] = new_member_id
        if old_member_id in self.target:
            self.target[new_member_id] = self.target.pop(old_member_id)
        member.epoch = member.previous_epoch = 0

    def remove(self, member: ConsumerMember) -> None:
        """Remove the member with its part of the target; its partitions are free."""
        del self.members[member.member_id]
        self.target.pop(member.member_id, None)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        self._release((*member.assigned, *member.revoking))
        self.regexes.keep(self.regexes_in_use())

    # Partitions.

    def is_free_for(self, member: ConsumerMember, place: Place) -> bool:
        """Whether nobody else has the partition."""
        return self._holders.get(place, member) is member

    def move(self, member: ConsumerMember, following: Next) -> None:
        """Bring the member into its next state."""
        self._release((*member.assigned, *member.revoking))
        if member.epoch != following.epoch:
            member.previous_epoch, member.epoch = member.epoch, following.epoch
        member.state = following.state
        member.assigned, member.revoking = following.assigned, following.revoking
        for place in (*member.assigned, *member.revoking):
            self._holders[place] = member

    def is_revoking(self, member: ConsumerMember) -> bool:
        """Whether it is a member, and has partitions to revoke."""
        return (
            self.members.get(member.member_id) is member
            and member.state is MemberState.UNREVOKED_PARTITIONS
        )

    def _release(self, places: Iterable[Place]) -> None:
        for place in places:
            self._holders.pop(place, None)
