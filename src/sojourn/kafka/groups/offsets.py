"""Committed offsets: who may commit, what was committed, and what may be struck out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sojourn.kafka.groups.answers import UNKNOWN_MEMBER
from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.groups.group import Group, State
from sojourn.kafka.groups.ledger import Committed
from sojourn.kafka.wire import ErrorCode

Partition = tuple[str, int]


class Offsets:
    """The offsets of one coordinator's groups. Topics are not looked at here: whether they exist
    is for the caller to say."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._ledger = coordinator.ledger

    def commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        offsets: Mapping[Partition, Committed],
        producer_id: int | None = None,
    ) -> dict[Partition, ErrorCode]:
        """Write the offsets down; say for each how that went.

        With `producer_id` they are part of that producer's transaction.
        """
        coordinator = self._coordinator
        with coordinator.agenda:
            error = coordinator.why_not_here(group_id, may_be_empty=True)
            if error is None:
                error = self._why_no_commit(
                    group_id, generation, member_id, instance_id, producer_id is not None
                )
            if error is not None:
                return dict.fromkeys(offsets, error)
            most = coordinator.config.offset_metadata_max_bytes
            answers = {}
            for (topic, partition), committed in offsets.items():
                fits = len(committed.metadata.encode("utf-8")) <= most
                if fits and producer_id is None:
                    self._ledger.commit(group_id, topic, partition, committed)
                elif fits and producer_id is not None:
                    self._ledger.pend(group_id, producer_id, topic, partition, committed)
                answers[topic, partition] = (
                    ErrorCode.none if fits else ErrorCode.offset_metadata_too_large
                )
            return answers

    def _why_no_commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        in_transaction: bool,
    ) -> ErrorCode | None:
        coordinator = self._coordinator
        group = coordinator.groups.get(group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.illegal_generation
            # It keeps its offsets here and nothing else.
            coordinator.groups[group_id] = Group(group_id)
            return None
        if generation < 0 and group.state is State.EMPTY:
            return None
        if generation < 0 and member_id == UNKNOWN_MEMBER and instance_id is None:
            # It has members, so only they commit. Older producers do not say who they are.
            return None if in_transaction else ErrorCode.unknown_member_id
        error = group.why_not(member_id, instance_id)
        if error is not None:
            return error
        if generation != group.generation:
            return ErrorCode.illegal_generation
        if group.state is State.COMPLETING_REBALANCE and not in_transaction:
            return ErrorCode.rebalance_in_progress
        coordinator.heard_of(group, member_id)
        return None

    def is_unstable(self, group_id: str, place: Partition) -> bool:
        """Whether a transaction that has not ended commits this offset."""
        return self._ledger.is_pending(group_id, *place)

    def fetch(self, group_id: str) -> tuple[ErrorCode, Mapping[Partition, Committed]]:
        """All that the group has committed, whatever its state."""
        coordinator = self._coordinator
        with coordinator.agenda:
            error = coordinator.why_not_here(group_id, may_be_empty=True)
            if error is not None:
                return error, {}
            return ErrorCode.none, dict(self._ledger.offsets(group_id))

    def delete(
        self, group_id: str, partitions: Iterable[Partition]
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]:
        """Strike offsets out, but not of topics that the group's members read."""
        coordinator = self._coordinator
        with coordinator.agenda:
            error = coordinator.why_not_here(group_id)
            if error is not None:
                return error, {}
            group = coordinator.groups.get(group_id)
            if group is None:
                return ErrorCode.group_id_not_found, {}
            if group.state is not State.EMPTY and group.protocol_type != "consumer":
                return ErrorCode.non_empty_group, {}
            answers = {}
            for topic, partition in partitions:
                in_use = group.state is not State.EMPTY and group.reads(topic)
                if not in_use:
                    self._ledger.forget(group_id, topic, partition)
                answers[topic, partition] = (
                    ErrorCode.group_subscribed_to_topic if in_use else ErrorCode.none
                )
            return ErrorCode.none, answers
