"""Random consumers doing random things: no partition has two owners, and in the end each has its
share, and nothing is left over."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups import State
from sojourn.kafka.groups.consumer.config import ConsumerGroupConfig
from sojourn.kafka.groups.consumer.member import AWAY, Place
from sojourn.kafka.groups.consumer.messages import JOIN
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode
from tests.kafka.consumer_person import ConsumerPerson, consumer_group
from tests.kafka.group_world import World
from tests.seeds import seed

SESSION_MS = 45_000
_MUST_REJOIN = (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch)
_ANOTHER_LIVES = (ErrorCode.unreleased_instance_id, ErrorCode.fenced_instance_id)


class Crowd:
    """Members of one group, some of them static, that forget, come late, and change their minds."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(f"{seed()}/{number}")
        config = ConsumerGroupConfig(
            session_timeout_ms=SESSION_MS,
            assignment_interval_ms=lambda: interval_ms,
        )
        interval_ms = self.random.choice([0, 0, 1_000])
        self.world = World(consumers=config)
        for name in ("t", "u", "v"):
            self.world.topics.put(name, self.random.randint(1, 7))
        self.people = [self.person(n) for n in range(self.random.randint(1, 6))]
        self.here: set[ConsumerPerson] = set()
        self.lives = 0

    def person(self, n: int) -> ConsumerPerson:
        return ConsumerPerson(
            self.world,
            f"p{n}",
            instance_id=self.random.choice([None, None, f"i{n}", "shared"]),
            topics=self.some_topics(),
            regex=self.random.choice(["", "", "[tu].*"]),
            assignor=self.random.choice([None, "uniform", "range"]),
            rebalance_timeout_ms=self.random.choice([5_000, 60_000]),
        )

    def some_topics(self) -> frozenset[str]:
        return frozenset(self.random.sample(["t", "u", "v", "w"], self.random.randint(0, 3)))

    def step(self) -> None:
        person = self.random.choice(self.people)
        match self.random.randint(0, 11):
            case 0 | 1 if person not in self.here:
                self.ask(person, epoch=JOIN)
            case 2:
                self.ask(person, topics=self.some_topics())
            case 3:
                self.world.advance(self.random.choice([1, 500, 5_000, 20_000, 46_000]))
            case 4 if self.random.random() < 0.3:
                self.ask(person, epoch=-1)
            case 5 if self.random.random() < 0.3 and person.instance_id is not None:
                self.ask(person, epoch=AWAY)
            case 6 if self.random.random() < 0.3:  # it was restarted under another id
                self.here.discard(person)
                person.owned = frozenset()
                self.lives += 1
                person.name = f"{person.name.split('+')[0]}+{self.lives}"
            case 7 if self.random.random() < 0.3:
                self.world.topics.put("w", self.random.randint(1, 4))
            case 8 if self.random.random() < 0.2:
                self.move()
            case 9 | 10 if person in self.here:
                self.ask(person)
            case _:
                self.ask(person, owned=person.owned)
        self.check()

    def ask(self, person: ConsumerPerson, **fields: object) -> None:
        """A heartbeat as a client sends it: one that is fenced gives up everything."""
        if person not in self.here and fields.get("epoch") != JOIN:
            return
        try:
            if fields.get("epoch") == JOIN:
                person.join()
                self.here.add(person)
                return
            person.beat(**fields)
            if person.epoch < 0:
                self.here.discard(person)
                person.owned = frozenset()
        except Refused as refused:
            if refused.code not in (*_MUST_REJOIN, *_ANOTHER_LIVES):
                raise
            if fields.get("epoch") != JOIN:
                self.here.discard(person)
                person.owned = frozenset()

    def move(self) -> None:
        """Another broker coordinates the group."""
        old = self.world.coordinator
        self.world.coordinator = self.world.start()
        self.world.owner = len(self.world.coordinators) - 1
        old.unload()
        self.world.coordinator.load()

    def check(self) -> None:
        """No two members have a partition; what a member has, the coordinator knows."""
        if "g" not in self.world.coordinator.groups:
            return
        group = consumer_group(self.world)
        held = [(*one.assigned, *one.revoking) for one in group.members.values()]
        assert_distinct(held)
        for person in self.here:
            member = group.members.get(person.name)
            if member is not None and member.epoch == person.epoch:
                assert person.owned <= member.assigned.keys() | member.revoking.keys()


def assert_distinct(held: list[tuple[Place, ...]]) -> None:
    twice = [place for place, number in Counter(chain.from_iterable(held)).items() if number > 1]
    assert not twice, twice


@pytest.mark.parametrize("number", range(40))
def test_nobody_shares_a_partition_and_in_the_end_all_are_given_out(number: int) -> None:
    crowd = Crowd(number)
    for _ in range(120):
        crowd.step()
    # Peace: those that are here send heartbeats, and the others' sessions end.
    for _ in range(60):
        crowd.world.advance(2_000)
        for person in list(crowd.here):
            crowd.ask(person, owned=person.owned)
    if crowd.here:
        group = consumer_group(crowd.world)
        assert group.state is State.STABLE
        assert set(group.members) == {person.name for person in crowd.here}
        topics = [crowd.world.topics.topic(name) for name in group.topics()]
        expected = {
            (topic.id, n) for topic in topics if topic for n in range(len(topic.partitions))
        }
        assert expected == set().union(*(person.owned for person in crowd.here))
        assert_distinct([tuple(person.owned) for person in crowd.here])
        assert crowd.world.waiting == (0, len(crowd.here))
    for person in list(crowd.here):
        crowd.ask(person, epoch=-1)
    crowd.world.advance(10 * SESSION_MS)
    assert crowd.world.waiting == (0, 0)
