"""Reconciliation: one step of a member from what it has to what it should have.

has 0 1 2 3    target 0 1       A. revoke 2 3, stay in this epoch
has 0 1        target 0 1       B. it is there: STABLE in the target's epoch
has nothing    target 2 3       C. others have some of them yet: take what is free, wait for
                                   the rest in the target's epoch
a partition belongs to its new owner only after the old one's heartbeat no longer names it
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple
from uuid import UUID

from sojourn.kafka.groups.consumer.member import AWAY, ConsumerMember, MemberState, Place


class Next(NamedTuple):
    """What the member becomes."""

    state: MemberState
    epoch: int
    assigned: dict[Place, int]
    revoking: dict[Place, int]


def next_step(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Collection[Place],
    topic_ids: Collection[UUID],
    has_new_subscription: bool,
    owned: Collection[Place] | None,
    is_free: Callable[[Place], bool],
) -> Next | None:
    """The member's next state; None if it stays as it is.

    `topic_ids` are those it reads, `owned` what its heartbeat says it has: None if it does not
    say, which is taken for everything.
    """
    is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(
        owned, member.revoking
    )
    if is_revoking or member.has_reached(target_epoch):
        return _without_other_topics(member, topic_ids, owned) if has_new_subscription else None
    wanted = {place for place in target if place[0] in topic_ids}
    assigned = {place: epoch for place, epoch in member.assigned.items() if place in wanted}
    revoking = {place: epoch for place, epoch in member.assigned.items() if place not in wanted}
    if revoking and _owns_any(owned, revoking):  # A
        return Next(MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoking)
    missing = sorted(wanted - assigned.keys())
    free = {place: target_epoch for place in missing if is_free(place)}
    is_complete = len(free) == len(missing)  # B, else C
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return Next(state, target_epoch, assigned | free, {})


def _without_other_topics(
    member: ConsumerMember, topic_ids: Collection[UUID], owned: Collection[Place] | None
) -> Next | None:
    """Take away what it no longer reads, without waiting for a new target."""
    assigned = {place: epoch for place, epoch in member.assigned.items() if place[0] in topic_ids}
    if len(assigned) == len(member.assigned):
        return None
    taken = {place: epoch for place, epoch in member.assigned.items() if place not in assigned}
    revoking = member.revoking | taken
    if _owns_any(owned, revoking):
        return Next(MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoking)
    return Next(member.state, member.epoch, assigned, member.revoking)


def _owns_any(owned: Collection[Place] | None, places: Collection[Place]) -> bool:
    return owned is None or any(place in places for place in owned)


def away(member: ConsumerMember) -> Next:
    """A static member that may come back: it keeps its partitions but what it had to revoke."""
    return Next(member.state, AWAY, member.assigned, {})
