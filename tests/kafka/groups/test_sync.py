"""Syncs: members wait for the leader's assignment, and it for theirs."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups.group import State
from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import REBALANCE_MS, Person, World, assignment


def test_a_sync_waits_for_the_leaders(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.join_both(first, second)
    waiting = second.sync()
    assert world.rebalances.watched == 1
    assert not waiting
    leading = first.sync({first.member_id: b"one", second.member_id: b"two"})
    assert assignment(waiting) == b"two"
    assert assignment(leading) == b"one"
    assert world.rebalances.watched == 0
    assert world.group().state is State.STABLE


def test_a_sync_waits_for_every_member_also_after_the_leaders(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.join_both(first, second)
    first.sync({second.member_id: b"two"})
    assert world.rebalances.watched == 1
    assert assignment(second.sync()) == b"two"
    assert world.rebalances.watched == 0


def test_who_does_not_sync_in_time_is_dropped_and_the_rest_rebalances(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", session_ms=REBALANCE_MS * 2)
    world.join_both(first, second)
    first.sync({})
    expired = world.rebalances.metrics().expired
    for _ in range(10):
        world.advance(REBALANCE_MS // 10)
        error = first.heartbeat()
    assert error is ErrorCode.rebalance_in_progress
    assert world.rebalances.metrics().expired == expired + 1
    assert second.heartbeat() is ErrorCode.unknown_member_id
    assert first.join()[0].generation == 3
    first.sync({})
    assert world.waiting == (0, 1)


def test_when_the_leader_does_not_sync_those_that_wait_rebalance(world: World) -> None:
    first, second = Person(world, "a", session_ms=REBALANCE_MS * 2), Person(world, "b")
    world.join_both(first, second)
    waiting = second.sync()
    world.advance(REBALANCE_MS)
    assert waiting.error is ErrorCode.rebalance_in_progress
    rejoined = second.join()
    assert rejoined[0].leader == second.member_id
    assert assignment(second.sync({second.member_id: b"all"})) == b"all"
    assert world.waiting == (0, 1)


def test_a_new_rebalance_ends_the_syncs(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.join_both(first, second)
    waiting = second.sync()
    third = Person(world, "c").join()
    assert waiting.error is ErrorCode.rebalance_in_progress
    assert world.rebalances.watched == 1  # the join
    assert not third
    first.join()
    second.join()
    assert third[0].generation == 3


def test_a_sync_of_another_generation_or_protocol_is_refused(world: World) -> None:
    person = Person(world, "a")
    world.stable(person)
    assert person.sync(generation=0).error is ErrorCode.illegal_generation
    assert person.sync(protocol="sticky").error is ErrorCode.inconsistent_group_protocol
    assert person.sync(protocol_type="connect").error is ErrorCode.inconsistent_group_protocol
    assert assignment(person.sync(protocol="range", protocol_type="consumer")) == b"a"


def test_who_is_not_named_in_the_assignment_gets_nothing(world: World) -> None:
    person = Person(world, "a")
    person.join()
    assert assignment(person.sync({"somebody": b"else"})) == b""
