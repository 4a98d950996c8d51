"""Committed offsets: who may commit, what was committed, and what may be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sojourn.kafka.groups.any_group import State
from sojourn.kafka.groups.consumer.group import ConsumerGroup
from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.groups.group import Group
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
        *,
        knows_epochs: bool = True,
    ) -> dict[TopicPartition, ErrorCode]:
        """Store the offsets; return an error code for each.

        With `producer_id` they are part of that producer's transaction. `knows_epochs` is whether
        the request's version was made with consumer groups in mind.
        """
        coordinator = self._coordinator
        with coordinator.agenda:
            error = coordinator.group_error(group_id, may_be_empty=True)
            consumer_group = coordinator.consumers.group(group_id)
            if error is None and consumer_group is not None:
                error = self._consumer_error(
                    consumer_group,
                    generation,
                    member_id,
                    offsets,
                    in_transaction=producer_id is not None,
                    knows_epochs=knows_epochs,
                )
            elif error is None:
                error = self._commit_error(
                    group_id,
                    generation,
                    member_id,
                    instance_id,
                    in_transaction=producer_id is not None,
                    knows_epochs=knows_epochs,
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
        *,
        in_transaction: bool,
        knows_epochs: bool,
    ) -> ErrorCode | None:
        coordinator = self._coordinator
        group = coordinator.classic_group(group_id)
        if group is None:
            if generation >= 0:
                is_any_kind = knows_epochs and not in_transaction
                return ErrorCode.group_id_not_found if is_any_kind else ErrorCode.illegal_generation
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

    def _consumer_error(
        self,
        group: ConsumerGroup,
        epoch: int,
        member_id: str,
        offsets: Iterable[TopicPartition],
        *,
        in_transaction: bool,
        knows_epochs: bool,
    ) -> ErrorCode | None:
        """Why this member of a consumer group cannot commit; None if it can."""
        is_nobody = member_id == UNKNOWN_MEMBER and epoch < 0
        if is_nobody and (not group.members or in_transaction):
            return None
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if not knows_epochs and not in_transaction:
            return ErrorCode.unsupported_version
        # It may not know yet that it is in a newer epoch: what it has had since then is its own.
        topics = self._coordinator.consumers.topics
        is_own = epoch == member.epoch or (
            epoch < member.epoch
            and all(
                topic is not None and member.has_since(epoch, (topic.id, partition))
                for topic, partition in ((topics.topic(name), index) for name, index in offsets)
            )
        )
        if is_own:
            return None
        # Producers know no epochs.
        return ErrorCode.illegal_generation if in_transaction else ErrorCode.stale_member_epoch

    def fetch(
        self, group_id: str, member_id: str | None = None, epoch: int = -1
    ) -> tuple[ErrorCode, Mapping[TopicPartition, CommittedOffset]]:
        """All offsets that the group has committed; a member of a consumer group names itself."""
        coordinator = self._coordinator
        with coordinator.agenda:
            error = coordinator.group_error(group_id, may_be_empty=True)
            group = coordinator.consumers.group(group_id)
            if error is None and group is not None and (member_id is not None or epoch >= 0):
                member = group.members.get(member_id or "")
                if member is None:
                    error = ErrorCode.unknown_member_id
                elif member.epoch != epoch:
                    error = ErrorCode.stale_member_epoch
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
