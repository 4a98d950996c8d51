"""Joins: a rebalance waits for its members, and no longer than they ask for."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups.config import GroupConfig
from sojourn.kafka.groups.group import State
from sojourn.kafka.groups.messages import JoinAnswer
from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import REBALANCE_MS, SESSION_MS, Person, World, assignment


def test_a_member_without_an_id_is_given_one_and_asked_to_come_again(world: World) -> None:
    person = Person(world, "client")
    refused = person.ask_to_join()
    assert refused.error is ErrorCode.member_id_required
    assert refused[0].member_id.startswith("client-")
    assert person.ask_to_join().error is ErrorCode.none


def test_an_old_client_without_an_id_joins_at_once(world: World) -> None:
    assert Person(world, "old").ask_to_join(needs_member_id=False).error is ErrorCode.none


def test_an_id_that_nobody_uses_is_worth_nothing_after_a_session(world: World) -> None:
    person = Person(world, "a")
    person.ask_to_join()
    assert world.waiting == (0, 1)
    world.advance(SESSION_MS)
    assert world.waiting == (0, 0)
    assert "g" not in world.coordinator.groups  # nobody was ever in it
    assert person.ask_to_join().error is ErrorCode.unknown_member_id


def test_a_rebalance_waits_for_an_id_that_was_given_out(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first)
    second.ask_to_join()
    rejoined = first.join()  # the leader rebalances
    assert not rejoined
    assert second.ask_to_join().error is ErrorCode.none
    assert rejoined.error is ErrorCode.none


def test_a_rebalance_goes_on_without_an_id_that_nobody_has_used_for_a_session(
    world: World,
) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first)
    second.ask_to_join()
    rejoined = first.join()
    world.advance(SESSION_MS - 1)
    assert not rejoined
    world.advance(1)
    assert len(rejoined[0].members) == 1


def test_a_join_completes_when_all_known_members_have_rejoined(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first)
    waiting = second.join()
    assert world.rebalances.watched == 1
    assert not waiting
    assert first.heartbeat() is ErrorCode.rebalance_in_progress
    completed = world.rebalances.metrics().completed
    rejoined = first.join()
    assert waiting.error is rejoined.error is ErrorCode.none
    assert waiting[0].generation == rejoined[0].generation == 2
    assert waiting[0].leader == first.member_id
    assert waiting[0].members == ()
    assert [one.member_id for one in rejoined[0].members] == [first.member_id, second.member_id]
    assert world.rebalances.metrics().completed == completed + 1
    assert world.rebalances.metrics().expired == 1  # only the very first join


def test_members_that_do_not_rejoin_in_time_are_dropped(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", session_ms=REBALANCE_MS * 2)
    world.stable(first, second)
    rejoined = first.join()
    world.advance(REBALANCE_MS - 1)
    assert not rejoined
    world.advance(1)
    assert rejoined[0].generation == 2
    assert [one.member_id for one in rejoined[0].members] == [first.member_id]
    assert second.heartbeat() is ErrorCode.unknown_member_id
    first.sync({})
    assert world.waiting == (0, 1)


def test_a_leader_that_does_not_rejoin_is_replaced_by_one_that_has(world: World) -> None:
    first = Person(world, "a", session_ms=REBALANCE_MS * 2)
    second = Person(world, "b", protocols={"range": b"1"})
    world.stable(first, second)
    second.protocols = {"range": b"2"}
    rejoined = second.join()
    world.advance(REBALANCE_MS)
    assert rejoined[0].leader == second.member_id
    assert len(rejoined[0].members) == 1


def test_when_no_static_member_rejoins_the_rebalance_waits_again(world: World) -> None:
    """Static members keep their place for a session, rejoined or not."""
    static = Person(world, "a", instance_id="one", session_ms=REBALANCE_MS * 3)
    dynamic = Person(world, "b", session_ms=REBALANCE_MS * 3)
    world.stable(static, dynamic)
    dynamic.leave()
    world.advance(REBALANCE_MS)
    assert world.group().state is State.PREPARING_REBALANCE
    assert world.rebalances.watched == 1
    rejoined = static.join()
    assert rejoined[0].generation == 2
    static.sync({})
    assert world.waiting == (0, 1)


def test_a_leaving_member_lets_the_others_join_complete(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first, second)
    rejoined = first.join()
    assert second.leave() is ErrorCode.none
    assert rejoined[0].generation == 2
    assert len(rejoined[0].members) == 1


def test_a_follower_with_nothing_new_is_told_the_present_generation(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first, second)
    assert second.join()[0].generation == 1
    assert world.group().state is State.STABLE
    assert assignment(second.sync()) == b"b"


def test_a_join_sent_again_while_assignments_are_made_is_answered_again(world: World) -> None:
    person = Person(world, "a")
    first = person.join()
    again = person.join()
    assert first == again
    assert world.group().generation == 1


def test_a_join_that_is_superseded_is_answered_too(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first, second)
    lost = first.join()
    again = first.join()
    assert lost.error is ErrorCode.rebalance_in_progress
    assert not again
    second.join()
    assert again.error is ErrorCode.none


def test_sessions_have_bounds(world: World) -> None:
    for session_ms in (5_999, 1_800_001):
        refused = Person(world, "a", session_ms=session_ms).join()
        assert refused.error is ErrorCode.invalid_session_timeout
    for group, session_ms in [("g", 6_000), ("h", 1_800_000)]:
        person = Person(world, "a", group=group, session_ms=session_ms)
        assert person.join().error is ErrorCode.none


def test_a_group_has_a_name_and_members_are_known_to_it(world: World) -> None:
    assert Person(world, "a", group="").join().error is ErrorCode.invalid_group_id
    stranger = Person(world, "a")
    stranger.member_id = "made-up"
    assert stranger.join().error is ErrorCode.unknown_member_id
    world.stable(Person(world, "b"))
    assert stranger.join().error is ErrorCode.unknown_member_id
    assert stranger.sync().error is ErrorCode.unknown_member_id
    assert stranger.heartbeat() is ErrorCode.unknown_member_id
    assert stranger.leave() is ErrorCode.unknown_member_id
    elsewhere = Person(world, "c", group="h", protocols={})
    elsewhere.member_id = "made-up"
    assert elsewhere.ask_to_join().error is ErrorCode.unknown_member_id
    assert elsewhere.sync().error is ErrorCode.unknown_member_id
    assert elsewhere.heartbeat() is ErrorCode.unknown_member_id
    assert "h" not in world.coordinator.groups


def test_a_full_group_takes_nobody_in() -> None:
    world = World(max_size=2)
    world.stable(Person(world, "a"), Person(world, "b"))
    third = Person(world, "c")
    assert third.join().error is ErrorCode.group_max_size_reached
    assert len(world.group().members) == 2


def test_of_a_group_that_has_become_too_large_the_last_to_rejoin_are_removed() -> None:
    world = World()
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first, second)
    world.coordinator.config = GroupConfig(max_size=1)
    rejoined = first.join()
    assert not rejoined
    assert second.join().error is ErrorCode.group_max_size_reached
    assert rejoined[0].generation == 2
    assert list(world.group().members) == [first.member_id]


def test_a_rebalance_waits_as_long_as_members_that_rejoin_ask_for(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", session_ms=REBALANCE_MS * 4)
    world.stable(first, second)
    first.rebalance_ms = second.rebalance_ms = REBALANCE_MS * 2
    first.join()
    second.join()
    for person in (second, first):
        person.sync({})
    rejoined = first.join()
    world.advance(REBALANCE_MS * 2 - 1)
    assert not rejoined
    world.advance(1)
    assert len(rejoined[0].members) == 1


def test_the_protocol_is_one_that_all_know_by_their_votes(world: World) -> None:
    people = [
        Person(world, "a", protocols={"sticky": b"", "range": b"a", "roundrobin": b""}),
        Person(world, "b", protocols={"roundrobin": b"", "range": b"b"}),
        Person(world, "c", protocols={"range": b"c", "roundrobin": b""}),
    ]
    people[0].join()
    people[0].sync({})
    waiting = [people[1].join(), people[2].join()]
    rejoined = people[0].join()
    assert {one[0].protocol for one in [*waiting, rejoined]} == {"range"}
    assert [one.metadata for one in rejoined[0].members] == [b"a", b"b", b"c"]


def test_who_shares_no_protocol_is_refused(world: World) -> None:
    world.stable(Person(world, "a", protocols={"range": b""}))
    for stranger in (
        Person(world, "b", protocols={"sticky": b""}),
        Person(world, "c", protocols={"range": b""}, protocol_type="connect"),
        Person(world, "d", protocols={}),
    ):
        assert stranger.join().error is ErrorCode.inconsistent_group_protocol
    assert Person(world, "e", group="h", protocols={}).join().error is (
        ErrorCode.inconsistent_group_protocol
    )
    assert list(world.coordinator.groups) == ["g"]


def test_replies_see_the_group_as_it_is_afterwards(world: World) -> None:
    """A reply may ask again at once, from inside: nothing is half done by then."""
    seen: list[State] = []

    class Eager(Person):
        def joined(self, answer: JoinAnswer) -> None:
            super().joined(answer)
            seen.append(world.group().state)
            assert assignment(self.sync({self.member_id: b"all"})) == b"all"

    person = Eager(world, "a")
    person.ask_to_join(needs_member_id=False)
    assert seen == [State.COMPLETING_REBALANCE]
    assert world.group().state is State.STABLE
