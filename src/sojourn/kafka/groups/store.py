"""What is stored of a cluster's groups: the last generation of each, and committed offsets.

It stands for `__consumer_offsets`, the replicated topic in which Kafka keeps both. A broker that
becomes the coordinator of a group loads it from here.

Offsets that a transaction commits are pending until it ends. A transaction that commits makes
them count from when they were written, not from its end. An offset that was committed in between
is newer, and stays:

    producer 1 in a transaction   t/0 at 5                      commit: t/0 stays at 7
    a consumer                               t/0 at 7
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from sojourn.kafka.groups.member import Member
from sojourn.kafka.topic import TopicPartition

if TYPE_CHECKING:
    from sojourn.kafka.groups.consumer.group import ConsumerGroup


@dataclass(frozen=True)
class StoredGroup:
    """One generation of a group: enough for another broker to go on with."""

    group_id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: tuple[Member, ...]  # copies, without the requests that wait


@dataclass(frozen=True)
class CommittedOffset:
    """How far a group has read a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = 0  # on the cluster's clock


@dataclass
class _PendingOffset:
    number: int  # pending offsets are numbered in the order of their writes
    committed: CommittedOffset | None  # None: a newer one is committed already


class GroupStore:
    """Groups and their offsets; one for a cluster, under its agenda."""

    def __init__(self) -> None:
        self.groups: dict[str, StoredGroup] = {}
        #: Every step of a consumer group is stored, so these are the groups themselves.
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        # By group, then by producer.
        self._pending: dict[str, dict[int, dict[TopicPartition, _PendingOffset]]] = {}
        self._last_pending_number = 0

    def offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets; not to be changed."""
        return self._offsets.get(group_id, {})

    def commit(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Store how far the group has read."""
        self._offsets.setdefault(group_id, {})[topic, partition] = committed
        if group_id in self._pending:
            self._supersede(group_id, (topic, partition), self._last_pending_number)

    # Transactions.

    def prepare_commit(
        self,
        group_id: str,
        producer_id: int,
        topic: str,
        partition: int,
        committed: CommittedOffset,
    ) -> None:
        """Store an offset that counts when the producer's transaction is committed."""
        self._last_pending_number += 1
        by_producer = self._pending.setdefault(group_id, {})
        offsets = by_producer.setdefault(producer_id, {})
        offsets[topic, partition] = _PendingOffset(self._last_pending_number, committed)

    def complete_transaction(self, group_id: str, producer_id: int, is_commit: bool) -> None:
        """Commit the offsets that the producer's transaction left pending, or remove them."""
        by_producer = self._pending.get(group_id, {})
        ended = by_producer.pop(producer_id, {})
        if not by_producer:
            self._pending.pop(group_id, None)
        for place, pending in ended.items():
            if is_commit and pending.committed is not None:
                self._offsets.setdefault(group_id, {})[place] = pending.committed
                self._supersede(group_id, place, pending.number)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction commits this offset."""
        by_producer = self._pending.get(group_id)
        return by_producer is not None and any(
            (topic, partition) in offsets for offsets in by_producer.values()
        )

    def is_empty(self, group_id: str) -> bool:
        """Whether the group has no offset, committed or pending."""
        return group_id not in self._offsets and group_id not in self._pending

    def _supersede(self, group_id: str, place: TopicPartition, number: int) -> None:
        """A newer offset than those pending up to this number is committed."""
        for offsets in self._pending.get(group_id, {}).values():
            pending = offsets.get(place)
            if pending is not None and pending.number <= number:
                pending.committed = None

    # Removal.

    def remove_offset(self, group_id: str, topic: str, partition: int) -> None:
        """Remove one offset, also where it is pending."""
        for pending in self._pending.get(group_id, {}).values():
            pending.pop((topic, partition), None)
        offsets = self._offsets.get(group_id, {})
        offsets.pop((topic, partition), None)
        if not offsets:
            self._offsets.pop(group_id, None)

    def remove_topic(self, topic: str) -> None:
        """Remove every group's offsets of a deleted topic."""
        for group_id in self.group_ids():
            pending = self._pending.get(group_id, {}).values()
            for name, partition in {*self.offsets(group_id), *chain.from_iterable(pending)}:
                if name == topic:
                    self.remove_offset(group_id, name, partition)

    def remove_group(self, group_id: str) -> None:
        """Remove the group with all its offsets."""
        self.groups.pop(group_id, None)
        self.consumer_groups.pop(group_id, None)
        self._offsets.pop(group_id, None)
        self._pending.pop(group_id, None)

    def group_ids(self) -> set[str]:
        """Every group of which anything is stored."""
        return {*self.groups, *self.consumer_groups, *self._offsets, *self._pending}
