"""The controller: the topics, where their replicas are, and who leads.

A partition's leader is the first replica, in the order of the assignment, that is alive and in
sync. Without one the partition waits for such a broker to come back, unless the topic allows an
unclean election, which takes any replica that is alive, and may lose records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from sojourn.kafka.internal_topics import can_be_created, find_or_create_internal_topic
from sojourn.kafka.partition import Partition
from sojourn.kafka.refusal import Refused
from sojourn.kafka.settings.layers import Settings, topic_settings
from sojourn.kafka.topic import Assignment, Topic, name_error, spread
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.metadata_cache import MetadataCache

#: The key of requests that wait for a change of metadata.
METADATA = "metadata"


class Controller:
    """The cluster's metadata. Called with the agenda held."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.settings = cluster.settings
        self.topics: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._placed = 0  # the next topic's first leader
        self._is_deferred = False
        #: Counts changes of metadata.
        self.changes = 0
        #: Leaders are elected only while True.
        self.holds_elections = True

    @property
    def id(self) -> int:
        """The broker that clients send topic changes to; -1 while none is alive."""
        return next((broker.id for broker in self._cluster.brokers if broker.is_alive), -1)

    def alive_brokers(self) -> list[int]:
        return [broker.id for broker in self._cluster.brokers if broker.is_alive]

    def all_brokers(self) -> list[int]:
        return [broker.id for broker in self._cluster.brokers]

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def partition(self, topic: str, index: int) -> Partition | None:
        known_topic = self.topics.get(topic)
        return known_topic.partition(index) if known_topic else None

    def partitions(self) -> Iterator[Partition]:
        for topic in self.topics.values():
            yield from topic.partitions

    # Topics.

    def find_or_create_topic(
        self, name: str, may_create: bool, metadata_cache: MetadataCache
    ) -> tuple[Topic | None, ErrorCode]:
        """The topic of that name, or an error; it is created if `auto.create.topics.enable` is set.

        As in Kafka, the request that creates it gets UNKNOWN_TOPIC_OR_PARTITION.
        """
        topic = metadata_cache.topic(name)
        if topic is not None:
            return topic, ErrorCode.none
        if name_error(name):
            return None, ErrorCode.invalid_topic_exception
        if not (may_create and self.settings.flag("auto.create.topics.enable")):
            return None, ErrorCode.unknown_topic_or_partition
        if can_be_created(name):
            find_or_create_internal_topic(self, name)
        elif self.collides_with(name) is None:
            try:
                assignment = self.place(
                    self.settings.number("num.partitions"),
                    self.settings.number("default.replication.factor"),
                )
            except Refused as refused:
                return None, refused.code
            delay_ms = self._cluster.metadata_delay_ms
            self.add_topic(name, assignment, self.topic_settings(None), delay_ms=delay_ms)
        return None, ErrorCode.unknown_topic_or_partition

    def collides_with(self, name: str) -> str | None:
        """The topic that would have the same name in metrics, where a dot is an underscore."""
        plain = name.replace(".", "_")
        for other in self.topics:
            if other.replace(".", "_") == plain:
                return other
        return None

    def topic_settings(self, config: Mapping[str, object] | None) -> Settings:
        return topic_settings(self.settings, config)

    def place(self, partitions: int, replication_factor: int) -> Assignment:
        """Choose brokers for a topic's replicas; or Refused.

        Stopped brokers get replicas where those alive are too few, but not as leaders.
        """
        if replication_factor < 1:
            raise Refused(
                ErrorCode.invalid_replication_factor,
                "Replication factor must be larger than 0, or -1 to use the default value, "
                f"got {replication_factor}.",
            )
        self._check_enough(replication_factor)
        if partitions < 1:
            raise Refused(
                ErrorCode.invalid_partitions,
                "Number of partitions must be larger than 0, or -1 to use the default value, "
                f"got {partitions}.",
            )
        assignment = self._spread(partitions, replication_factor, self._placed)
        self._placed += 1
        return assignment

    def _spread(
        self, partitions: int, replication_factor: int, start: int, first: int = 0
    ) -> Assignment:
        alive = self.alive_brokers()
        stopped = [broker for broker in self.all_brokers() if broker not in alive]
        on_alive = min(replication_factor, len(alive))
        return [
            (*replicas, *_rotate(stopped, replication_factor - on_alive, start + first + number))
            for number, replicas in enumerate(spread(alive, partitions, on_alive, start, first))
        ]

    def _check_enough(self, replication_factor: int) -> None:
        registered = len(self.all_brokers())
        if replication_factor > registered:
            raise Refused(
                ErrorCode.invalid_replication_factor,
                f"Unable to replicate the partition {replication_factor} time(s): The target "
                f"replication factor of {replication_factor} cannot be reached because only "
                f"{registered} broker(s) are registered.",
            )
        if not self.alive_brokers():
            raise Refused(
                ErrorCode.invalid_replication_factor,
                f"Unable to replicate the partition {replication_factor} time(s): All brokers "
                "are currently fenced.",
            )

    def place_more(self, topic: Topic, count: int) -> Assignment:
        """Choose brokers for partitions added to a topic."""
        alive = self.alive_brokers()
        replication_factor = topic.replication_factor
        self._check_enough(replication_factor)
        first = topic.partitions[0].replicas[0]
        start = alive.index(first) if first in alive else 0
        return self._spread(count, replication_factor, start, len(topic.partitions))

    def add_topic(
        self, name: str, assignment: Assignment, settings: Settings, *, delay_ms: int = 0
    ) -> Topic:
        """Create a topic; each broker learns of it `delay_ms` later than the one before it."""
        topic = Topic(name, uuid4(), settings)
        self.topics[name] = self._by_id[topic.id] = topic
        for number, broker in enumerate(self._cluster.brokers):
            broker.metadata_cache.add(topic, delay_ms * (number + 1))
        self.add_partitions(topic, assignment)
        return topic

    def add_partitions(self, topic: Topic, assignment: Assignment) -> None:
        alive = self.alive_brokers()
        for replicas in assignment:
            partition = Partition(topic, len(topic.partitions), replicas, self._cluster)
            # A replica on a stopped broker is empty like the others, but not in sync.
            partition.isr = {r for r in replicas if r in alive} or set(replicas)
            topic.partitions.append(partition)
            self.elect(partition)
        self.signal_change()

    def delete_topic(self, topic: Topic) -> None:
        del self.topics[topic.name], self._by_id[topic.id]
        for partition in topic.partitions:
            partition.delete()
        self._cluster.groups.remove_topic(topic.name)
        self.signal_change()

    # Leaders.

    def elect(self, partition: Partition, unclean: bool = False) -> bool:
        """Elect a leader, unless elections are paused; return whether the partition has one.

        A replica that is not in sync may lead only by the topic's settings, or with `unclean`.
        """
        if not self.holds_elections:
            return partition.leader >= 0
        unclean = unclean or partition.topic.settings.flag("unclean.leader.election.enable")
        alive = self.alive_brokers()
        candidates = [r for r in partition.replicas if r in alive]
        clean = [r for r in candidates if r in partition.isr]
        if clean:
            if partition.leader != clean[0]:
                self._set_leader(partition, clean[0])
        elif candidates and unclean:
            partition.isr = {candidates[0]}
            self._set_leader(partition, candidates[0])
        elif partition.leader >= 0:
            self._set_leader(partition, -1)
        return partition.leader >= 0

    def move_leader(self, partition: Partition, broker_id: int) -> None:
        """Make this broker the leader; or Refused."""
        if broker_id not in partition.replicas:
            raise Refused(
                ErrorCode.replica_not_available,
                f"broker {broker_id} has no replica of {partition.key}",
            )
        if broker_id not in self.alive_brokers():
            raise Refused(ErrorCode.broker_not_available, f"broker {broker_id} is stopped")
        if broker_id not in partition.isr:
            raise Refused(
                ErrorCode.eligible_leaders_not_available, f"broker {broker_id} is not in sync"
            )
        if broker_id != partition.leader:
            self._set_leader(partition, broker_id)

    def _set_leader(self, partition: Partition, broker_id: int) -> None:
        partition.set_leader(broker_id)
        self.signal_change()

    def resume_elections(self) -> None:
        """Hold elections again, and those that were missed."""
        self.holds_elections = True
        for partition in self.partitions():
            if partition.leader not in self.alive_brokers():
                self.elect(partition)
            self.complete_reassignment(partition)

    # Reassignments.

    def reassign(self, partition: Partition, target: tuple[int, ...]) -> None:
        """Move the partition's replicas to these brokers; done when they are in sync."""
        partition.begin_reassignment(target)
        self.complete_reassignment(partition)
        self.signal_change()

    def cancel_reassignment(self, partition: Partition) -> None:
        """Go back to the replicas before the reassignment; or Refused."""
        if not partition.is_reassigning:
            raise Refused(ErrorCode.no_reassignment_in_progress)
        if partition.isr.isdisjoint(partition.original_replicas):
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"Unable to revert partition assignment for {partition.key} because it would "
                "require an unclean leader election.",
            )
        self._finish_reassignment(partition, partition.original_replicas)

    def complete_reassignment(self, partition: Partition) -> None:
        """Remove the old replicas, if all the new ones are in sync."""
        goal = tuple(r for r in partition.replicas if r not in partition.removing)
        if (
            partition.is_reassigning
            and not partition.is_deleted
            and partition.isr.issuperset(goal)
            # While elections are paused, a leader that is to be removed stays.
            and (self.holds_elections or partition.leader in goal)
        ):
            self._finish_reassignment(partition, goal)

    def _finish_reassignment(self, partition: Partition, replicas: tuple[int, ...]) -> None:
        """Keep these replicas. If one is removed an epoch begins; if it led, another is elected."""
        removes_any = not set(replicas).issuperset(partition.replicas)
        partition.end_reassignment(replicas)
        if partition.leader in replicas:
            if removes_any:
                self._set_leader(partition, partition.leader)
        elif self.holds_elections:
            self.elect(partition)
        elif partition.leader >= 0:
            self._set_leader(partition, -1)
        self.signal_change()

    # Brokers.

    def on_broker_stopped(self, broker: Broker) -> None:
        for partition in self.partitions():
            if broker.id in partition.replicas:
                partition.on_broker_stopped(broker.id)
                if partition.leader == broker.id:
                    if self.holds_elections:
                        self.elect(partition)
                    else:
                        self._set_leader(partition, -1)
        self.signal_change()

    def on_broker_started(self, broker: Broker) -> None:
        for partition in self.partitions():
            if broker.id in partition.replicas:
                if partition.leader < 0:
                    self.elect(partition)
                partition.start_fetcher(broker.id)
        self.signal_change()

    # Signals.

    def signal_change(self) -> None:
        """Signal requests that wait for metadata: it has changed."""
        self.changes += 1
        if not self._is_deferred:
            self._is_deferred = True
            self._cluster.agenda.defer(self._signal)

    def _signal(self) -> None:
        self._is_deferred = False
        self._cluster.purgatories.topic.check_and_complete(METADATA)


def _rotate(brokers: list[int], count: int, start: int) -> list[int]:
    """`count` of these brokers, in turn from `start` on."""
    return [brokers[(start + n) % len(brokers)] for n in range(count)]
