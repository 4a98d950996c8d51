"""What outlives the members of a group, and its coordinator: offsets and the last generation."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.groups.group import State
from sojourn.kafka.groups.offsets import Offsets
from sojourn.kafka.groups.store import CommittedOffset
from sojourn.kafka.groups.subscription import subscribed_topics
from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import SESSION_MS, Person, World

CONSUMER_OF_T = b"\0\1" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
KEEP_MS = 600_000


# Offsets.


def commit(world: World, person: Person, offset: int, metadata: str = "") -> ErrorCode:
    answers = world.offsets.commit(
        person.group,
        person.generation,
        person.member_id,
        person.instance_id,
        {("t", 0): CommittedOffset(offset, 0, metadata)},
    )
    return answers["t", 0]


def committed(world: World) -> int | None:
    offset = world.offsets.fetch("g")[1].get(("t", 0))
    return None if offset is None else offset.offset


def test_committed_offsets_survive_their_members(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first)
    assert commit(world, first, 42) is ErrorCode.none
    first.leave()
    world.stable(second)
    assert committed(world) == 42


def test_only_members_of_the_present_generation_commit(world: World) -> None:
    person, stranger = Person(world, "a"), Person(world, "b")
    person.join()
    assert commit(world, person, 1) is ErrorCode.rebalance_in_progress
    person.sync({})
    assert commit(world, stranger, 2) is ErrorCode.unknown_member_id
    stranger.member_id = "made-up"
    stranger.generation = 1
    assert commit(world, stranger, 2) is ErrorCode.unknown_member_id
    person.generation = 0
    assert commit(world, person, 2) is ErrorCode.illegal_generation
    assert committed(world) is None


def test_a_consumer_on_its_own_commits_to_a_group_without_members(world: World) -> None:
    alone = Person(world, "a")
    assert commit(world, alone, 3) is ErrorCode.none
    assert committed(world) == 3
    alone.generation = 1
    assert commit(world, Person(world, "b", group="g"), 4) is ErrorCode.none
    assert commit(world, alone, 5) is ErrorCode.unknown_member_id
    absent = Person(world, "c", group="h")
    absent.generation = 1
    assert commit(world, absent, 5) is ErrorCode.group_id_not_found


def test_a_commit_is_a_sign_of_life(world: World) -> None:
    person = Person(world, "a")
    world.stable(person)
    world.advance(SESSION_MS - 1)
    commit(world, person, 1)
    world.advance(SESSION_MS - 1)
    assert person.heartbeat() is ErrorCode.none


def test_a_member_may_commit_while_a_rebalance_is_prepared(world: World) -> None:
    first = Person(world, "a")
    world.stable(first)
    Person(world, "b").join()
    assert commit(world, first, 7) is ErrorCode.none


def test_metadata_that_is_too_long_is_refused(world: World) -> None:
    assert commit(world, Person(world, "a"), 1, "é" * 2_048) is ErrorCode.none
    assert commit(world, Person(world, "a"), 2, "é" * 2_049) is ErrorCode.offset_metadata_too_large
    assert committed(world) == 1


def test_offsets_of_topics_that_members_read_are_not_deleted(world: World) -> None:
    person = Person(world, "a", protocols={"range": CONSUMER_OF_T})
    world.stable(person)
    commit(world, person, 1)
    world.store.commit("g", "old", 0, CommittedOffset(9))
    assert world.offsets.delete("g", [("t", 0), ("old", 0)]) == (
        ErrorCode.none,
        {("t", 0): ErrorCode.group_subscribed_to_topic, ("old", 0): ErrorCode.none},
    )
    assert world.offsets.fetch("g")[1].keys() == {("t", 0)}
    person.leave()
    assert world.offsets.delete("g", [("t", 0)])[1] == {("t", 0): ErrorCode.none}
    assert committed(world) is None


def test_offsets_of_others_than_consumers_are_not_deleted_under_them(world: World) -> None:
    world.stable(Person(world, "a", protocol_type="connect"))
    assert world.offsets.delete("g", [("t", 0)]) == (ErrorCode.non_empty_group, {})
    assert world.offsets.delete("h", [("t", 0)]) == (ErrorCode.group_id_not_found, {})


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\0\1\0\0\0\1", b"\0\1\xff\xff\xff\xff", CONSUMER_OF_T[:8], b"\0" * 5]
)
def test_metadata_that_no_consumer_sends_names_no_topics(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


def test_a_consumers_metadata_names_its_topics() -> None:
    assert subscribed_topics(CONSUMER_OF_T) == {"t"}
    assert subscribed_topics(b"\0\3\0\0\0\0") == set()


# Expiry.


def test_offsets_of_a_group_are_kept_from_when_its_last_member_left(world: World) -> None:
    person = Person(world, "a")
    world.stable(person)
    commit(world, person, 1)
    world.advance(SESSION_MS - 1)
    person.leave()
    world.advance(KEEP_MS - 1)
    world.coordinator.expire(KEEP_MS)
    assert committed(world) == 1
    assert "g" in world.coordinator.groups
    world.advance(1)
    world.coordinator.expire(KEEP_MS)
    assert committed(world) is None
    assert "g" not in world.coordinator.groups
    assert world.store.groups == {}


def test_an_offset_that_an_open_transaction_commits_does_not_expire(world: World) -> None:
    commit(world, Person(world, "a"), 1)
    world.store.prepare_commit("g", 5, "t", 0, CommittedOffset(2))
    world.advance(KEEP_MS)
    world.coordinator.expire(KEEP_MS)
    assert committed(world) == 1
    world.store.complete_transaction("g", 5, is_commit=True)
    assert committed(world) == 2
    world.coordinator.expire(KEEP_MS)
    assert committed(world) is None


def test_a_group_with_members_and_without_offsets_does_not_expire(world: World) -> None:
    world.stable(Person(world, "a"))
    world.coordinator.expire(0)
    assert world.group().state is State.STABLE


def test_offsets_of_a_group_that_never_had_members_are_kept_from_their_commit(
    world: World,
) -> None:
    commit(world, Person(world, "a"), 1)
    world.advance(KEEP_MS - 1)
    world.coordinator.expire(KEEP_MS)
    assert committed(world) == 1
    world.advance(1)
    world.coordinator.expire(KEEP_MS)
    assert committed(world) is None
    assert "g" not in world.coordinator.groups


def test_offsets_of_topics_that_members_read_do_not_expire_but_others_do(world: World) -> None:
    person = Person(world, "a", protocols={"range": CONSUMER_OF_T}, session_ms=2 * KEEP_MS)
    world.stable(person)
    commit(world, person, 1)
    world.store.commit("g", "old", 0, CommittedOffset(9))
    world.advance(KEEP_MS)
    world.coordinator.expire(KEEP_MS)
    assert world.offsets.fetch("g")[1].keys() == {("t", 0)}
    assert world.group().state is State.STABLE


def test_a_group_that_moved_is_kept_from_its_arrival(world: World) -> None:
    person = Person(world, "a")
    world.stable(person)
    commit(world, person, 1)
    person.leave()
    world.advance(KEEP_MS - 1)
    world.owner = 1
    world.coordinator.unload()
    new = world.start()
    new.load()
    world.advance(KEEP_MS - 1)
    new.expire(KEEP_MS)
    assert "g" in new.groups
    world.advance(1)
    new.expire(KEEP_MS)
    assert "g" not in new.groups


def test_a_group_that_a_member_is_about_to_join_does_not_expire(world: World) -> None:
    person = Person(world, "a")
    person.ask_to_join()
    world.advance(SESSION_MS - 1)
    world.coordinator.expire(0)
    assert person.ask_to_join().error is ErrorCode.none


# Groups that are deleted, or move.


def test_only_an_empty_group_is_deleted(world: World) -> None:
    person = Person(world, "a")
    world.stable(person)
    commit(world, person, 1)
    assert world.coordinator.delete("g") is ErrorCode.non_empty_group
    person.leave()
    assert world.coordinator.delete("g") is ErrorCode.none
    assert world.coordinator.delete("g") is ErrorCode.group_id_not_found
    assert world.coordinator.delete("") is ErrorCode.group_id_not_found
    assert committed(world) is None
    assert world.store.groups == {}


def test_a_group_goes_on_at_another_broker_where_it_was(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first, second)
    commit(world, first, 11)
    old, new = world.coordinator, world.start()
    world.owner = 1
    old.unload()
    new.load()
    assert first.heartbeat() is ErrorCode.not_coordinator
    world.coordinator = new
    assert first.heartbeat() is second.heartbeat() is ErrorCode.none
    assert Offsets(new).fetch("g")[1]["t", 0].offset == 11
    assert world.waiting == (0, 2)
    world.advance(SESSION_MS)
    assert new.groups["g"].state is State.EMPTY


def test_what_waits_when_a_group_moves_is_told_to_look_elsewhere(world: World) -> None:
    first, second = Person(world, "a"), Person(world, "b")
    world.stable(first)
    joining = second.join()
    elsewhere = Person(world, "c", group="h")
    elsewhere.join()
    elsewhere.sync({})
    other = Person(world, "d", group="h")
    other.join()
    elsewhere.join()
    syncing = other.sync()
    Person(world, "e", group="i").ask_to_join()
    world.owner = 1
    world.coordinator.unload()
    assert joining.error is syncing.error is ErrorCode.not_coordinator
    assert world.waiting == (0, 0)
    assert len(world.timer) == 0
    assert Person(world, "f").join().error is ErrorCode.not_coordinator
    assert world.coordinator.leave("g", []) == (ErrorCode.not_coordinator, [])
    assert world.coordinator.delete("g") is ErrorCode.not_coordinator
