"""A partition: its replicas, which of them leads, and which are in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.topic import Topic


class Partition:
    """One partition of a topic."""

    def __init__(
        self, topic: Topic, index: int, replicas: tuple[int, ...], cluster: Cluster
    ) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.isr = set(replicas)
        self.leader = -1
        self.leader_epoch = -1
        self._cluster = cluster

    def offline_replicas(self) -> list[int]:
        return [r for r in self.replicas if not self._cluster.broker(r).is_alive]
