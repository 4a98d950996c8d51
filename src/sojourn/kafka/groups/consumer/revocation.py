"""The time that a member has to revoke partitions: its rebalance timeout.

DelayedRevocation   A. it gave them up, or has another step to do
                    B. it has left, or its group is gone
                    C. it expires -> the member is removed, so that others get the partitions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.kafka.delayed import ExpectedRequest

if TYPE_CHECKING:
    from sojourn.kafka.groups.consumer.coordinator import ConsumerCoordinator
    from sojourn.kafka.groups.consumer.group import ConsumerGroup
    from sojourn.kafka.groups.consumer.member import ConsumerMember


class DelayedRevocation(ExpectedRequest):
    """The heartbeat with which a member no longer owns what it has to revoke."""

    def __init__(
        self, coordinator: ConsumerCoordinator, group: ConsumerGroup, member: ConsumerMember
    ) -> None:
        super().__init__(max(member.rebalance_timeout_ms, 0), coordinator.agenda)
        self.coordinator = coordinator
        self.group = group
        self.member = member

    def on_timeout(self) -> None:
        self.coordinator.remove_member(self.group, self.member)  # C

    @property
    def is_over(self) -> bool:
        """Whether it gave them up, or need not any more."""
        return (
            self.member.revocation is not self  # A
            or self.group.is_dead  # B
            or not self.group.is_revoking(self.member)
        )
