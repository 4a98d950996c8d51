"""What outlives a coordinator: the last generation of each group that was written down, and the
offsets that were committed. It stands for the topic in which Kafka keeps both, replicated; a
broker that takes a group over goes on from here.

Offsets that a transaction commits are pending until it ends. If it is committed they count from
when they were written down, not from its end: what was committed in between is newer, and stays.

    producer 1 in a transaction   t/0 at 5                     commit: 7 stays
    somebody                                 t/0 at 7
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from sojourn.kafka.groups.group import StoredGroup


@dataclass(frozen=True)
class Committed:
    """How far a group has read a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = 0  # on the cluster's clock


@dataclass
class _Pending:
    number: int  # in the order in which offsets were written down
    committed: Committed | None  # None: a newer one is committed already


class Ledger:
    """Groups and their offsets, as written down; one for a cluster, under its agenda."""

    def __init__(self) -> None:
        self.groups: dict[str, StoredGroup] = {}
        self._offsets: dict[str, dict[tuple[str, int], Committed]] = {}
        self._pending: dict[str, dict[int, dict[tuple[str, int], _Pending]]] = {}
        self._pended = 0

    def offsets(self, group_id: str) -> dict[tuple[str, int], Committed]:
        """What the group has committed, by topic and partition; not to be changed."""
        return self._offsets.get(group_id, {})

    def commit(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        """Write down how far the group has read."""
        self._offsets.setdefault(group_id, {})[topic, partition] = committed
        if group_id in self._pending:
            self._outdate(group_id, (topic, partition), self._pended)

    # Transactions.

    def pend(
        self, group_id: str, producer_id: int, topic: str, partition: int, committed: Committed
    ) -> None:
        """Write down how far the group has read, if the producer's transaction is committed."""
        self._pended += 1
        of_group = self._pending.setdefault(group_id, {})
        of_producer = of_group.setdefault(producer_id, {})
        of_producer[topic, partition] = _Pending(self._pended, committed)

    def end_transaction(self, group_id: str, producer_id: int, is_commit: bool) -> None:
        """What was pending of the producer's transaction counts now, or never did."""
        of_group = self._pending.get(group_id, {})
        pending = of_group.pop(producer_id, {})
        if not of_group:
            self._pending.pop(group_id, None)
        for place, one in pending.items():
            if is_commit and one.committed is not None:
                self._offsets.setdefault(group_id, {})[place] = one.committed
                self._outdate(group_id, place, one.number)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that has not ended commits this offset."""
        of_group = self._pending.get(group_id)
        return of_group is not None and any(
            (topic, partition) in of_producer for of_producer in of_group.values()
        )

    def has_pending(self, group_id: str) -> bool:
        """Whether a transaction that has not ended commits any offset of the group."""
        return group_id in self._pending

    def _outdate(self, group_id: str, place: tuple[str, int], number: int) -> None:
        """A newer offset than those pending up to this number is committed."""
        for of_producer in self._pending.get(group_id, {}).values():
            pending = of_producer.get(place)
            if pending is not None and pending.number <= number:
                pending.committed = None

    # Forgetting.

    def forget(self, group_id: str, topic: str, partition: int) -> None:
        """Strike out one offset, also one that is pending."""
        for of_producer in self._pending.get(group_id, {}).values():
            of_producer.pop((topic, partition), None)
        offsets = self._offsets.get(group_id, {})
        offsets.pop((topic, partition), None)
        if not offsets:
            self._offsets.pop(group_id, None)

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted; so is how far anybody had read it."""
        for group_id in self.known_groups():
            pending = self._pending.get(group_id, {}).values()
            for name, partition in {*self.offsets(group_id), *chain.from_iterable(pending)}:
                if name == topic:
                    self.forget(group_id, name, partition)

    def forget_group(self, group_id: str) -> None:
        """Strike out the group with all its offsets."""
        self.groups.pop(group_id, None)
        self._offsets.pop(group_id, None)
        self._pending.pop(group_id, None)

    def known_groups(self) -> set[str]:
        """The groups of which anything is written down."""
        return {*self.groups, *self._offsets, *self._pending}
