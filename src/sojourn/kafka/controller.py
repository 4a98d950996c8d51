"""The controller: which topics there are, where their replicas are, and who leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from sojourn.kafka.configs import TOPIC, Settings
from sojourn.kafka.partition import Partition
from sojourn.kafka.topic import Assignment, Topic, fault_in_name, spread
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.cluster import Cluster


class Controller:
    """The cluster's metadata. Called with the agenda held."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.topics: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._placed = 0  # where the next topic's first leader goes

    @property
    def id(self) -> int:
        """The broker that clients send topic changes to; -1 while none is alive."""
        return next((broker.id for broker in self._cluster.brokers if broker.is_alive), -1)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self.topics.get(topic)
        return found.partition(index) if found else None

    def topic_or_created(self, name: str, may_create: bool) -> tuple[Topic | None, ErrorCode]:
        """The topic of that name; made now if it may be, and the cluster is set to do so."""
        topic = self.topics.get(name)
        if topic is not None:
            return topic, ErrorCode.none
        if fault_in_name(name):
            return None, ErrorCode.invalid_topic_exception
        settings = self._cluster.settings
        if not (may_create and settings.flag("auto.create.topics.enable")):
            return None, ErrorCode.unknown_topic_or_partition
        replication_factor = settings.number("default.replication.factor")
        if replication_factor > len(self.alive()):
            return None, ErrorCode.invalid_replication_factor
        topic = self.create_topic(name, settings.number("num.partitions"), replication_factor)
        return topic, ErrorCode.none

    def alive(self) -> list[int]:
        return [broker.id for broker in self._cluster.brokers if broker.is_alive]

    def place(self, partitions: int, replication_factor: int) -> Assignment:
        assignment = spread(self.alive(), partitions, replication_factor, self._placed)
        self._placed += 1
        return assignment

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, object] | None = None,
    ) -> Topic:
        settings = Settings(TOPIC, self._cluster.settings, config)
        return self.add_topic(name, self.place(partitions, replication_factor), settings)

    def add_topic(self, name: str, assignment: Assignment, settings: Settings) -> Topic:
        topic = Topic(name, uuid4(), settings)
        self.topics[name] = self._by_id[topic.id] = topic
        self.add_partitions(topic, assignment)
        return topic

    def add_partitions(self, topic: Topic, assignment: Assignment) -> None:
        for replicas in assignment:
            partition = Partition(topic, len(topic.partitions), replicas, self._cluster)
            topic.partitions.append(partition)
            self.elect(partition)

    def elect(self, partition: Partition) -> None:
        alive = self.alive()
        for broker_id in partition.replicas:
            if broker_id in partition.isr and broker_id in alive:
                partition.leader = broker_id
                partition.leader_epoch += 1
                return

    def broker_stopped(self, broker: Broker) -> None:
        pass

    def broker_started(self, broker: Broker) -> None:
        pass
