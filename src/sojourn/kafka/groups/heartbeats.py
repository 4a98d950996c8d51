"""Heartbeats: each member has to be heard of once in its session timeout.

DelayedHeartbeat   A. a request of the member came: the next heartbeat takes the place of this one
                   B. a request of the member waits for our answer: no heartbeat can be expected
                   C. the member or the group is gone
                   D. it expires -> the member is removed, and its group rebalances
PendingMember      an id was given out, and its owner has to join with it:
                   E. it has joined, or has left, or the group is gone
                   F. it expires -> the id is removed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.core.purgatory import Purgatory
from sojourn.kafka.delayed import ExpectedRequest
from sojourn.kafka.groups.any_group import AnyGroup, AnyMember
from sojourn.kafka.groups.group import Group

if TYPE_CHECKING:
    from sojourn.kafka.groups.coordinator import GroupCoordinator


class Heartbeats:
    """The heartbeats that one coordinator expects."""

    def __init__(self, purgatory: Purgatory, coordinator: GroupCoordinator) -> None:
        self._purgatory = purgatory
        self._coordinator = coordinator

    def expect_next(
        self, group: AnyGroup, member: AnyMember, timeout_ms: int | None = None
    ) -> None:
        """Start the member's session anew: it was just heard of."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        expected = DelayedHeartbeat(self._coordinator, group, member, timeout_ms)
        member.heartbeat = expected
        self.check(group, member.member_id)
        self._purgatory.try_complete_else_watch(expected, [(group.group_id, member.member_id)])

    def expect_join(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """Expect a first join under an id that was just given out."""
        group.pending_members.add(member_id)
        self._purgatory.try_complete_else_watch(
            PendingMember(self._coordinator, group, member_id, timeout_ms),
            [(group.group_id, member_id)],
        )

    def check(self, group: AnyGroup, member_id: str) -> None:
        """Complete what waits for the member and need not wait any more."""
        self._purgatory.check_and_complete((group.group_id, member_id))


class DelayedHeartbeat(ExpectedRequest):
    """The next heartbeat of a member."""

    def __init__(
        self, coordinator: GroupCoordinator, group: AnyGroup, member: AnyMember, timeout_ms: int
    ) -> None:
        super().__init__(timeout_ms, coordinator.agenda)
        self.coordinator = coordinator
        self.group = group
        self.member = member

    def on_timeout(self) -> None:
        self.coordinator.on_expire_heartbeat(self.group, self.member)  # D

    @property
    def is_over(self) -> bool:
        """Whether the heartbeat came, or is no longer expected."""
        member = self.member
        return (
            member.heartbeat is not self  # A
            or member.awaits_answer  # B
            or self.group.is_dead  # C
            or self.group.members.get(member.member_id) is not member
        )


class PendingMember(ExpectedRequest):
    """The first join under an id that was just given out."""

    def __init__(
        self, coordinator: GroupCoordinator, group: Group, member_id: str, timeout_ms: int
    ) -> None:
        super().__init__(timeout_ms, coordinator.agenda)
        self.coordinator = coordinator
        self.group = group
        self.member_id = member_id

    def on_timeout(self) -> None:
        self.coordinator.remove_pending_member(self.group, self.member_id)  # F

    @property
    def is_over(self) -> bool:
        """Whether the id is used or removed, or its group gone."""
        return (  # E
            self.group.is_dead or self.member_id not in self.group.pending_members
        )
