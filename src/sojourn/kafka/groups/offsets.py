"""Committed offsets: who may commit, what was committed, and what may be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.groups.group import Group, State
from sojourn.kafka.groups.messages import UNKNOWN_MEMBER
from sojourn.kafka.groups.store import CommittedOffset
from sojourn.kafka.topic import TopicPartition
from sojourn.kafka.wire import ErrorCode


class Offsets:
    """The offsets of one coordinator's groups. The caller checks that topics exist."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._store = coordinator.store

    def commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        offsets: Mapping[TopicPartition, CommittedOffset],
        producer_id: int | None = None,
    ) -> dict[TopicPartition, ErrorCode]:
        """Store the offsets; return an error code for each.

        With `producer_id` they are part of that producer's transaction.
        """
        coordinator = self._coordinator
        with coordinator.agenda:
            error = coordinator.group_error(group_id, may_be_empty=True)
            if error is None:
                error = self._commit_error(
                    group_id, generation, member_id, instance_id, producer_id is not None
                )
            if error is not None:
                return dict.fromkeys(offsets, error)
            most = coordinator.config.offset_metadata_max_bytes
            answers = {}
            for (topic, partition), committed in offsets.items():
                fits = len(committed.metadata.encode("utf-8")) <= most
                if fits and producer_id is None:
                    self._store.commit(group_id, topic, partition, committed)
                elif fits and producer_id is not None:
                    self._store.prepare_commit(group_id, producer_id, topic, partition, committed)
                answers[topic, partition] = (
                    ErrorCode.none if fits else ErrorCode.offset_metadata_too_large
                )
            return answers

    def _commit_error(
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
            # A group that only keeps its offsets here.
            coordinator.groups[group_id] = Group(group_id)
            return None
        if generation < 0 and group.state is State.EMPTY:
            return None
        if generation < 0 and member_id == UNKNOWN_MEMBER and instance_id is None:
            # Only members commit; but older transactional producers do not name theirs.
            return None if in_transaction else ErrorCode.unknown_member_id
        error = group.member_error(member_id, instance_id)
        if error is not None:
            return error
        if generation != group.generation:
            return ErrorCode.illegal_generation
        if group.state is State.COMPLETING_REBALANCE and not in_transaction:
            return ErrorCode.rebalance_in_progress
        coordinator.heartbeats.expect_next(group, group.members[member_id])
        return None

    def is_unstable(self, group_id: str, place: TopicPartition) -> bool:
        """Whether an open transaction commits this offset."""
        return self._store.is_pending(group_id, *place)

    def fetch(self, group_id: str) -> tuple[ErrorCode, Mapping[TopicPartition, CommittedOffset]]:
        """All offsets that the group has committed."""
        coordinator = self._coordinator
        with coordinator.agenda:
            error = coordinator.group_error(group_id, may_be_empty=True)
            if error is not None:
                return error, {}
            return ErrorCode.none, dict(self._store.offsets(group_id))

    def delete(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        """Delete offsets, but not of topics that the group's members read."""
        coordinator = self._coordinator
        with coordinator.agenda:
            error = coordinator.group_error(group_id)
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
                    self._store.remove_offset(group_id, topic, partition)
                answers[topic, partition] = (
                    ErrorCode.group_subscribed_to_topic if in_use else ErrorCode.none
                )
            return ErrorCode.none, answers
