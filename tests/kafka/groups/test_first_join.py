"""The first join of an empty group waits a while for others."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import Person, World


def test_the_first_join_waits_for_others_and_not_longer_than_the_delay() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    answers = Person(world, "a").join()
    assert world.rebalances.watched == 1
    world.advance(2_999)
    assert not answers
    world.advance(1)
    assert answers.error is ErrorCode.none
    assert answers[0].generation == 1
    assert world.rebalances.metrics().expired == 1


def test_the_first_join_never_completes_by_itself() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    joins = [Person(world, name).join() for name in "ab"]
    assert world.group().all_have_joined
    assert not joins[0]
    assert not joins[1]
    assert world.rebalances.watched == 1


def test_a_new_member_gives_the_first_join_more_time_while_there_is_some() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    joins = [Person(world, "a", rebalance_ms=7_000).join()]
    for _ in range(2):
        world.advance(2_999)
        joins.append(Person(world, "late", rebalance_ms=7_000).join())
        world.advance(1)
        assert not joins[0]
    world.advance(999)
    assert not joins[0]
    world.advance(1)  # 7 s since the first: no more time, whoever comes
    assert [answer.error for answer in joins] == [ErrorCode.none] * 3
    assert {answer[0].generation for answer in joins} == {1}
    assert len({answer[0].leader for answer in joins}) == 1


def test_the_first_join_gets_no_more_time_than_its_members_have() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    first = Person(world, "a", rebalance_ms=1_000).join()
    world.advance(2_999)
    Person(world, "b", rebalance_ms=1_000).join()
    world.advance(1)
    assert len(first[0].members) == 2


def test_the_first_join_leaves_nothing_behind() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    person = Person(world, "a")
    person.join()
    world.advance(3_000)
    person.sync({})
    person.leave()
    assert world.waiting == (0, 0)
    assert len(world.timer) == 0


def test_the_first_join_ends_when_the_group_moves_to_another_broker() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    answers = Person(world, "a").join()
    world.owner = 1
    world.coordinator.unload()
    assert answers.error is ErrorCode.not_coordinator
    assert world.waiting == (0, 0)
