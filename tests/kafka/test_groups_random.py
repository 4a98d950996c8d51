"""Random members doing random things: every request is answered once, and nothing is left over."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups.group import Group, State
from sojourn.kafka.groups.store import CommittedOffset
from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import Answers, Person, World

PROTOCOLS = [["range"], ["range", "roundrobin"], ["roundrobin", "range"]]


class Crowd:
    """Members of one group that do as they please, some of them static, some with two lives."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(initial_rebalance_delay_ms=self.random.choice([0, 50, 3_000]))
        self.asked: list[Answers] = []
        self.people = [self.person(n) for n in range(self.random.randint(1, 6))]

    def person(self, n: int) -> Person:
        return Person(
            self.world,
            f"p{n}",
            instance_id=self.random.choice([None, None, f"i{n}", "shared"]),
            session_ms=self.random.choice([6_000, 10_000, 45_000]),
            rebalance_ms=self.random.choice([0, 5_000, 60_000]),
            protocols=self.random.choice(
                [
                    {"range": b""},
                    {"range": b"", "roundrobin": b""},
                    {"roundrobin": b"", "range": b""},
                ]
            ),
        )

    def step(self) -> None:
        person = self.random.choice(self.people)
        match self.random.randint(0, 9):
            case 0 | 1 | 2:
                self.asked.append(person.ask_to_join(needs_member_id=self.random.random() < 0.8))
            case 3 | 4:
                everybody = {other.member_id: b"some" for other in self.people}
                self.asked.append(person.sync(everybody))
            case 5:
                person.heartbeat()
            case 6:
                self.world.advance(self.random.choice([1, 50, 3_000, 6_000, 60_000]))
            case 7:
                if self.random.random() < 0.3:
                    person.leave()
            case 8:
                if self.random.random() < 0.3:  # it was restarted
                    person.member_id = ""
                if self.random.random() < 0.2:  # it reads something else
                    person.protocols = {"range": self.random.randbytes(2)}
            case 9:
                self.world.offsets.commit(
                    "g",
                    person.generation,
                    person.member_id,
                    person.instance_id,
                    {("t", 0): CommittedOffset(self.random.randint(0, 9))},
                )
        self.look()

    def look(self) -> None:
        """What holds at any time."""
        world = self.world
        group = world.coordinator.groups.get("g")
        if group is None:
            assert world.waiting == (0, 0)
            return
        assert isinstance(group, Group)
        members = group.members.values()
        assert (group.leader is None) == (not group.members)
        assert group.leader is None or group.leader in group.members
        assert set(group.static_members.values()) == {m.member_id for m in members if m.is_static}
        assert group.pending_syncs <= group.members.keys()
        assert not group.pending_members & group.members.keys()
        match group.state:
            case State.EMPTY:
                assert not group.members
                assert world.rebalances.watched == 0
            case State.PREPARING_REBALANCE:
                assert world.rebalances.watched == 1
                assert not any(m.sync_reply for m in members)
            case State.COMPLETING_REBALANCE:
                assert group.members
                assert not any(m.join_reply for m in members)
                assert world.rebalances.watched == 1
            case State.STABLE:
                assert group.members
                assert not any(m.join_reply or m.sync_reply for m in members)
                assert world.rebalances.watched == bool(group.pending_syncs)
        beating = sum(not m.awaits_answer for m in members)
        assert world.heartbeats.watched == beating + len(group.pending_members)
        assert len(world.timer) == sum(world.waiting)

    def end(self) -> None:
        """Everybody falls silent."""
        self.world.advance(10_000_000)
        assert [answers for answers in self.asked if len(answers) != 1] == []
        assert self.world.waiting == (0, 0)
        assert len(self.world.timer) == 0
        assert self.world.timer.errors == 0
        assert self.world.rebalances.metrics().errors == 0
        assert self.world.heartbeats.metrics().errors == 0
        group = self.world.coordinator.groups.get("g")
        assert group is None or group.state is State.EMPTY


@pytest.mark.parametrize("seed", range(200))
def test_whatever_members_do_each_is_answered_once_and_nothing_is_left(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(200):
        crowd.step()
    crowd.end()


@pytest.mark.parametrize("seed", range(50))
def test_members_that_do_as_they_are_told_come_to_rest_in_one_generation(seed: int) -> None:
    """From whatever mess: those who rejoin and sync when asked to are stable soon."""
    crowd = Crowd(seed)
    for _ in range(100):
        crowd.step()
    world = crowd.world
    people = [Person(world, f"good{n}", protocols={"range": b""}) for n in range(3)]
    waiting: dict[Person, Answers] = {}
    for _ in range(400):
        world.advance(500)
        for person in people:
            answers = waiting.pop(person, None)
            if answers is not None and not answers:
                waiting[person] = answers
                continue
            if answers is not None and answers.error is ErrorCode.unknown_member_id:
                person.member_id = ""
            if answers is not None and answers.error is ErrorCode.none and has_joined(answers):
                waiting[person] = person.sync({other.member_id: b"ok" for other in people})
            elif answers is None or answers.error is not ErrorCode.none:
                waiting[person] = person.ask_to_join()
            else:
                said = person.heartbeat()
                if said is ErrorCode.none:
                    waiting[person] = answers
                elif said is ErrorCode.unknown_member_id:
                    person.member_id = ""
    group = world.group()
    assert group.state is State.STABLE
    assert set(group.members) == {person.member_id for person in people}
    assert {person.generation for person in people} == {group.generation}
    assert {member.assignment for member in group.members.values()} == {b"ok"}


def has_joined(answers: Answers) -> bool:
    return hasattr(answers[0], "generation")
