"""Groups: members join, sync, beat and leave; each wait ends for its reason. No sockets here."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups.config import GroupConfig
from sojourn.kafka.groups.group import State
from sojourn.kafka.groups.messages import JoinAnswer
from sojourn.kafka.groups.store import CommittedOffset
from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import REBALANCE_MS, SESSION_MS, Person, World, assignment


@pytest.fixture
def world() -> World:
    return World()


# The first join of an empty group.


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


# Join.


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


# Protocols.


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


# Sync.


def rejoined_pair(world: World) -> tuple[Person, Person]:
    """Two members of a new generation that have not synced; the first leads."""
    first, second = Person(world, "a"), Person(world, "b")
    first.join()
    first.sync({})
    second.join()
    first.join()
    return first, second


def test_a_sync_waits_for_the_leaders(world: World) -> None:
    first, second = rejoined_pair(world)
    waiting = second.sync()
    assert world.rebalances.watched == 1
    assert not waiting
    leading = first.sync({first.member_id: b"one", second.member_id: b"two"})
    assert assignment(waiting) == b"two"
    assert assignment(leading) == b"one"
    assert world.rebalances.watched == 0
    assert world.group().state is State.STABLE


def test_a_sync_waits_for_every_member_also_after_the_leaders(world: World) -> None:
    first, second = rejoined_pair(world)
    first.sync({second.member_id: b"two"})
    assert world.rebalances.watched == 1
    assert assignment(second.sync()) == b"two"
    assert world.rebalances.watched == 0


def test_who_does_not_sync_in_time_is_dropped_and_the_rest_rebalances(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", session_ms=REBALANCE_MS * 2)
    first.join()
    first.sync({})
    second.join()
    first.join()
    first.sync({})
    expired = world.rebalances.metrics().expired
    for _ in range(10):
        world.advance(REBALANCE_MS // 10)
        said = first.heartbeat()
    assert said is ErrorCode.rebalance_in_progress
    assert world.rebalances.metrics().expired == expired + 1
    assert second.heartbeat() is ErrorCode.unknown_member_id
    assert first.join()[0].generation == 3
    first.sync({})
    assert world.waiting == (0, 1)


def test_when_the_leader_does_not_sync_those_that_wait_rebalance(world: World) -> None:
    first, second = Person(world, "a", session_ms=REBALANCE_MS * 2), Person(world, "b")
    first.join()
    first.sync({})
    second.join()
    first.join()
    waiting = second.sync()
    world.advance(REBALANCE_MS)
    assert waiting.error is ErrorCode.rebalance_in_progress
    rejoined = second.join()
    assert rejoined[0].leader == second.member_id
    assert assignment(second.sync({second.member_id: b"all"})) == b"all"
    assert world.waiting == (0, 1)


def test_a_new_rebalance_ends_the_syncs(world: World) -> None:
    first, second = rejoined_pair(world)
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


# Heartbeat.


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


# Leave.


def test_leaving_in_a_batch_answers_for_each(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", instance_id="two")
    world.stable(first, second)
    error, of_members = world.coordinator.leave(
        "g", [(first.member_id, None), ("", "two"), ("", "three"), ("nobody", None)]
    )
    assert error is ErrorCode.none
    assert of_members == [
        ErrorCode.none,
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    assert world.group().state is State.EMPTY
    assert world.waiting == (0, 0)


def test_an_id_that_was_given_out_can_be_given_back(world: World) -> None:
    person = Person(world, "a")
    person.ask_to_join()
    assert person.leave() is ErrorCode.none
    assert world.waiting == (0, 0)


def test_a_member_removed_by_another_has_its_waiting_sync_answered(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b", instance_id="two")
    first.join()
    first.sync({})
    second.join()
    first.join()
    waiting = second.sync()
    world.coordinator.leave("g", [("", "two")])
    assert waiting.error is ErrorCode.unknown_member_id


def test_everybody_gone_everything_gone(world: World) -> None:
    people = [Person(world, name) for name in "abc"]
    world.stable(*people)
    for person in people:
        assert person.leave() is ErrorCode.none
    assert world.group().state is State.EMPTY
    assert world.waiting == (0, 0)
    assert len(world.timer) == 0


# Static members.


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
    first.join()
    first.sync({})
    second.join()
    first.join()
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


# Replies.


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
