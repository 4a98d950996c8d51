"""Groups of both protocols, classic and consumer, side by side and one after the other."""

from __future__ import annotations

from tests.kafka.conformance.scenarios.commits import commit
from tests.kafka.conformance.scenarios.consumer_groups import (
    AT_ONCE,
    DESCRIBE,
    Consumer,
    described,
    start,
)
from tests.kafka.conformance.scenarios.groups import join, member_of, sync
from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.world import World


@scenario(config=AT_ONCE)
def lists_of_consumer_groups(world: World) -> None:
    start(world)
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
    start(world)
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
    start(world)
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
    start(world)
    for version in (0, 1):
        one = Consumer(world, "one", version=version)
        one.join("joins")
        one.beat("beats", epoch=1)
        world.ask("described", DESCRIBE, version, group_ids=["g", "h"])
