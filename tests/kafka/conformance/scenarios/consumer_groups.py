"""Groups of the consumer protocol (KIP-848): heartbeats, epochs, and who has which partitions."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.kafka.conformance.exchange import CLOSED
from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.world import World

_REBALANCE_MS = 60_000
_HEARTBEAT = "consumer_group_heartbeat"
DESCRIBE = "consumer_group_describe"

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
    return world.ask(step, DESCRIBE, 1, group_ids=list(groups or ("g",)))


def start(world: World, **topics: int) -> None:
    world.coordinator()
    for name, partitions in (topics or {"t": 4}).items():
        world.topic(name, partitions=partitions)


@scenario(config=AT_ONCE)
def consumer_group_of_one(world: World) -> None:
    start(world)
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
        world.ask(f"described by version 0 of {version}", DESCRIBE, 0, group_ids=[group])
        one.beat("leaves", epoch=-1)
        one.beat("leaves again", epoch=-1)
        described(world, f"empty {version}", group)
        one.beat("after it left", epoch=1)
        one.join("comes back")
        described(world, f"come back {version}", group)


@scenario(config=AT_ONCE)
def consumer_heartbeats_refused(world: World) -> None:
    start(world)
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
        world.ask("several described", DESCRIBE, version, group_ids=names)
        world.ask("none described", DESCRIBE, version, group_ids=[])
        world.ask(
            "with operations",
            DESCRIBE,
            version,
            group_ids=["g", "none"],
            include_authorized_operations=True,
        )


@scenario(config=AT_ONCE)
def consumers_share(world: World) -> None:
    start(world, t=6)
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
    start(world, t=4, u=4)
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
    start(world, t=6, u=6)
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
    start(world)
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
    start(world)
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
    start(world)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join("joins")
    two.join("one too many")
    one.join("joins again")
    one.beat("leaves", epoch=-1)
    two.join("joins now")


@scenario(config=AT_ONCE | {"group.consumer.assignors": "range"}, since=4)
def consumer_group_assignors(world: World) -> None:
    start(world)
    one = Consumer(world, "one")
    one.join("joins")
    described(world, "the default")
    one.everything("one that is not there", server_assignor="uniform")


@scenario(config={"group.consumer.assignment.interval.ms": "10000"})
def intervals_of_assignments(world: World) -> None:
    start(world)
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
