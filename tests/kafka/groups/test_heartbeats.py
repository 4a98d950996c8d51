"""Heartbeats: a member that does not beat for a session is removed."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups.group import State
from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import REBALANCE_MS, SESSION_MS, Person, World


def test_each_heartbeat_puts_off_the_end_of_the_session(world: World) -> None:
    person = Person(world, "a")
    world.stable(person)
    for _ in range(5):
        world.advance(SESSION_MS - 1)
        assert person.heartbeat() is ErrorCode.none
        assert world.waiting == (0, 1)
    assert world.heartbeats.metrics().expired == 0


def test_a_silent_member_is_removed_and_its_group_rebalances(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first, second)
    world.advance(SESSION_MS - 1)
    assert first.heartbeat() is ErrorCode.none
    world.advance(1)
    assert world.heartbeats.metrics().expired == 1
    assert first.heartbeat() is ErrorCode.rebalance_in_progress
    assert second.heartbeat() is ErrorCode.unknown_member_id
    assert [one.member_id for one in first.join()[0].members] == [first.member_id]
    first.sync({})
    assert world.waiting == (0, 1)


def test_when_the_last_member_falls_silent_the_group_is_empty(world: World) -> None:
    world.stable(Person(world, "a"))
    world.advance(SESSION_MS)
    assert world.group().state is State.EMPTY
    assert world.group().generation == 2
    assert world.waiting == (0, 0)
    assert len(world.timer) == 0


def test_a_member_that_waits_for_us_is_not_expected_to_beat(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", session_ms=REBALANCE_MS)
    world.stable(first, second)
    rejoined = first.join()
    assert world.heartbeats.watched == 1  # only the other one's
    world.advance(SESSION_MS * 2)
    second.join()
    assert [one.member_id for one in rejoined[0].members] == [first.member_id, second.member_id]


def test_a_new_member_whose_join_waits_too_long_is_told_to_come_again(world: World) -> None:
    """Nobody can say whether it still lives: it has no id yet to beat with."""
    long_ms = 1_000_000
    first = Person(world, "a", session_ms=long_ms, rebalance_ms=long_ms)
    world.stable(first)
    waiting = Person(world, "b", rebalance_ms=long_ms).join()
    world.advance(299_999)
    assert not waiting
    world.advance(1)
    assert waiting.error is ErrorCode.unknown_member_id
    assert waiting[0].member_id == ""
    assert world.heartbeats.metrics().expired == 1


def test_heartbeats_are_answered_while_assignments_are_made(world: World) -> None:
    person = Person(world, "a")
    person.join()
    assert world.group().state is State.COMPLETING_REBALANCE
    assert person.heartbeat() is ErrorCode.none
    person.generation = 7
    assert person.heartbeat() is ErrorCode.illegal_generation


def test_a_heartbeat_that_comes_as_its_time_runs_out_keeps_the_member(world: World) -> None:
    """1. the deadline passes, and the operation is claimed as expired; 2. the heartbeat comes and
    arms the next; 3. the expired one gets its turn: it must see that it is not the last word."""
    person = Person(world, "a")
    world.stable(person)
    member = world.group().members[person.member_id]
    expired = member.heartbeat
    assert expired is not None
    assert person.heartbeat() is ErrorCode.none
    expired.on_expiration()
    assert person.member_id in world.group().members
