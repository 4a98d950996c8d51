"""The controller: which topics there are, where their replicas are, and who leads.

What it decides is known to every broker at once: they are in one process. A leader is the first
replica, in the order of the assignment, that is alive and in sync; without one the partition
waits for such a broker to come back, unless the topic allows an unclean election, which takes
any that is alive and may lose records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from sojourn.kafka.configs import Settings, topic_settings
from sojourn.kafka.partition import Partition
from sojourn.kafka.refusal import Refused
from sojourn.kafka.topic import Assignment, Topic, fault_in_name, spread
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.metadata_cache import MetadataCache

#: What requests that wait for a change of metadata watch.
METADATA = "metadata"


class Controller:
    """The cluster's metadata. Called with the agenda held."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.topics: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._placed = 0  # where the next topic's first leader goes
        self._has_news = False
        #: Leaders are elected only while True.
        self.holds_elections = True

    @property
    def id(self) -> int:
        """The broker that clients send topic changes to; -1 while none is alive."""
        return next((broker.id for broker in self._cluster.brokers if broker.is_alive), -1)

    def alive(self) -> list[int]:
        return [broker.id for broker in self._cluster.brokers if broker.is_alive]

    def all_brokers(self) -> list[int]:
        return [broker.id for broker in self._cluster.brokers]

    @property
    def defaults(self) -> Settings:
        """The cluster's own settings."""
        return self._cluster.settings

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self.topics.get(topic)
        return found.partition(index) if found else None

    def partitions(self) -> Iterator[Partition]:
        for topic in self.topics.values():
            yield from topic.partitions

    # Topics.

    def topic_or_created(
        self, name: str, may_create: bool, metadata_cache: MetadataCache
    ) -> tuple[Topic | None, ErrorCode]:
        """The topic of that name; made now if it may be, and the cluster is set to do so.

        As in Kafka, whoever asks first is told that there is none: the topic comes after.
        """
        topic = metadata_cache.topic(name)
        if topic is not None:
            return topic, ErrorCode.none
        if fault_in_name(name):
            return None, ErrorCode.invalid_topic_exception
        settings = self._cluster.settings
        if not (may_create and settings.flag("auto.create.topics.enable")):
            return None, ErrorCode.unknown_topic_or_partition
        if self.collides_with(name) is None:
            try:
                assignment = self.place(
                    settings.number("num.partitions"),
                    settings.number("default.replication.factor"),
                )
            except Refused as refused:
                return None, refused.code
            delay_ms = self._cluster.metadata_delay_ms
            self.add_topic(name, assignment, self.topic_settings(None), delay_ms=delay_ms)
        return None, ErrorCode.unknown_topic_or_partition

    def collides_with(self, name: str) -> str | None:
        """The topic whose name would be the same in metrics, where a dot is an underscore."""
        plain = name.replace(".", "_")
        for other in self.topics:
            if other.replace(".", "_") == plain:
                return other
        return None

    def topic_settings(self, config: Mapping[str, object] | None) -> Settings:
        return topic_settings(self._cluster.settings, config)

    def place(self, partitions: int, replication_factor: int) -> Assignment:
        """Choose brokers for a topic's replicas; or Refused.

        Those that are stopped have their share too, where the others are too few; not as leaders.
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
        alive = self.alive()
        stopped = [broker for broker in self.all_brokers() if broker not in alive]
        near = min(replication_factor, len(alive))
        return [
            (*replicas, *_round(stopped, replication_factor - near, start + first + number))
            for number, replicas in enumerate(spread(alive, partitions, near, start, first))
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
        if not self.alive():
            raise Refused(
                ErrorCode.invalid_replication_factor,
                f"Unable to replicate the partition {replication_factor} time(s): All brokers "
                "are currently fenced.",
            )

    def place_more(self, topic: Topic, count: int) -> Assignment:
        """Choose brokers for partitions added to a topic."""
        alive = self.alive()
        replication_factor = topic.replication_factor
        self._check_enough(replication_factor)
        first = topic.partitions[0].replicas[0]
        start = alive.index(first) if first in alive else 0
        return self._spread(count, replication_factor, start, len(topic.partitions))

    def add_topic(
        self, name: str, assignment: Assignment, settings: Settings, *, delay_ms: int = 0
    ) -> Topic:
        """Make a topic, of which each broker hears so much later than the one before it."""
        topic = Topic(name, uuid4(), settings)
        self.topics[name] = self._by_id[topic.id] = topic
        for number, broker in enumerate(self._cluster.brokers):
            broker.metadata_cache.hear(topic, delay_ms * (number + 1))
        self.add_partitions(topic, assignment)
        return topic

    def add_partitions(self, topic: Topic, assignment: Assignment) -> None:
        alive = self.alive()
        for replicas in assignment:
            partition = Partition(topic, len(topic.partitions), replicas, self._cluster)
            # A replica on a broker that is down has nothing, like the others, but is not in sync.
            partition.isr = {r for r in replicas if r in alive} or set(replicas)
            topic.partitions.append(partition)
            self.elect(partition)
        self.changed()

    def delete_topic(self, topic: Topic) -> None:
        del self.topics[topic.name], self._by_id[topic.id]
        for partition in topic.partitions:
            partition.delete()
        self._cluster.groups.remove_topic(topic.name)
        self.changed()

    # Leaders.

    def elect(self, partition: Partition, unclean: bool = False) -> bool:
        """Give the partition a leader, if elections are held; say whether it has one now.

        Only the topic's settings, or `unclean`, let one lead that is not in sync.
        """
        if not self.holds_elections:
            return partition.leader >= 0
        unclean = unclean or partition.topic.settings.flag("unclean.leader.election.enable")
        alive = self.alive()
        candidates = [r for r in partition.replicas if r in alive]
        clean = [r for r in candidates if r in partition.isr]
        if clean:
            if partition.leader != clean[0]:
                self._lead(partition, clean[0])
        elif candidates and unclean:
            partition.isr = {candidates[0]}
            self._lead(partition, candidates[0])
        elif partition.leader >= 0:
            self._lead(partition, -1)
        return partition.leader >= 0

    def move_leader(self, partition: Partition, broker_id: int) -> None:
        """Have this broker lead; or Refused."""
        if broker_id not in partition.replicas:
            raise Refused(
                ErrorCode.replica_not_available, f"broker {broker_id} has no replica of it"
            )
        if broker_id not in self.alive():
            raise Refused(ErrorCode.broker_not_available, f"broker {broker_id} is stopped")
        if broker_id not in partition.isr:
            raise Refused(
                ErrorCode.eligible_leaders_not_available, f"broker {broker_id} is not in sync"
            )
        if broker_id != partition.leader:
            self._lead(partition, broker_id)

    def _lead(self, partition: Partition, broker_id: int) -> None:
        partition.lead(broker_id)
        self.changed()

    def resume_elections(self) -> None:
        """Hold the elections that were put off."""
        self.holds_elections = True
        for partition in self.partitions():
            if partition.leader not in self.alive():
                self.elect(partition)
            self.complete_reassignment(partition)

    # Moves.

    def reassign(self, partition: Partition, target: tuple[int, ...]) -> None:
        """Move the partition's replicas to these brokers, once they have caught up."""
        partition.begin_reassignment(target)
        self.complete_reassignment(partition)
        self.changed()

    def cancel_reassignment(self, partition: Partition) -> None:
        """Go back to the replicas from before; or Refused."""
        if not partition.is_reassigned:
            raise Refused(ErrorCode.no_reassignment_in_progress)
        if partition.isr.isdisjoint(partition.moved_from):
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"Unable to revert partition assignment for {partition.key} because it would "
                "require an unclean leader election.",
            )
        self._settle(partition, partition.moved_from)

    def complete_reassignment(self, partition: Partition) -> None:
        """Let go of the old replicas, if all the new ones are in sync."""
        goal = tuple(r for r in partition.replicas if r not in partition.removing)
        if (
            partition.is_reassigned
            and not partition.is_deleted
            and partition.isr.issuperset(goal)
            # While no elections are held, a leader that is to go stays.
            and (self.holds_elections or partition.leader in goal)
        ):
            self._settle(partition, goal)

    def _settle(self, partition: Partition, replicas: tuple[int, ...]) -> None:
        """Have these be its replicas. If one goes, an epoch begins; if it led, another leads."""
        goes = not set(replicas).issuperset(partition.replicas)
        partition.end_reassignment(replicas)
        if partition.leader in replicas:
            if goes:
                self._lead(partition, partition.leader)
        elif self.holds_elections:
            self.elect(partition)
        elif partition.leader >= 0:
            self._lead(partition, -1)
        self.changed()

    # Brokers.

    def broker_stopped(self, broker: Broker) -> None:
        for partition in self.partitions():
            if broker.id in partition.replicas:
                partition.broker_gone(broker.id)
                if partition.leader == broker.id:
                    if self.holds_elections:
                        self.elect(partition)
                    else:
                        self._lead(partition, -1)
        self.changed()

    def broker_started(self, broker: Broker) -> None:
        for partition in self.partitions():
            if broker.id in partition.replicas:
                if partition.leader < 0:
                    self.elect(partition)
                partition.start_fetcher(broker.id)
        self.changed()

    # News for those who wait.

    def changed(self) -> None:
        """The metadata has changed."""
        if not self._has_news:
            self._has_news = True
            self._cluster.agenda.defer(self._tell)

    def _tell(self) -> None:
        self._has_news = False
        self._cluster.purgatories.topic.check_and_complete(METADATA)


def _round(brokers: list[int], count: int, start: int) -> list[int]:
    """So many of these brokers, from the one whose turn it is."""
    return [brokers[(start + n) % len(brokers)] for n in range(count)]
