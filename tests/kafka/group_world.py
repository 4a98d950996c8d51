"""A coordinator on a clock moved by hand, and members that talk to it without sockets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID, uuid4

from sojourn import ManualClock, Purgatory, Timer
from sojourn.kafka.agenda import Agenda
from sojourn.kafka.groups.config import GroupConfig
from sojourn.kafka.groups.consumer.config import ConsumerGroupConfig
from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.groups.group import Group
from sojourn.kafka.groups.messages import Join, JoinAnswer, Sync, SyncAnswer
from sojourn.kafka.groups.offsets import Offsets
from sojourn.kafka.groups.store import GroupStore
from sojourn.kafka.topic import Topic
from sojourn.kafka.wire import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Answers(list[Any]):
    """What came back for one request; more than one answer is a fault."""

    def __call__(self, answer: Any) -> None:
        assert not self, f"answered twice: {self[0]} and {answer}"
        self.append(answer)

    @property
    def error(self) -> ErrorCode:
        assert len(self) == 1, "not answered"
        error: ErrorCode = self[0].error
        return error


class KnownTopics:
    """Topics without a cluster: names, ids and numbers of partitions."""

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}

    def put(self, name: str, partitions: int) -> Topic:
        """Create the topic, or add partitions to it."""
        topic = self._by_name.setdefault(name, Topic(name, uuid4(), cast(Any, None)))
        topic.partitions = [cast(Any, None)] * partitions
        return topic

    def delete(self, name: str) -> None:
        del self._by_name[name]

    def topic(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return next((one for one in self.topics() if one.id == topic_id), None)

    def topics(self) -> Iterator[Topic]:
        return iter(list(self._by_name.values()))


class World:
    """One cluster's groups: a coordinator or several, sharing clock, purgatories and store."""

    def __init__(self, *, consumers: ConsumerGroupConfig | None = None, **config: int) -> None:
        self.clock = ManualClock()
        self.timer = Timer(self.clock)
        self.rebalances = Purgatory("rebalance", self.timer)
        self.heartbeats = Purgatory("heartbeat", self.timer)
        self.config = GroupConfig(**config)
        self.consumer_config = ConsumerGroupConfig() if consumers is None else consumers
        self.topics = KnownTopics()
        self.store = GroupStore()
        self.agenda = Agenda()
        self.owner: int = 0
        self.coordinators: list[GroupCoordinator] = []
        self.coordinator = self.start()
        self.offsets = Offsets(self.coordinator)

    def start(self) -> GroupCoordinator:
        """Another broker's coordinator; groups are `owner`'s."""
        number = len(self.coordinators)
        coordinator = GroupCoordinator(
            self.rebalances,
            self.heartbeats,
            lambda group_id: self.owner == number,
            topics=self.topics,
            config=self.config,
            consumer_config=self.consumer_config,
            store=self.store,
            agenda=self.agenda,
            now_ms=lambda: self.clock.now_ns() // 1_000_000,
        )
        self.coordinators.append(coordinator)
        return coordinator

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    def group(self, group_id: str = "g") -> Group:
        group = self.coordinator.groups[group_id]
        assert isinstance(group, Group)
        return group

    @property
    def waiting(self) -> tuple[int, int]:
        """What is watched in the two purgatories: rebalances and heartbeats."""
        return self.rebalances.watched, self.heartbeats.watched

    def stable(self, *members: Person) -> None:
        """Bring these members, in order, into one stable generation; the first leads."""
        self.coordinator.config = dataclasses.replace(self.config, initial_rebalance_delay_ms=1)
        joins = [member.join() for member in members]
        self.advance(2)
        self.coordinator.config = self.config
        assert [answer.error for answer in joins] == [ErrorCode.none] * len(members)
        for member in reversed(members):
            member.sync({other.member_id: other.name.encode() for other in members})
        assert self.waiting == (0, len(members))

    def join_both(self, first: Person, second: Person) -> None:
        """Bring both into one generation that has not synced; the first leads."""
        first.join()
        first.sync({})
        second.join()
        first.join()


class Person:
    """A consumer, seen from the protocol."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        group: str = "g",
        instance_id: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> None:
        self.world = world
        self.name = name
        self.group = group
        self.instance_id = instance_id
        self.protocols = {"range": b"", "roundrobin": b""} if protocols is None else protocols
        self.protocol_type = protocol_type
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.member_id = ""
        self.generation = -1

    def ask_to_join(self, *, needs_member_id: bool = True, can_skip: bool = True) -> Answers:
        """One JoinGroup request."""
        answers = Answers()

        def remember(answer: JoinAnswer) -> None:
            answers(answer)
            self.joined(answer)

        join = Join(
            self.group,
            self.member_id,
            self.instance_id,
            self.name,
            "/127.0.0.1",
            self.session_ms,
            self.rebalance_ms,
            self.protocol_type,
            self.protocols,
            needs_member_id,
            can_skip,
        )
        self.world.coordinator.join(join, remember)
        return answers

    def joined(self, answer: JoinAnswer) -> None:
        """Remember who we are."""
        if answer.error in (ErrorCode.none, ErrorCode.member_id_required):
            self.member_id = answer.member_id
        if answer.error is ErrorCode.none:
            self.generation = answer.generation

    def join(self) -> Answers:
        """Join as clients do: ask for an id first if there is none."""
        answers = self.ask_to_join()
        if answers and answers.error is ErrorCode.member_id_required:
            answers = self.ask_to_join()
        return answers

    def sync(self, assignments: dict[str, bytes] | None = None, **others: Any) -> Answers:
        """One SyncGroup request."""
        answers = Answers()
        sync = Sync(
            self.group,
            others.pop("generation", self.generation),
            self.member_id,
            self.instance_id,
            assignments=assignments,
            **others,
        )
        self.world.coordinator.sync(sync, answers)
        return answers

    def heartbeat(self) -> ErrorCode:
        return self.world.coordinator.heartbeat(
            self.group, self.generation, self.member_id, self.instance_id
        )

    def leave(self) -> ErrorCode:
        error, (of_member,) = self.world.coordinator.leave(
            self.group, [(self.member_id, self.instance_id)]
        )
        assert error is ErrorCode.none
        return of_member


def assignment(answers: Answers) -> bytes:
    """What a sync was answered."""
    (answer,) = answers
    assert isinstance(answer, SyncAnswer)
    assert answer.error is ErrorCode.none
    return answer.assignment
