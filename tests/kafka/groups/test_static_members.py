"""Static members come back without a rebalance, and fence who they were before."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups.group import State
from sojourn.kafka.groups.store import CommittedOffset
from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import SESSION_MS, Person, World, assignment


def test_a_static_member_comes_back_without_a_rebalance(world: World) -> None:
    first = Person(world, "a", instance_id="one")
    second = Person(world, "b", instance_id="two")
    world.stable(first, second)
    old_id, second.member_id = second.member_id, ""
    back = second.join()
    assert back.error is ErrorCode.none
    assert back[0].generation == 1
    assert second.member_id != old_id
    assert world.group().state is State.STABLE
    assert assignment(second.sync()) == b"b"
    assert world.waiting == (0, 2)


def test_the_old_self_of_a_static_member_is_fenced(world: World) -> None:
    old = Person(world, "a", instance_id="one")
    world.stable(old)
    new = Person(world, "a", instance_id="one")
    assert new.join().error is ErrorCode.none
    assert old.heartbeat() is ErrorCode.fenced_instance_id
    assert old.sync().error is ErrorCode.fenced_instance_id
    assert old.join().error is ErrorCode.fenced_instance_id
    assert old.leave() is ErrorCode.fenced_instance_id
    commits = world.offsets.commit("g", 1, old.member_id, "one", {("t", 0): CommittedOffset(5)})
    assert commits == {("t", 0): ErrorCode.fenced_instance_id}
    assert new.heartbeat() is ErrorCode.none


def test_the_waiting_join_of_an_old_self_is_fenced(world: World) -> None:
    first, old = Person(world, "a"), Person(world, "b", instance_id="two")
    world.stable(first)
    waiting = old.join()
    new = Person(world, "b", instance_id="two").join()
    assert waiting.error is ErrorCode.fenced_instance_id
    first.join()
    assert new[0].generation == 2


def test_a_returning_leader_is_told_to_leave_the_assignment_as_it_is(world: World) -> None:
    leader, other = Person(world, "a", instance_id="one"), Person(world, "b")
    world.stable(leader, other)
    leader.member_id = ""
    (back,) = leader.join()
    assert back.leader == leader.member_id
    assert back.skip_assignment
    assert len(back.members) == 2


def test_an_old_client_that_leads_is_not_told_that_it_does(world: World) -> None:
    leader, other = Person(world, "a", instance_id="one"), Person(world, "b")
    world.stable(leader, other)
    old_id, leader.member_id = leader.member_id, ""
    (back,) = leader.ask_to_join(can_skip=False)
    assert back.leader == old_id
    assert back.members == ()
    assert not back.skip_assignment


def test_a_static_member_that_comes_back_during_the_sync_starts_a_rebalance(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", instance_id="two")
    world.join_both(first, second)
    second.member_id = ""
    back = second.join()
    assert not back
    assert world.group().state is State.PREPARING_REBALANCE
    first.join()
    assert back[0].generation == 3


def test_a_static_member_is_removed_after_a_session(world: World) -> None:
    first, second = Person(world, "a", session_ms=60_000), Person(world, "b", instance_id="two")
    world.stable(first, second)
    world.advance(SESSION_MS)
    assert first.heartbeat() is ErrorCode.rebalance_in_progress
    assert second.heartbeat() is ErrorCode.unknown_member_id
