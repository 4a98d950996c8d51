"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete: how far a group has read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.answer_parts import by_topic
from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.groups.messages import NO_GENERATION, UNKNOWN_MEMBER
from sojourn.kafka.groups.offsets import Offsets
from sojourn.kafka.groups.store import CommittedOffset
from sojourn.kafka.refusal import Refused
from sojourn.kafka.topic import TopicPartition
from sojourn.kafka.transactions import Owner, code_for_writers
from sojourn.kafka.wire import ErrorCode, Fields

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Handler, Reply

_EPOCHS_SINCE = 9  # from this version on consumers know STALE_MEMBER_EPOCH
_ABORTABLE_SINCE = 4  # from this version on producers know TRANSACTION_ABORTABLE


class OffsetApis:
    """One broker's handlers for committed offsets."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._offsets = Offsets(coordinator)
        self._store = coordinator.store

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "offset_commit": self.offset_commit,
            "txn_offset_commit": self.txn_offset_commit,
            "offset_fetch": self.offset_fetch,
            "offset_delete": self.offset_delete,
        }

    def offset_commit(self, request: Any, reply: Reply, context: Context) -> None:
        """Commit how far a group has read."""
        partitions = _partitions(request.topics)
        answers = self._offsets.commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            getattr(request, "group_instance_id", None),
            _commits(partitions, context),
            knows_epochs=context.api_version >= _EPOCHS_SINCE,
        )
        reply({"topics": _per_topic(partitions, answers)})

    def txn_offset_commit(self, request: Any, reply: Reply, context: Context) -> None:
        """Commit how far a group has read as part of a producer's transaction."""
        partitions = _partitions(request.topics)
        commits = _commits(partitions, context)
        answers: Mapping[TopicPartition, ErrorCode]
        try:
            context.broker.cluster.transactions.check_group(
                request.transactional_id,
                Owner(request.producer_id, request.producer_epoch),
                request.group_id,
            )
        except Refused as refused:
            is_abortable = context.api_version >= _ABORTABLE_SINCE
            answers = dict.fromkeys(commits, code_for_writers(refused.code, is_abortable))
        else:
            answers = self._offsets.commit(
                request.group_id,
                getattr(request, "generation_id", NO_GENERATION),
                getattr(request, "member_id", UNKNOWN_MEMBER),
                getattr(request, "group_instance_id", None),
                commits,
                request.producer_id,
            )
        reply({"topics": _per_topic(partitions, answers)})

    def offset_fetch(self, request: Any, reply: Reply, context: Context) -> None:
        """Answer how far a group has read, or several groups."""
        require_stable = getattr(request, "require_stable", False)
        if hasattr(request, "groups"):
            reply(
                {"groups": [self._fetched(row, require_stable, context) for row in request.groups]}
            )
        else:
            fetched = dict(self._fetched(request, require_stable, context))
            del fetched["group_id"]
            reply(fetched)

    def _fetched(self, group: Any, require_stable: bool, context: Context) -> Fields:
        error, committed = self._offsets.fetch(
            group.group_id,
            getattr(group, "member_id", None),
            getattr(group, "member_epoch", -1),
        )
        if group.topics is None:
            wanted: dict[str, Iterable[int]] = {}
            for topic, partition in committed:
                wanted[topic] = [*wanted.get(topic, ()), partition]
        else:
            wanted = {topic.name: topic.partition_indexes for topic in group.topics}
        # From version 2 on the error stands once, for the whole answer, without partitions.
        partition_error = ErrorCode.none
        if error is not ErrorCode.none:
            if context.api_version >= 2:
                wanted = {}
            else:
                partition_error = error

        def offset(topic: str, partition: int) -> Fields:
            if require_stable and self._store.is_pending(group.group_id, topic, partition):
                return _offset(partition, None, ErrorCode.unstable_offset_commit)
            return _offset(partition, committed.get((topic, partition)), partition_error)

        return {
            "group_id": group.group_id,
            "error_code": error,
            "topics": [
                {
                    "name": topic,
                    "partitions": [offset(topic, partition) for partition in partitions],
                }
                for topic, partitions in wanted.items()
            ],
        }

    def offset_delete(self, request: Any, reply: Reply, context: Context) -> None:
        """Delete how far a group has read."""
        partitions = _partitions(request.topics)
        error, answers = self._offsets.delete(
            request.group_id,
            [
                (topic, row.partition_index)
                for topic, row in partitions
                if _exists(context, topic, row.partition_index)
            ],
        )
        is_refused = error is not ErrorCode.none
        reply(
            {
                "error_code": error,
                "topics": [] if is_refused else _per_topic(partitions, answers),
            }
        )


def _partitions(topics: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(topic.name, partition) for topic in topics for partition in topic.partitions]


def _commits(
    partitions: Iterable[tuple[str, Any]], context: Context
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets to commit, of partitions that exist."""
    now_ms = context.broker.cluster.now_ms()
    return {
        (topic, row.partition_index): CommittedOffset(
            row.committed_offset,
            getattr(row, "committed_leader_epoch", -1),
            row.committed_metadata or "",
            now_ms,
        )
        for topic, row in partitions
        if _exists(context, topic, row.partition_index)
    }


def _exists(context: Context, topic: str, partition: int) -> bool:
    return context.broker.metadata_cache.partition(topic, partition) is not None


def _per_topic(
    partitions: Iterable[tuple[str, Any]], answers: Mapping[TopicPartition, ErrorCode]
) -> list[dict[str, Any]]:
    """One answer for each partition asked for; those without one do not exist."""
    unknown = ErrorCode.unknown_topic_or_partition
    return by_topic(
        (topic, {"partition_index": index, "error_code": answers.get((topic, index), unknown)})
        for topic, index in ((topic, row.partition_index) for topic, row in partitions)
    )


def _offset(partition: int, committed: CommittedOffset | None, error: ErrorCode) -> Fields:
    committed = CommittedOffset(-1) if committed is None else committed
    return {
        "partition_index": partition,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }
