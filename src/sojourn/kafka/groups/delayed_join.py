"""What a rebalance waits for: first the members' joins, then their syncs.

DelayedJoin          A. every known member has joined -> next generation
                     B. it expires -> dynamic members that have not joined are removed, next
                        generation
                     C. no member has joined, and only static members are left -> wait again
InitialDelayedJoin   the first join of an empty group. Other members probably follow, so it never
                     completes before its time. When it expires:
                     D. a member was added meanwhile and time remains -> wait again
                     E. else as B
DelayedSync          F. every member has asked for its assignment -> nothing to do
                     G. the generation is over -> nothing to do
                     H. it expires -> members that have not asked are removed; rebalance
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.groups.group import Group, State

if TYPE_CHECKING:
    from sojourn.kafka.groups.rebalancer import Rebalancer


class DelayedJoin(DelayedRequest):
    """The joins of a group, waiting for each other."""

    def __init__(self, rebalancer: Rebalancer, group: Group, timeout_ms: int) -> None:
        super().__init__(timeout_ms, rebalancer.agenda)
        self.rebalancer = rebalancer
        self.group = group

    def try_complete(self) -> bool:
        group = self.group
        return group.state is not State.PREPARING_REBALANCE or group.all_have_joined  # A

    def on_complete(self) -> None:
        self.rebalancer.on_complete_join(self.group)  # A, B, C


class InitialDelayedJoin(DelayedJoin):
    """The first joins of an empty group, waiting for more of them."""

    def __init__(
        self, rebalancer: Rebalancer, group: Group, delay_ms: int, remaining_ms: int
    ) -> None:
        super().__init__(rebalancer, group, delay_ms)
        self.remaining_ms = remaining_ms

    def try_complete(self) -> bool:
        return self.group.state is State.DEAD

    def on_complete(self) -> None:
        group = self.group
        if group.state is not State.DEAD and group.new_member_added and self.remaining_ms:  # D
            group.new_member_added = False
            config = self.rebalancer.config
            delay_ms = min(config.initial_rebalance_delay_ms, self.remaining_ms)
            remaining_ms = self.remaining_ms - delay_ms
            again = InitialDelayedJoin(self.rebalancer, group, delay_ms, remaining_ms)
            self.rebalancer.watch_joins(again)
        else:
            super().on_complete()  # E


class DelayedSync(DelayedRequest):
    """The syncs of a new generation."""

    def __init__(self, rebalancer: Rebalancer, group: Group, timeout_ms: int) -> None:
        super().__init__(timeout_ms, rebalancer.agenda)
        self.rebalancer = rebalancer
        self.group = group
        self.generation = group.generation

    def try_complete(self) -> bool:
        return self.is_generation_over or not self.group.pending_syncs  # G, F

    def on_expiration(self) -> None:
        if not self.is_generation_over:
            self.rebalancer.on_expire_pending_syncs(self.group)  # H

    @property
    def is_generation_over(self) -> bool:
        """Whether the group has begun another generation, or is about to."""
        return self.group.generation != self.generation or self.group.state not in (
            State.COMPLETING_REBALANCE,
            State.STABLE,
        )
