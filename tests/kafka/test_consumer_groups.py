"""Consumer groups on a clock moved by hand: sessions, revocations, moves, settings."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.groups import State
from sojourn.kafka.groups.consumer.config import ConsumerGroupConfig
from sojourn.kafka.groups.consumer.member import AWAY
from sojourn.kafka.groups.consumer.regexes import compiled
from sojourn.kafka.groups.store import CommittedOffset
from sojourn.kafka.settings.definitions import InvalidConfig
from sojourn.kafka.wire import ErrorCode
from tests.kafka.consumer_person import REBALANCE_MS, ConsumerPerson, consumer_group, settle
from tests.kafka.group_world import Person, World
from tests.kafka.wire_client import WireClient

SESSION_MS = 45_000


def world(partitions: int = 4, **settings: Any) -> World:
    """Groups, and a topic t."""
    made = World(consumers=ConsumerGroupConfig(**settings))
    made.topics.put("t", partitions)
    return made


def pair(made: World, **joining: Any) -> tuple[ConsumerPerson, ConsumerPerson]:
    """Two members that share t."""
    one, two = ConsumerPerson(made, "one", **joining), ConsumerPerson(made, "two", **joining)
    one.join()
    two.join()
    settle(one, two)
    assert consumer_group(made).state is State.STABLE
    return one, two


def test_a_member_that_is_not_heard_of_for_a_session_is_removed() -> None:
    made = world()
    one, two = pair(made)
    made.advance(SESSION_MS - 1)
    one.beat()
    made.advance(1)
    assert list(consumer_group(made).members) == ["one"]
    assert one.beat().epoch == 4
    assert one.numbers == [0, 1, 2, 3]
    assert two.error() is ErrorCode.unknown_member_id
    made.advance(SESSION_MS)
    assert consumer_group(made).state is State.EMPTY
    assert made.waiting == (0, 0)


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    made = world(session_timeout_ms=10 * REBALANCE_MS)
    one, two = ConsumerPerson(made, "one"), ConsumerPerson(made, "two")
    one.join()
    two.join()
    assert one.beat().epoch == 2
    assert made.waiting == (1, 2)
    made.advance(REBALANCE_MS - 1)
    one.beat()  # alive, and it still has what it should give up
    assert two.beat().assigned is None
    made.advance(1)
    assert list(consumer_group(made).members) == ["two"]
    two.beat()
    assert two.numbers == [0, 1, 2, 3]
    assert made.waiting == (0, 1)


@pytest.mark.parametrize("rebalance_timeout_ms", [0, -5])
def test_a_member_without_time_to_give_up_is_removed_at_once(rebalance_timeout_ms: int) -> None:
    made = world()
    one = ConsumerPerson(made, "one", rebalance_timeout_ms=rebalance_timeout_ms)
    two = ConsumerPerson(made, "two")
    one.join()
    two.join()
    one.beat()
    made.advance(0)
    assert list(consumer_group(made).members) == ["two"]


def test_a_member_that_gives_up_in_time_stays() -> None:
    made = world(session_timeout_ms=10 * REBALANCE_MS)
    one, _ = pair(made)
    assert made.waiting == (0, 2)
    made.advance(2 * REBALANCE_MS)
    assert one.beat().epoch == 3


def test_a_partition_has_no_second_owner_before_the_first_has_given_it_up() -> None:
    made = world()
    one, two = ConsumerPerson(made, "one"), ConsumerPerson(made, "two")
    one.join()
    two.join()
    one.beat()
    two.beat()
    assert two.numbers == []
    assert one.numbers == [0, 1]
    one.own()
    two.beat()
    assert two.numbers == [2, 3]


def test_a_static_member_that_is_away_keeps_its_part_for_a_session() -> None:
    made = world()
    one = ConsumerPerson(made, "one", instance_id="i")
    one.join()
    assert one.beat(epoch=AWAY).epoch == AWAY
    made.advance(SESSION_MS - 1)
    again = ConsumerPerson(made, "again", instance_id="i")
    again.join()
    assert (again.epoch, again.numbers) == (2, [0, 1, 2, 3])
    assert consumer_group(made).epoch == 2  # nobody else noticed
    assert one.error(epoch=2) is ErrorCode.fenced_instance_id
    made.advance(SESSION_MS)
    assert consumer_group(made).state is State.EMPTY
    assert made.waiting == (0, 0)


def test_a_group_goes_on_at_another_broker() -> None:
    made = world(session_timeout_ms=10 * REBALANCE_MS)
    one, two = ConsumerPerson(made, "one"), ConsumerPerson(made, "two")
    one.join()
    two.join()
    one.beat()
    other = made.start()
    made.owner = 1
    made.coordinator.unload()
    assert made.waiting == (0, 0)
    assert one.error() is ErrorCode.not_coordinator
    other.load()
    made.coordinator = other
    assert made.waiting == (1, 2)
    made.advance(REBALANCE_MS)
    assert list(consumer_group(made).members) == ["two"]
    two.beat()
    assert two.numbers == [0, 1, 2, 3]


def test_an_empty_group_goes_when_its_offsets_have_expired() -> None:
    made = world()
    one = ConsumerPerson(made, "one")
    one.join()
    committed = CommittedOffset(5)
    made.offsets.commit("g", 2, "one", None, {("t", 0): committed, ("u", 0): committed})
    made.advance(1_000)
    one.beat()
    made.coordinator.expire(keep_ms=500)
    assert set(made.store.offsets("g")) == {("t", 0)}  # its members read t
    one.leave()
    made.coordinator.expire(keep_ms=500)
    assert "g" not in made.coordinator.groups
    assert made.store.group_ids() == set()


def test_an_empty_group_can_change_its_kind_and_keeps_its_offsets() -> None:
    made = world()
    one, classic = ConsumerPerson(made, "one"), Person(made, "classic")
    one.join()
    made.offsets.commit("g", 2, "one", None, {("t", 0): CommittedOffset(5)})
    assert classic.ask_to_join().error is ErrorCode.inconsistent_group_protocol
    one.leave()
    made.stable(classic)
    assert made.group().kind == "classic"
    assert set(made.store.consumer_groups) == set()
    assert one.error(epoch=0, owned=frozenset(), **one.joining) is ErrorCode.group_id_not_found
    classic.leave()
    one.join()
    assert consumer_group(made).kind == "consumer"
    assert made.store.offsets("g")["t", 0].offset == 5
    assert set(made.store.groups) == set()


@pytest.mark.parametrize(
    "wrong",
    [
        {"rebalance_timeout_ms": None},
        {"owned": None},
        {"owned": frozenset({(UUID(int=1), 0)})},
        {"topics": None},
        {"instance_id": " "},
        {"rack_id": ""},
        {"epoch": -3},
        {"epoch": AWAY},
    ],
)
def test_a_heartbeat_that_no_group_could_accept_is_refused(wrong: dict[str, Any]) -> None:
    made = world()
    one = ConsumerPerson(made, "one")
    fields = {"epoch": 0, "owned": frozenset(), **one.joining, **wrong}
    assert one.error(**fields) is ErrorCode.invalid_request
    assert made.coordinator.groups == {}


def test_a_group_has_a_name_and_its_members_an_assignor_that_exists() -> None:
    made = world()
    assert ConsumerPerson(made, "one", group=" ").error(epoch=1) is ErrorCode.invalid_request
    assert ConsumerPerson(made, "").error(epoch=1) is ErrorCode.invalid_request
    wrong = ConsumerPerson(made, "one").error(epoch=1, assignor="mine")
    assert wrong is ErrorCode.unsupported_assignor
    one = ConsumerPerson(made, "one")
    one.join(client_id="c", client_host="/h", rack_id="r")
    assert consumer_group(made).protocol == "uniform"
    member = consumer_group(made).members["one"]
    assert (member.client_id, member.client_host, member.rack_id) == ("c", "/h", "r")


def test_a_member_that_missed_our_last_answer_may_be_an_epoch_behind() -> None:
    made = world()
    one, _ = pair(made)  # epoch 3, and 2 before that
    owned = one.owned
    assert one.error(epoch=2) is ErrorCode.fenced_member_epoch  # it has to say what it has
    assert one.error(epoch=1, owned=owned) is ErrorCode.fenced_member_epoch
    assert one.error(epoch=4, owned=owned) is ErrorCode.fenced_member_epoch
    topic_id = next(iter(owned))[0]
    more = owned | {(topic_id, 3)}
    assert one.error(epoch=2, owned=more) is ErrorCode.fenced_member_epoch
    assert one.beat(epoch=2, owned=owned).epoch == 3


def test_a_full_consumer_group_takes_nobody_in() -> None:
    made = world(max_size=1)
    one, two = ConsumerPerson(made, "one"), ConsumerPerson(made, "two")
    one.join()
    joining = {"epoch": 0, "owned": frozenset(), **two.joining}
    assert two.error(**joining) is ErrorCode.group_max_size_reached
    assert one.beat().epoch == 2


def test_tools_remove_members_by_their_id_or_their_instance() -> None:
    made = world()
    one = ConsumerPerson(made, "one")
    two = ConsumerPerson(made, "two", instance_id="i")
    for person in (one, two):
        person.join()
    removed = made.coordinator.leave(
        "g", [("one", None), ("nobody", None), ("other", "i"), ("", "i"), ("", "j")]
    )
    assert removed == (
        ErrorCode.none,
        [
            ErrorCode.none,
            ErrorCode.unknown_member_id,
            ErrorCode.fenced_instance_id,
            ErrorCode.none,
            ErrorCode.unknown_member_id,
        ],
    )
    assert consumer_group(made).state is State.EMPTY


def test_a_target_waits_for_its_interval() -> None:
    made = world(assignment_interval_ms=lambda: 1_000)
    one, two = ConsumerPerson(made, "one"), ConsumerPerson(made, "two")
    one.join()
    two.join()
    assert two.epoch == 2
    made.advance(999)
    one.beat()
    assert one.numbers == [0, 1, 2, 3]
    made.advance(1)
    one.beat()
    assert one.numbers == [0, 1]


def test_the_members_assignor_counts() -> None:
    made = world(3)
    people = [ConsumerPerson(made, name, assignor="range") for name in ("b", "a")]
    for person in people:
        person.join()
    settle(*people)
    assert [person.numbers for person in people] == [[2], [0, 1]]
    assert consumer_group(made).protocol == "range"


def test_a_regex_is_looked_at_again_ten_seconds_later() -> None:
    made = world()
    one = ConsumerPerson(made, "one", topics=frozenset(), regex="t.*")
    one.join()
    one.own()
    assert len(one.owned) == 4
    made.topics.put("t2", 1)
    made.advance(10_000)
    one.own()
    one.own()
    assert len(one.owned) == 4
    made.advance(1)
    one.own()  # this one has it looked at
    one.own()
    assert len(one.owned) == 5


def test_a_regex_is_resolved_before_a_topic_is_created() -> None:
    made = World()
    one = ConsumerPerson(made, "one", topics=frozenset(), regex="t.*")
    one.join()
    made.topics.put("t", 2)
    made.advance(10_001)
    one.own()
    one.own()
    assert one.numbers == [0, 1]


@pytest.mark.parametrize("regex", ["(", "a(?=b)", "a(?!b)", "(?<=a)b", r"(a)\1", "(?P<n>a)(?P=n)"])
def test_what_re2_does_not_have_is_refused(regex: str) -> None:
    one = ConsumerPerson(world(), "one")
    error = one.error(epoch=0, owned=frozenset(), **{**one.joining, "regex": regex})
    assert error is ErrorCode.invalid_regular_expression
    assert not one.world.coordinator.groups


@pytest.mark.parametrize(
    ("regex", "matching"),
    [
        (r"\Qa.b\E.*", {"a.b", "a.bc"}),
        ("a[[:punct:]]b", {"a.b", "a-b"}),
        ("[[:alpha:]]+", {"abc"}),
        (r"abc\z", {"abc"}),
        ("b", set()),  # the whole name has to match
        ("(?i)ABC", {"abc"}),
    ],
)
def test_regexes_are_those_of_re2(regex: str, matching: set[str]) -> None:
    names = ["a.b", "a.bc", "a-b", "abc"]
    assert {name for name in names if compiled(regex).fullmatch(name)} == matching


def test_a_commit_with_an_older_epoch_counts_for_what_the_member_kept() -> None:
    made = world(6)
    one, two = pair(made)
    three = ConsumerPerson(made, "three")
    three.join()
    settle(one, two, three)
    assert (one.epoch, one.numbers) == (4, [0, 1])

    def commit(epoch: int, partition: int) -> ErrorCode:
        offsets = {("t", partition): CommittedOffset(1)}
        (error,) = made.offsets.commit("g", epoch, "one", None, offsets).values()
        return error

    assert commit(4, 0) is ErrorCode.none
    assert commit(3, 0) is ErrorCode.none
    assert commit(3, 2) is ErrorCode.stale_member_epoch  # it gave this one up
    assert commit(1, 0) is ErrorCode.stale_member_epoch
    assert commit(5, 0) is ErrorCode.stale_member_epoch


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"group.consumer.heartbeat.interval.ms": 100}, "group.consumer.min.heartbeat.interval.ms"),
        ({"group.consumer.session.timeout.ms": 61_000}, "group.consumer.max.session.timeout.ms"),
        ({"group.consumer.assignors": "mine"}, "must list some of uniform, range"),
        (
            {
                "group.consumer.session.timeout.ms": 5_000,
                "group.consumer.min.session.timeout.ms": 1,
            },
            "less than group.consumer.session.timeout.ms",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    settings: dict[str, object], reason: str
) -> None:
    before = set(threading.enumerate())
    with pytest.raises(InvalidConfig, match=reason):
        Cluster(config=settings)
    assert set(threading.enumerate()) <= before


def test_a_group_survives_its_broker_and_its_members_need_not_rejoin() -> None:
    with Cluster(brokers=3, clock=ManualClock()) as cluster:
        cluster.create_topic("t", partitions=2)
        asked = {
            "group_id": "g",
            "member_id": "one",
            "member_epoch": 0,
            "rebalance_timeout": 1_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
        }
        coordinator = cluster.coordinator("g")
        assert coordinator is not None
        with WireClient(coordinator.host, coordinator.port) as client:
            assert client.ask("consumer_group_heartbeat", 1, **asked).member_epoch == 2
        cluster.stop_broker(coordinator.id)
        successor = cluster.coordinator("g")
        assert successor is not None
        beat = {"group_id": "g", "member_id": "one", "member_epoch": 2}
        with WireClient(successor.host, successor.port) as client:
            assert client.ask("consumer_group_heartbeat", 1, **beat).member_epoch == 2
        assert cluster.groups["g"].state is State.STABLE
        assert cluster.groups["g"].kind == "consumer"
        cluster.clock.advance(45_000)
        assert not cluster.groups["g"].members
