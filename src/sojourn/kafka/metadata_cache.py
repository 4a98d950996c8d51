"""One broker's metadata cache: the topics that it knows.

The controller creates a topic; then one broker after the other learns of it,
`sojourn.metadata.delay.ms` apart. Until then a broker answers UNKNOWN_TOPIC_OR_PARTITION, like
Kafka's brokers, which follow the controller's log:

    created        broker 1 knows      broker 2 knows      broker 3 knows
       |------ delay ------|------ delay ------|------ delay ------|

A test can also pause a broker's cache.
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
    """The topics that one broker knows. Called with the agenda held."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._unknown: set[UUID] = set()
        self._is_paused = False

    def topic(self, name: str) -> Topic | None:
        return self._if_known(self._cluster.controller.topics.get(name))

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._if_known(self._cluster.controller.topic_by_id(topic_id))

    def partition(self, topic: str, index: int) -> Partition | None:
        known_topic = self.topic(topic)
        return known_topic.partition(index) if known_topic else None

    def topics(self) -> Iterator[Topic]:
        for topic in self._cluster.controller.topics.values():
            if topic.id not in self._unknown:
                yield topic

    def add(self, topic: Topic, after_ms: int) -> None:
        """Learn of a created topic after `after_ms`; 0: now."""
        if after_ms or self._is_paused:
            self._unknown.add(topic.id)
        if after_ms:
            self._cluster.timer.call_later(after_ms, self._learn, topic.id)

    def pause(self) -> None:
        """Learn of no new topics until resumed."""
        self._is_paused = True

    def resume(self) -> None:
        """Learn of all topics that exist now, and of new ones again."""
        self._is_paused = False
        self._unknown.clear()

    def _learn(self, topic_id: UUID) -> None:
        with self._cluster.agenda:
            if not self._is_paused:
                self._unknown.discard(topic_id)

    def _if_known(self, topic: Topic | None) -> Topic | None:
        return None if topic is None or topic.id in self._unknown else topic
