"""Assignors of consumer groups: fair, complete, and kind to what members have."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain
from uuid import UUID

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups.consumer.assignors import ASSIGNORS, Reader, by_range, uniform
from sojourn.kafka.groups.consumer.member import Place
from tests.seeds import seed

T, U = UUID(int=1), UUID(int=2)


def readers(*names: str, topics: tuple[UUID, ...] = (T,)) -> list[Reader]:
    return [Reader(name, None, topics) for name in names]


def numbers(target: dict[str, frozenset[Place]]) -> dict[str, list[int]]:
    return {member: sorted(number for _, number in places) for member, places in target.items()}


def test_uniform_moves_no_more_than_it_has_to() -> None:
    first = uniform(readers("a"), {T: 6}, {})
    second = uniform(readers("a", "b"), {T: 6}, first)
    third = uniform(readers("a", "b", "c"), {T: 6}, second)
    assert numbers(second) == {"a": [0, 1, 2], "b": [3, 4, 5]}
    assert numbers(third) == {"a": [0, 1], "b": [3, 4], "c": [2, 5]}


def test_range_gives_the_same_numbers_of_several_topics_to_a_member() -> None:
    target = by_range(readers("b", "a", topics=(T, U)), {T: 3, U: 3}, {})
    assert target["a"] == {(T, 0), (T, 1), (U, 0), (U, 1)}
    assert target["b"] == {(T, 2), (U, 2)}


def test_range_orders_static_members_by_their_instance_and_puts_them_first() -> None:
    members = [Reader("a", None, (T,)), Reader("z", "i", (T,)), Reader("y", "j", (T,))]
    assert numbers(by_range(members, {T: 3}, {})) == {"a": [2], "z": [0], "y": [1]}


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@pytest.mark.parametrize("number", range(150))
def test_every_partition_has_one_reader(assign: object, number: int) -> None:
    chance = random.Random(f"{seed()}/{number}")
    current: dict[str, frozenset[Place]] = {}
    partitions = {UUID(int=n): chance.randint(1, 9) for n in range(1, chance.randint(2, 6))}
    for _ in range(4):
        members = [
            Reader(
                f"m{n}",
                None,
                tuple(chance.sample(sorted(partitions), chance.randint(0, len(partitions)))),
            )
            for n in chance.sample(range(8), chance.randint(1, 8))
        ]
        read = set(chain.from_iterable(member.topics for member in members))
        there = {topic: partitions[topic] for topic in partitions if topic in read}
        target = assign(members, there, current)  # type: ignore[operator]
        owners = Counter(chain.from_iterable(target.values()))
        assert owners == {(topic, n): 1 for topic in there for n in range(there[topic])}
        for member in members:
            assert {topic for topic, _ in target[member.member_id]} <= set(member.topics)
        if assign is uniform:
            check_balance(members, target)
            assert uniform(members, there, target) == target  # nothing moves for nothing
        current = target


def check_balance(members: list[Reader], target: dict[str, frozenset[Place]]) -> None:
    """No partition could move to a reader that has two fewer than its owner."""
    for owner, places in target.items():
        for topic, _ in places:
            for other in members:
                if topic in other.topics:
                    assert len(target[other.member_id]) + 1 >= len(places), (owner, other)


def test_uniform_keeps_what_it_can() -> None:
    names = [f"m{n}" for n in range(10)]
    before = uniform(readers(*names), {T: 100}, {})
    after = uniform(readers(*names[:9]), {T: 100}, before)
    for name in names[:9]:
        assert before[name] <= after[name]
