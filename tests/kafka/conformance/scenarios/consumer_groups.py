"""Groups of the consumer protocol (KIP-848): heartbeats, epochs, and who has which partitions."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.kafka.conformance.exchange import CLOSED
from tests.kafka.conformance.scenarios.commits import commit
from tests.kafka.conformance.scenarios.groups import join, member_of, sync
from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.scenarios.transactions import Producer
from tests.kafka.conformance.world import World

_REBALANCE_MS = 60_000
_HEARTBEAT = "consumer_group_heartbeat"
_DESCRIBE = "consumer_group_describe"

#: A target is computed at once, not at most once a second.
AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}
_SHORT_MS = 1_500
#: Sessions that a test can wait for.
SHORT = AT_ONCE | {
    "group.consumer.session.timeout.ms": str(_SHORT_MS),
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
}


class Consumer:
    """A member: its heartbeats are steps, and it remembers its epoch and its partitions."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        group: str = "g",
        topics: Sequence[str] | None = ("t",),
        version: int = 1,
        rebalance_ms: int = _REBALANCE_MS,
        **fields: Any,
    ) -> None:
        self.world = world
        self.label = name or "it"
        self.name = name
        self.group = group
        self.version = version
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}  # topic id -> partitions
        self.full = {
            "rebalance_timeout": rebalance_ms,
            "subscribed_topic_names": topics,
            **fields,
        }
        self.always = {key: one for key, one in fields.items() if key == "instance_id"}

    def join(self, step: str, **fields: Any) -> Any:
        """Join with epoch 0 and everything it has to say."""
        self.owned = {}
        return self.beat(step, epoch=0, **{**self.full, "topic_partitions": [], **fields})

    def beat(self, step: str, *, epoch: int | None = None, **fields: Any) -> Any:
        """A heartbeat with nothing but these fields."""
        answer = self.world.ask(
            f"{self.label}: {step}",
            _HEARTBEAT,
            self.version,
            **{
                "group_id": self.group,
                "member_id": self.name,
                "member_epoch": self.epoch if epoch is None else epoch,
                **self.always,
                **fields,
            },
        )
        if answer != CLOSED and answer["error_code"] == 0:
            self.name = answer["member_id"]
            self.epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                self.owned = {
                    row["topic_id"]: row["partitions"]
                    for row in answer["assignment"]["topic_partitions"]
                }
        return answer

    def own(self, step: str, **fields: Any) -> Any:
        """A heartbeat that names the partitions it was last given."""
        return self.beat(step, topic_partitions=owned(self.owned), **fields)

    def everything(self, step: str, **fields: Any) -> Any:
        """A full heartbeat, as after a lost answer."""
        return self.own(step, **{**self.full, **fields})


def owned(partitions: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    return [
        {"topic_id": uuid.UUID(str(topic_id)), "partitions": list(some)}
        for topic_id, some in partitions.items()
    ]


def described(world: World, step: str, *groups: str) -> Any:
    return world.ask(step, _DESCRIBE, 1, group_ids=list(groups or ("g",)))


def _start(world: World, **topics: int) -> None:
    world.coordinator()
    for name, partitions in (topics or {"t": 4}).items():
        world.topic(name, partitions=partitions)


@scenario(config=AT_ONCE)
def consumer_group_of_one(world: World) -> None:
    _start(world)
    for version in (0, 1):
        group = f"g{version}"
        one = Consumer(world, "one" if version else "", group=group, version=version)
        one.join("joins")
        described(world, f"just joined {version}", group)
        one.beat("nothing new")
        one.own("names its partitions")
        one.everything("everything")
        one.everything("an assignor", server_assignor="range")
        described(world, f"with an assignor {version}", group)
        one.beat("no topics", subscribed_topic_names=[])
        one.beat("no topics still")
        one.own("gave them up")
        described(world, f"without topics {version}", group)
        one.beat("topics again", subscribed_topic_names=["t"])
        one.beat("the epoch before", epoch=one.epoch - 1)
        one.own("the epoch before, owned", epoch=one.epoch - 1)
        one.beat("two epochs before", epoch=one.epoch - 2)
        one.beat("an epoch to come", epoch=one.epoch + 1)
        one.join("joins again")
        world.ask(f"described by version 0 of {version}", _DESCRIBE, 0, group_ids=[group])
        one.beat("leaves", epoch=-1)
        one.beat("leaves again", epoch=-1)
        described(world, f"empty {version}", group)
        one.beat("after it left", epoch=1)
        one.join("comes back")
        described(world, f"come back {version}", group)


@scenario(config=AT_ONCE)
def consumer_heartbeats_refused(world: World) -> None:
    _start(world)
    valid: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": _REBALANCE_MS,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    some = [{"topic_id": uuid.UUID(world.topic_ids["t"]), "partitions": [0]}]
    unknown = [{"topic_id": uuid.UUID(int=7), "partitions": [0]}]
    for version in (0, 1):
        cases: dict[str, dict[str, Any]] = {
            "no group": {"group_id": ""},
            "a blank group": {"group_id": " "},
            "no member": {"member_id": ""},
            "no rebalance timeout": {"rebalance_timeout": -1},
            "no topics": {"subscribed_topic_names": None},
            "no owned partitions": {"topic_partitions": None},
            "owned partitions": {"topic_partitions": some},
            "an unknown assignor": {"server_assignor": "mine"},
            "an empty assignor": {"server_assignor": ""},
            "an empty instance": {"instance_id": ""},
            "an empty rack": {"rack_id": ""},
            "epoch -2 without instance": {"member_epoch": -2},
            "epoch -3": {"member_epoch": -3},
            "leaves an unknown group": {"member_epoch": -1},
            "an unknown group": {"member_epoch": 1},
            "an unknown group, static": {"member_epoch": 1, "instance_id": "i"},
            "an unknown group goes for a while": {"member_epoch": -2, "instance_id": "i"},
        }
        for step, fields in cases.items():
            world.ask(step, _HEARTBEAT, version, **{**valid, **fields})
    regexes: dict[str, dict[str, Any]] = {
        "a regex": {"subscribed_topic_regex": "t", "subscribed_topic_names": None},
        "not a regex": {"subscribed_topic_regex": "(", "subscribed_topic_names": None},
        "a regex that looks ahead": {"subscribed_topic_regex": "(?=t)t"},
        "a regex that refers back": {"subscribed_topic_regex": r"(t)\1"},
        "an empty regex": {"subscribed_topic_regex": "", "subscribed_topic_names": None},
        "a regex and names": {"subscribed_topic_regex": "t.*"},
    }
    for step, fields in regexes.items():
        name = step.replace(" ", "-")
        world.ask(step, _HEARTBEAT, 1, **{**valid, "group_id": name, **fields})
        world.advance(500)  # Kafka resolves a regex on a thread of its own
        described(world, f"described: {step}", name)
    world.ask("fine", _HEARTBEAT, 1, **valid)
    for step, fields in {
        "another member": {"member_id": "other", "member_epoch": 1},
        "another member leaves": {"member_id": "other", "member_epoch": -1},
        "a static one of that name": {"instance_id": "i", "member_epoch": 1},
        "a static one leaves": {"instance_id": "i", "member_epoch": -1},
        "a static one goes for a while": {"instance_id": "i", "member_epoch": -2},
        "an unknown topic is owned": {"member_epoch": 1, "topic_partitions": unknown},
        "an unknown assignor later": {"member_epoch": 1, "server_assignor": "mine"},
        "a topic that is not there": {"member_epoch": 1, "subscribed_topic_names": ["u"]},
    }.items():
        world.ask(step, _HEARTBEAT, 1, **{**valid, **fields})
    for version in (0, 1):
        names = ["g", "none", ""]
        world.ask("several described", _DESCRIBE, version, group_ids=names)
        world.ask("none described", _DESCRIBE, version, group_ids=[])
        world.ask(
            "with operations",
            _DESCRIBE,
            version,
            group_ids=["g", "none"],
            include_authorized_operations=True,
        )


@scenario(config=AT_ONCE)
def consumers_share(world: World) -> None:
    _start(world, t=6)
    one, two, three = (Consumer(world, name) for name in ("one", "two", "three"))
    one.join("joins")
    two.join("joins")
    described(world, "the second waits")
    two.beat("waits")
    one.beat("hears of it")
    described(world, "the first has to give up")
    one.beat("hears nothing new")
    one.everything("asks for everything")
    two.beat("waits still")
    one.own("gives up")
    described(world, "the first gave up")
    two.beat("has its part")
    two.own("owns it")
    described(world, "both are stable")
    three.join("joins")
    one.beat("hears of the third")
    one.own("gives up again")
    three.beat("has one part")
    described(world, "the second is late")
    two.beat("hears of the third")
    two.own("gives up")
    three.beat("has all its parts")
    described(world, "three are stable")
    one.beat("leaves", epoch=-1)
    two.beat("hears that the first left")
    three.beat("hears that the first left")
    described(world, "two are left")
    two.own("owns more")
    three.own("owns more")
    two.beat("subscribes to nothing", subscribed_topic_names=[])
    three.beat("waits for the second")
    described(world, "the second gives up all")
    two.own("gave up all")
    three.beat("has all")
    described(world, "the third has all")


@scenario(config=AT_ONCE)
def consumers_with_other_subscriptions(world: World) -> None:
    _start(world, t=4, u=4)
    one = Consumer(world, "one", topics=("t",))
    two = Consumer(world, "two", topics=("u",))
    one.join("joins")
    two.join("joins")
    described(world, "each has its topic")
    one.beat("hears of the second")
    described(world, "each has its topic, stable")
    one.beat("reads the other topic", subscribed_topic_names=["u"])
    described(world, "both want one topic")
    one.own("gave up its topic")
    two.beat("hears that the topic is shared")
    two.own("gives up half")
    one.beat("has its half")
    described(world, "they share a topic")


@scenario(config=AT_ONCE)
def consumers_by_range(world: World) -> None:
    _start(world, t=6, u=6)
    world.number(*world.topic_ids.values())
    fields = {"topics": ("t", "u"), "server_assignor": "range"}
    one = Consumer(world, "one", **fields)  # type: ignore[arg-type]
    two = Consumer(world, "two", **fields)  # type: ignore[arg-type]
    three = Consumer(world, "three", **fields)  # type: ignore[arg-type]
    one.join("joins")
    two.join("joins")
    described(world, "two")
    one.beat("hears of the second")
    one.own("gives up")
    two.beat("has its part")
    described(world, "two, stable")
    three.join("joins")
    described(world, "three")


@scenario(config=AT_ONCE)
def static_consumers(world: World) -> None:
    _start(world)
    one = Consumer(world, "one", instance_id="i")
    again = Consumer(world, "again", instance_id="i")
    other = Consumer(world, "other", instance_id="j")
    one.join("joins")
    one.beat("alive")
    again.join("joins while the first is alive")
    other.join("joins")
    one.beat("hears of the other")
    one.own("gives up")
    other.beat("has its part")
    described(world, "two static members")
    one.beat("goes for a while", epoch=-2)
    described(world, "one is away")
    one.beat("is it there", epoch=2)
    other.beat("nothing new while the first is away")
    again.join("takes its place")
    described(world, "it is back")
    one.beat("the first is fenced", epoch=2)
    one.beat("the first cannot leave", epoch=-1)
    one.beat("the first cannot go for a while", epoch=-2)
    again.beat("alive")
    again.beat("without its instance", instance_id=None)
    again.beat("goes for a while", epoch=-2)
    third = Consumer(world, "third", instance_id="i", topics=("t", "u"))
    third.join("comes with another subscription")
    described(world, "back with another subscription")
    third.beat("leaves for good", epoch=-1)
    described(world, "one has left")
    leave = {"group_id": "g", "members": [{"member_id": "", "group_instance_id": "j"}]}
    world.ask("the other is removed by its name", "leave_group", 5, **leave)
    described(world, "after the removal")


@scenario(config=SHORT)
def sessions_of_consumers(world: World) -> None:
    _start(world)
    one = Consumer(world, "one", rebalance_ms=3_000)
    two = Consumer(world, "two", rebalance_ms=3_000)
    one.join("joins")
    world.advance(_SHORT_MS * 6 // 10)
    one.beat("in time")
    world.advance(_SHORT_MS * 6 // 10)
    one.beat("in time again")
    described(world, "alive")
    world.advance(_SHORT_MS * 2)
    described(world, "its session is over")
    one.beat("after its session")
    one.join("joins once more")
    two.join("joins")
    one.beat("hears of the second")
    for _ in range(8):
        # It waits for the first one, which sends heartbeats and does not give up.
        world.advance(_SHORT_MS * 3 // 10)
        for member in (two, one):
            fields = {"member_id": member.name, "member_epoch": member.epoch}
            answer = world.exchange(1, "keep").ask(_HEARTBEAT, 1, group_id="g", **fields)
            if answer != CLOSED and answer["error_code"] == 0:
                member.epoch = answer["member_epoch"]
    described(world, "the first did not give up in time")
    one.beat("too late")
    two.beat("alive")
    static = Consumer(world, "static", instance_id="i", group="h")
    static.join("joins")
    static.beat("goes for a while", epoch=-2)
    described(world, "a static one is away", "h")
    world.advance(_SHORT_MS * 2)
    described(world, "it did not come back", "h")


@scenario(config=AT_ONCE | {"group.consumer.max.size": "1"})
def consumer_group_limits(world: World) -> None:
    _start(world)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join("joins")
    two.join("one too many")
    one.join("joins again")
    one.beat("leaves", epoch=-1)
    two.join("joins now")


@scenario(config=AT_ONCE | {"group.consumer.assignors": "range"}, since=4)
def consumer_group_assignors(world: World) -> None:
    _start(world)
    one = Consumer(world, "one")
    one.join("joins")
    described(world, "the default")
    one.everything("one that is not there", server_assignor="uniform")


@scenario(config={"group.consumer.assignment.interval.ms": "10000"})
def intervals_of_assignments(world: World) -> None:
    _start(world)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join("joins")
    two.join("joins")
    described(world, "too early for another target")
    one.beat("nothing new yet")
    two.beat("nothing new yet")
    world.advance(10_500)
    described(world, "nobody has asked")
    one.beat("a new target")
    described(world, "the new target")
    one.own("gives up")
    two.beat("has its part")
    described(world, "stable")


@scenario(config=AT_ONCE)
def topics_of_consumers(world: World) -> None:
    _start(world)
    one = Consumer(world, "one", topics=("t", "u"))
    one.join("joins")
    one.own("owns them")
    more = {"topics": [{"name": "t", "count": 6, "assignments": None}], "timeout": 10_000}
    world.exchange(1, "setup").ask("create_partitions", 3, **more)
    world.setup(
        lambda answer: len(answer["topics"][0]["partitions"]) == 6,
        "metadata",
        12,
        topics=[{"name": "t"}],
    )
    world.advance(500)
    described(world, "partitions were added")
    one.beat("hears of the partitions")
    described(world, "the partitions are assigned")
    world.topic("u", partitions=2)
    world.advance(500)
    described(world, "a topic was created")
    one.beat("hears of the topic")
    one.own("owns it")
    world.exchange(1, "setup").ask("delete_topics", 5, topic_names=["t"], timeout=10_000)
    world.setup(
        lambda answer: answer["topics"][0]["error_code"] == 3,
        "metadata",
        12,
        topics=[{"name": "t"}],
        allow_auto_topic_creation=False,
    )
    world.advance(500)
    described(world, "a topic was deleted")
    one.beat("hears of the deletion")
    described(world, "the deleted topic is given up")
    one.own("gave it up")
    described(world, "without the deleted topic")


@scenario(config=AT_ONCE)
def regexes_of_consumers(world: World) -> None:
    _start(world, topic=2, other=2)
    one = Consumer(world, "one", topics=None, subscribed_topic_regex="to.*")
    one.join("joins")
    world.advance(500)
    described(world, "it is resolved")
    one.beat("has its topic")
    described(world, "it has its topic")
    two = Consumer(world, "two", topics=None, subscribed_topic_regex="to.*")
    two.join("joins with the same")
    described(world, "two with the same")
    one.beat("hears of the second")
    one.own("gives up")
    two.beat("has its part")
    two.beat("leaves", epoch=-1)
    one.beat("has all")
    one.own("owns all")
    one.beat("another regex", subscribed_topic_regex="o.*r")
    world.advance(500)
    described(world, "another regex")
    one.own("gave up the topic")
    world.advance(500)
    described(world, "the other regex is resolved")
    one.beat("has the other topic")
    described(world, "it has the other topic")
    world.topic("nope", partitions=1)
    world.topic("outer", partitions=1)
    one.beat("too early for new topics")
    world.advance(500)
    one.beat("nothing new yet")
    world.advance(10_500)
    one.beat("ten seconds later")
    world.advance(500)
    described(world, "a topic matches")
    one.beat("has the topic")
    described(world, "it has both topics")
    one.beat("names and a regex", subscribed_topic_names=["topic"])
    described(world, "names and a regex")
    one.beat("no regex", subscribed_topic_regex="")
    described(world, "no regex")


@scenario(config=AT_ONCE)
def offsets_of_consumers(world: World) -> None:
    _start(world, t=6)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join("joins")
    two.join("joins")
    one.beat("hears of the second")
    one.own("gives up")
    two.beat("has its part")

    def commits(step: str, **fields: Any) -> None:
        mine = {"generation": one.epoch, "member_id": "one", "partitions": (0, 3), **fields}
        for version in (8, 9):
            world.ask(step, "offset_commit", version, **commit("g", **mine))

    commits("commits")
    commits("the epoch before", generation=one.epoch - 1)
    commits("an epoch to come", generation=one.epoch + 1)
    commits("an unknown member", member_id="nobody")
    commits("no epoch", generation=-1)
    commits("no epoch, no member", generation=-1, member_id="")
    commits("an instance", group_instance_id="i")
    none = commit("none", generation=1, member_id="one")
    world.ask("no such group", "offset_commit", 9, **none)

    def fetches(step: str, group: str = "g", **fields: Any) -> None:
        topics = [{"name": "t", "partition_indexes": [0, 3]}]
        row = {"group_id": group, "topics": topics, **fields}
        world.ask(step, "offset_fetch", 9, groups=[row])

    fetches("fetched by nobody")
    fetches("fetched", member_id="one", member_epoch=one.epoch)
    fetches("fetched with the epoch before", member_id="one", member_epoch=one.epoch - 1)
    fetches("fetched with an epoch to come", member_id="one", member_epoch=one.epoch + 1)
    fetches("fetched by an unknown member", member_id="nobody", member_epoch=1)
    fetches("fetched by a member without epoch", member_id="one", member_epoch=-1)
    fetches("fetched of no group", "none", member_id="one", member_epoch=1)
    fetches("fetched of no group by nobody", "none")
    three = Consumer(world, "three")
    three.join("joins")
    one.beat("hears of the third")
    one.own("is in the next epoch")
    commits("an epoch later")
    commits("the epoch before again", generation=one.epoch - 1)
    commits("the first epoch", generation=1)
    commits("its own, the epoch before", generation=one.epoch - 1, partitions=(0, 1))
    commits("its own, the epoch of the assignment", generation=2, partitions=(0,))
    commits("its own, an epoch too early", generation=1, partitions=(0,))
    commits("what it gave up, the epoch before", generation=one.epoch - 1, partitions=(2,))
    commits("what it gave up", partitions=(2,))
    deletes = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    world.ask("deleted while it is read", "offset_delete", 0, group_id="g", topics=deletes)

    producer = Producer(world, "x")
    world.exchange(1, "setup").ask("add_offsets_to_txn", 3, **producer.owner, group_id="g")

    def in_transaction(step: str, **fields: Any) -> None:
        mine = {"member_id": "one", "generation_id": one.epoch, **fields}
        asked = {**commit("g", 7, partitions=(1,)), **producer.owner, **mine}
        for version in (3, 4):
            world.ask(step, "txn_offset_commit", version, **asked)

    in_transaction("in a transaction")
    in_transaction("in a transaction, the epoch before", generation_id=one.epoch - 1)
    in_transaction("in a transaction, to come", generation_id=one.epoch + 1)
    in_transaction("in a transaction, nobody", member_id="nobody")
    in_transaction("in a transaction, no member", member_id="", generation_id=-1)
    for member in (one, two, three):
        member.beat("leaves", epoch=-1)
    commits("nobody is left", generation=-1, member_id="")
    commits("nobody is left, a member", generation=1)
    world.ask("deleted", "offset_delete", 0, group_id="g", topics=deletes)


@scenario(config=AT_ONCE)
def lists_of_consumer_groups(world: World) -> None:
    _start(world)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join("joins")
    Consumer(world, "one", group="empty").join("joins and")
    Consumer(world, "one", group="empty").beat("leaves", epoch=-1)
    member_of(world, "classic")
    for version in (3, 4, 5):
        world.ask("all", "list_groups", version)
    for kind in ("classic", "consumer", "Consumer", "nonsense"):
        world.ask(f"of type {kind}", "list_groups", 5, types_filter=[kind])
    for state in ("Stable", "Empty", "Assigning", "reconciling"):
        world.ask(f"in state {state}", "list_groups", 5, states_filter=[state])
    two.join("joins")
    world.ask("while it reconciles", "list_groups", 5)
    world.ask("reconciling", "list_groups", 5, states_filter=["reconciling"])
    names = ["g", "empty", "classic"]
    for version in (4, 5):
        world.ask("described as classic", "describe_groups", version, groups=names)
    described(world, "described", *names)
    for version in (1, 2):
        world.ask("deleted", "delete_groups", version, groups_names=[*names, "none"])
    world.ask("after the deletion", "list_groups", 5)
    described(world, "deleted, described", "empty")


@scenario(config=AT_ONCE)
def protocols_of_empty_groups(world: World) -> None:
    _start(world)
    member = member_of(world, "g")
    leave = {"group_id": "g", "members": [{"member_id": member, "group_instance_id": None}]}
    world.ask("the classic one leaves", "leave_group", 3, **leave)
    world.ask("an offset", "offset_commit", 7, **commit("g"))
    one = Consumer(world, "one")
    one.join("joins")
    described(world, "it is a consumer group")
    world.ask("in the list", "list_groups", 5)
    topics = [{"name": "t", "partition_indexes": [0]}]
    row = {"group_id": "g", "topics": topics, "member_id": "one", "member_epoch": one.epoch}
    world.ask("the offset stays", "offset_fetch", 9, groups=[row])
    beat = {"group_id": "g", "generation_id": 1, "member_id": member}
    world.ask("a classic heartbeat", "heartbeat", 4, **beat)
    world.ask("a classic sync", "sync_group", 5, **sync("g", member))
    world.ask("a classic leave", "leave_group", 4, **leave)
    other = [{"name": "x", "metadata": b""}]
    world.ask("another type", "join_group", 5, **join("g", protocol_type="connect"))
    mine = {"generation_id": one.epoch, "group_id": "g", "member_id": "one"}
    world.ask("its classic heartbeat", "heartbeat", 4, **mine)
    named = {"group_id": "g", "members": [{"member_id": "one", "group_instance_id": None}]}
    world.ask("its classic leave", "leave_group", 4, **named)
    one.join("joins again")
    one.beat("leaves", epoch=-1)
    first = world.ask("a classic one joins", "join_group", 5, **join("g"))
    second = join("g", first["member_id"])
    world.ask("a classic one has joined", "join_group", 5, **second)
    world.ask("described as classic", "describe_groups", 5, groups=["g"])
    described(world, "no longer a consumer group")
    world.ask("in the list again", "list_groups", 5)
    world.ask("the offset is there", "offset_fetch", 9, groups=[{"group_id": "g", "topics": None}])
    offsets = commit("simple")
    world.ask("a group of offsets", "offset_commit", 7, **offsets)
    Consumer(world, "one", group="simple").join("joins a group of offsets")
    described(world, "a group of offsets", "simple")
    connect = join("connect", protocol_type="connect", protocols=other)
    joined = world.ask("a group of connect", "join_group", 3, **connect)
    assert joined["error_code"] == 0
    Consumer(world, "one", group="connect").join("joins a group of connect")


@scenario(config=AT_ONCE)
def members_of_both_protocols(world: World) -> None:
    _start(world)
    exchange = world.exchange(1, "conformance")
    member = exchange.ask("join_group", 3, **join("classic"))["member_id"]
    numbers = b"".join(number.to_bytes(4, "big") for number in range(4))
    all_of_t = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\4" + numbers + b"\xff\xff\xff\xff"
    assigned = [{"member_id": member, "assignment": all_of_t}]
    exchange.ask("sync_group", 3, **sync("classic", member, assignments=assigned))
    Consumer(world, "one", group="classic").join("joins classic members")
    Consumer(world, "one", group="consumer").join("joins alone")
    world.ask("joins consumers", "join_group", 3, **join("consumer"))


@scenario(config={"group.coordinator.rebalance.protocols": "classic"})
def classic_protocol_only(world: World) -> None:
    _start(world)
    for version in (0, 1):
        one = Consumer(world, "one", version=version)
        one.join("joins")
        one.beat("beats", epoch=1)
        world.ask("described", _DESCRIBE, version, group_ids=["g", "h"])
