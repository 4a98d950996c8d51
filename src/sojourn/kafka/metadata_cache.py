"""What one broker knows of the cluster's topics: those it has heard of.

A topic that a client creates is made by the controller and then heard of by one broker after the
other, `sojourn.metadata.delay.ms` apart. Until then a broker answers as if there were none, like
Kafka's brokers, which follow the controller's log:

    created        broker 1 knows      broker 2 knows      broker 3 knows
       |------ delay ------|------ delay ------|------ delay ------|

A test can also hold a broker back by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.partition import Partition
    from sojourn.kafka.topic import Topic


class MetadataCache:
    """One broker's. Called with the agenda held."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._unheard: set[UUID] = set()
        self._is_paused = False

    def topic(self, name: str) -> Topic | None:
        return self._if_heard(self._cluster.controller.topics.get(name))

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._if_heard(self._cluster.controller.topic_by_id(topic_id))

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self.topic(topic)
        return found.partition(index) if found else None

    def topics(self) -> Iterator[Topic]:
        for topic in self._cluster.controller.topics.values():
            if topic.id not in self._unheard:
                yield topic

    def hear(self, topic: Topic, after_ms: int) -> None:
        """A topic was created: know of it after so long, 0 for at once."""
        if after_ms or self._is_paused:
            self._unheard.add(topic.id)
        if after_ms:
            self._cluster.timer.call_later(after_ms, self._heard, topic.id)

    def pause(self) -> None:
        """Hear of nothing new until resumed."""
        self._is_paused = True

    def resume(self) -> None:
        """Know of everything that there is by now."""
        self._is_paused = False
        self._unheard.clear()

    def _heard(self, topic_id: UUID) -> None:
        with self._cluster.agenda:
            if not self._is_paused:
                self._unheard.discard(topic_id)

    def _if_heard(self, topic: Topic | None) -> Topic | None:
        return None if topic is None or topic.id in self._unheard else topic
