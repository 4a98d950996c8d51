"""A member's life sign, expected within its session timeout.

DelayedHeartbeat   A. the member was heard of: the next heartbeat takes the place of this one
                   B. the member waits for our answer: nothing to expect of it
                   C. the member or the group is gone
                   D. its time is up -> the member is removed, and its group rebalances
PendingMember      an id was given out, and its owner is expected to join with it:
                   E. it has, or has left, or the group is gone
                   F. its time is up -> the id is worth nothing any more
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.groups.group import Group, State
from sojourn.kafka.groups.member import Member

if TYPE_CHECKING:
    from sojourn.kafka.groups.coordinator import GroupCoordinator


class DelayedHeartbeat(DelayedRequest):
    """The next life sign of a member."""

    def __init__(
        self, coordinator: GroupCoordinator, group: Group, member: Member, timeout_ms: int
    ) -> None:
        super().__init__(timeout_ms, coordinator.agenda)
        self.coordinator = coordinator
        self.group = group
        self.member = member

    def try_complete(self) -> bool:
        return self.is_satisfied and self.force_complete()

    def on_expiration(self) -> None:
        # The heartbeat may have come between the deadline and here: look again.
        if not self.is_satisfied:
            self.coordinator.drop_silent(self.group, self.member)  # D

    @property
    def is_satisfied(self) -> bool:
        """Whether nothing is expected any more."""
        member = self.member
        return (
            member.heartbeat is not self  # A
            or member.is_excused  # B
            or self.group.state is State.DEAD  # C
            or self.group.members.get(member.member_id) is not member
        )


class PendingMember(DelayedRequest):
    """The first join under an id that was just given out."""

    def __init__(
        self, coordinator: GroupCoordinator, group: Group, member_id: str, timeout_ms: int
    ) -> None:
        super().__init__(timeout_ms, coordinator.agenda)
        self.coordinator = coordinator
        self.group = group
        self.member_id = member_id

    def try_complete(self) -> bool:
        return self.is_over and self.force_complete()

    def on_expiration(self) -> None:
        if not self.is_over:
            self.coordinator.drop_pending(self.group, self.member_id)  # F

    @property
    def is_over(self) -> bool:
        """Whether the id is used, given up, or its group gone."""
        return (  # E
            self.group.state is State.DEAD or self.member_id not in self.group.pending_members
        )
