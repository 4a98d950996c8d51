"""What outlives a coordinator: the last generation of each group that was written down, and the
offsets that were committed. It stands for the topic in which Kafka keeps both, replicated; a
broker that takes a group over goes on from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.kafka.groups.group import StoredGroup


@dataclass(frozen=True)
class Committed:
    """How far a group has read a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = 0  # on the cluster's clock


class Ledger:
    """Groups and their offsets, as written down; one for a cluster, under its agenda."""

    def __init__(self) -> None:
        self.groups: dict[str, StoredGroup] = {}
        self._offsets: dict[str, dict[tuple[str, int], Committed]] = {}

    def offsets(self, group_id: str) -> dict[tuple[str, int], Committed]:
        """What the group has committed, by topic and partition; not to be changed."""
        return self._offsets.get(group_id, {})

    def commit(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        """Write down how far the group has read."""
        self._offsets.setdefault(group_id, {})[topic, partition] = committed

    def forget(self, group_id: str, topic: str, partition: int) -> None:
        """Strike out one offset."""
        offsets = self._offsets.get(group_id, {})
        offsets.pop((topic, partition), None)
        if not offsets:
            self._offsets.pop(group_id, None)

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted; so is how far anybody had read it."""
        for group_id, offsets in list(self._offsets.items()):
            for name, partition in list(offsets):
                if name == topic:
                    self.forget(group_id, name, partition)

    def forget_group(self, group_id: str) -> None:
        """Strike out the group with all its offsets."""
        self.groups.pop(group_id, None)
        self._offsets.pop(group_id, None)

    def known_groups(self) -> set[str]:
        """The groups of which anything is written down."""
        return {*self.groups, *self._offsets}
