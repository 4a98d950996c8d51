"""What a rebalance waits for: that the members rejoin, then that they ask for their assignment.

DelayedJoin      A. every known member has rejoined -> next generation
                 B. its time is up -> dynamic members that have not are dropped, next generation
                 C. nobody has rejoined, only static members are left -> wait again
InitialJoin      the first join of an empty group: others are probably about to come, so it
                 never completes by itself. When its time is up:
                 D. somebody came meanwhile and there is time left -> wait again
                 E. else as B
DelayedSync      F. every member has asked -> nothing to do
                 G. the group has moved on -> nothing to do
                 H. its time is up -> members that have not asked are dropped; rebalance
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.groups.group import Group, State

if TYPE_CHECKING:
    from sojourn.kafka.groups.coordinator import GroupCoordinator


class DelayedJoin(DelayedRequest):
    """The joins of a group, waiting for each other."""

    def __init__(self, coordinator: GroupCoordinator, group: Group, timeout_ms: int) -> None:
        super().__init__(timeout_ms, coordinator.agenda)
        self.coordinator = coordinator
        self.group = group

    def try_complete(self) -> bool:
        group = self.group
        if group.state is not State.PREPARING_REBALANCE or group.all_have_joined:  # A
            return self.force_complete()
        return False

    def on_complete(self) -> None:
        self.coordinator.complete_join(self.group)  # A, B, C


class InitialJoin(DelayedJoin):
    """The first joins of an empty group, waiting for more of them."""

    def __init__(
        self, coordinator: GroupCoordinator, group: Group, delay_ms: int, remaining_ms: int
    ) -> None:
        super().__init__(coordinator, group, delay_ms)
        self.remaining_ms = remaining_ms

    def try_complete(self) -> bool:
        return self.group.state is State.DEAD and self.force_complete()

    def on_complete(self) -> None:
        group = self.group
        if group.state is not State.DEAD and group.new_member_added and self.remaining_ms:  # D
            group.new_member_added = False
            config = self.coordinator.config
            delay_ms = min(config.initial_rebalance_delay_ms, self.remaining_ms)
            remaining_ms = self.remaining_ms - delay_ms
            again = InitialJoin(self.coordinator, group, delay_ms, remaining_ms)
            self.coordinator.watch_rebalance(again)
        else:
            super().on_complete()  # E


class DelayedSync(DelayedRequest):
    """The members of a new generation, expected to ask for their assignment."""

    def __init__(self, coordinator: GroupCoordinator, group: Group, timeout_ms: int) -> None:
        super().__init__(timeout_ms, coordinator.agenda)
        self.coordinator = coordinator
        self.group = group
        self.generation = group.generation

    def try_complete(self) -> bool:
        return (self.has_moved_on or not self.group.pending_syncs) and self.force_complete()  # G, F

    def on_expiration(self) -> None:
        if not self.has_moved_on:
            self.coordinator.drop_unsynced(self.group)  # H

    @property
    def has_moved_on(self) -> bool:
        """Whether the generation that this is about is over."""
        return self.group.generation != self.generation or self.group.state not in (
            State.COMPLETING_REBALANCE,
            State.STABLE,
        )
