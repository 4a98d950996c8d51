"""Groups of consumers: members, generations, what is told of them."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World

SESSION_MS = 10_000


def _subscribed(*topics: str) -> bytes:
    """What a consumer says it reads, as clients write it."""
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def join(group: str, member: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "session_timeout": SESSION_MS,
        "rebalance_timeout": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": _subscribed("t")}],
        **fields,
    }


def sync(group: str, member: str, generation: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "generation_id": generation,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member, "assignment": b"mine"}],
        **fields,
    }


def member_of(world: World, group: str, client: str = "conformance") -> str:
    """The only member of a stable group; no step."""
    exchange = world.exchange(1, client)
    asked = exchange.ask("join_group", 5, **join(group))
    member = str(asked["member_id"])
    assert exchange.ask("join_group", 5, **join(group, member))["error_code"] == 0
    assert exchange.ask("sync_group", 3, **sync(group, member))["error_code"] == 0
    return member


@scenario()
def coordinators(world: World) -> None:
    world.coordinator()
    world.setup(
        lambda answer: answer["error_code"] == 0, "find_coordinator", 2, key="x", key_type=1
    )
    for version in versions("find_coordinator"):
        for step, key, kind in (
            ("a group", "g", 0),
            ("no group", "", 0),
            ("a transactional id", "x", 1),
            ("no transactional id", "", 1),
            ("an unknown type", "g", 7),
        ):
            fields = {"key": key, "key_type": kind, "coordinator_keys": [key, "other"]}
            world.ask(step, "find_coordinator", version, **fields)


@scenario()
def joins(world: World) -> None:
    world.coordinator()
    for version in versions("join_group"):
        group = f"g{version}"
        first = world.ask("first", "join_group", version, **join(group))
        member = first["member_id"]
        if version >= 4:
            world.ask("with its id", "join_group", version, **join(group, member))
        world.ask("again", "join_group", version, **join(group, member))
        other = min(version, 5)
        world.ask(f"synced after {version}", "sync_group", other, **sync(group, member))
        beat = {"group_id": group, "generation_id": 1, "member_id": member}
        world.ask(f"heartbeat after {version}", "heartbeat", min(version, 4), **beat)
        for step, fields in {
            "an unknown member": join(group, "nobody"),
            "of an unknown group": join(f"none{version}", "nobody"),
            "no group": join(""),
            "no protocols": join(group, protocols=[]),
            "another type": join(group, protocol_type="connect"),
            "no type": join(group, protocol_type=""),
            "another protocol": join(group, protocols=[{"name": "x", "metadata": b""}]),
            "a session too short": join(group, session_timeout=10),
            "a session too long": join(group, session_timeout=10_000_000),
            "an empty group without protocols": join(f"bare{version}", protocols=[]),
            "an empty group without type": join(f"bare{version}", protocol_type=""),
        }.items():
            world.ask(step, "join_group", version, **fields)


@scenario()
def syncs(world: World) -> None:
    world.coordinator()
    for version in versions("sync_group"):
        group = f"g{version}"
        member = member_of(world, group)
        for step, fields in {
            "synced again": sync(group, member),
            "an unknown member": sync(group, "nobody"),
            "an old generation": sync(group, member, 0),
            "a generation to come": sync(group, member, 2),
            "an unknown group": sync("none", member),
            "no group": sync("", member),
            "another type": sync(group, member, protocol_type="connect"),
            "another protocol": sync(group, member, protocol_name="x"),
            "no type": sync(group, member, protocol_type=None),
            "an unknown instance": sync(group, member, group_instance_id="i"),
        }.items():
            world.ask(step, "sync_group", version, **fields)


@scenario()
def heartbeats(world: World) -> None:
    world.coordinator()
    for version in versions("heartbeat"):
        group = f"g{version}"
        member = member_of(world, group)
        for step, name, generation, who in (
            ("alive", group, 1, member),
            ("an old generation", group, 0, member),
            ("a generation to come", group, 2, member),
            ("no generation", group, -1, member),
            ("an unknown member", group, 1, "nobody"),
            ("no member", group, 1, ""),
            ("an unknown group", "none", 1, member),
            ("no group", "", 1, member),
        ):
            fields = {"group_id": name, "generation_id": generation, "member_id": who}
            world.ask(step, "heartbeat", version, **fields)
        instance = {"group_instance_id": "i", "generation_id": 1, "member_id": member}
        if version >= 3:
            world.ask("an unknown instance", "heartbeat", version, group_id=group, **instance)


@scenario()
def leaves(world: World) -> None:
    world.coordinator()
    for version in versions("leave_group"):
        group = f"g{version}"
        member = member_of(world, group)

        def left(name: str, *who: str, instance: str | None = None) -> Any:
            rows = [{"member_id": one, "group_instance_id": instance} for one in who]
            return {"group_id": name, "member_id": who[0], "members": rows}

        for step, fields in {
            "an unknown member": left(group, "nobody"),
            "an unknown group": left("none", member),
            "no group": left("", member),
            "no member": left(group, ""),
            "an unknown instance": left(group, member, instance="i"),
            "it goes": left(group, member),
            "it goes again": left(group, member),
        }.items():
            world.ask(step, "leave_group", version, **fields)
        if version >= 3:
            other = member_of(world, f"two{version}")
            two = left(f"two{version}", other, "nobody", other)
            world.ask("several", "leave_group", version, **two)
            world.ask("none", "leave_group", version, group_id=group, members=[])


@scenario()
def two_members(world: World) -> None:
    world.coordinator()
    first = member_of(world, "g", "one")
    asked = world.ask("a second", "join_group", 5, client="two", **join("g"))
    second = asked["member_id"]
    world.send("join_group", 5, client="two", **join("g", second))
    world.waits("it waits for the first", client="two")
    beat = {"group_id": "g", "generation_id": 1, "member_id": first}
    world.ask("the first hears of it", "heartbeat", 3, client="one", **beat)
    world.ask("it cannot sync now", "sync_group", 3, client="one", **sync("g", first))
    described = {"groups": ["g"]}
    world.ask("while it rebalances", "describe_groups", 5, **described)
    world.ask("in the list", "list_groups", 4, states_filter=[])
    commit = {
        "group_id": "g",
        "generation_id_or_member_epoch": 1,
        "member_id": first,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    }
    world.ask("a commit while it rebalances", "offset_commit", 7, client="one", **commit)
    world.ask("the first joins", "join_group", 5, client="one", **join("g", first))
    world.receive("the second has joined", client="two")
    world.ask("joined", "describe_groups", 5, **described)
    world.ask("in the list, joined", "list_groups", 4, states_filter=[])
    commit["generation_id_or_member_epoch"] = 2
    world.ask("a commit before the sync", "offset_commit", 7, client="one", **commit)
    world.send("sync_group", 3, client="two", **sync("g", second, 2, assignments=[]))
    world.waits("the second waits for the leader", client="two")
    beat = {"group_id": "g", "generation_id": 2, "member_id": second}
    world.ask("a heartbeat meanwhile", "heartbeat", 3, client="three", **beat)
    assigned = [
        {"member_id": first, "assignment": b"a"},
        {"member_id": second, "assignment": b"b"},
    ]
    fields = sync("g", first, 2, assignments=assigned)
    world.ask("the leader syncs", "sync_group", 3, client="one", **fields)
    world.receive("the second has its part", client="two")
    world.ask("stable", "describe_groups", 5, **described)
    fields = sync("g", second, 2, assignments=assigned)
    world.ask("the second asks again", "sync_group", 3, client="two", **fields)
    world.ask("it joins again", "join_group", 5, client="two", **join("g", second))
    other = join("g", second, protocols=[{"name": "range", "metadata": b"other"}])
    world.send("join_group", 5, client="two", **other)
    world.waits("with another subscription it waits", client="two")
    leave = {"group_id": "g", "members": [{"member_id": first, "group_instance_id": None}]}
    world.ask("the first goes", "leave_group", 3, client="one", **leave)
    world.receive("so the second leads", client="two")
    world.ask("now it is alone", "describe_groups", 5, **described)
    leave = {"group_id": "g", "members": [{"member_id": second, "group_instance_id": None}]}
    world.ask("it goes too", "leave_group", 3, client="two", **leave)
    world.ask("empty", "describe_groups", 5, **described)
    world.ask("empty, in the list", "list_groups", 4, states_filter=[])


@scenario()
def static_members(world: World) -> None:
    world.coordinator()
    static: dict[str, Any] = {"group_instance_id": "i"}
    for version in versions("join_group", 5):
        group = f"g{version}"
        first = world.ask("first", "join_group", version, **join(group, **static))
        member = first["member_id"]
        fields = sync(group, member, **static)
        world.ask(f"synced after {version}", "sync_group", 3, **fields)
        returned = world.ask("it returns", "join_group", version, **join(group, **static))
        new = returned["member_id"]
        old = {"group_id": group, "generation_id": 1, "member_id": member, **static}
        world.ask(f"the old one after {version}", "heartbeat", 3, **old)
        now = {"group_id": group, "generation_id": 1, "member_id": new, **static}
        world.ask(f"the new one after {version}", "heartbeat", 3, **now)
        world.ask("the old one joins", "join_group", version, **join(group, member, **static))
        world.ask(
            "an unknown one", "join_group", version, **join(group, new, group_instance_id="j")
        )
        fields = sync(group, member, **static)
        world.ask(f"the old one syncs after {version}", "sync_group", 3, **fields)
        world.ask(f"described after {version}", "describe_groups", 5, groups=[group])
        leave = {"group_id": group, "members": [{"member_id": "", **static}]}
        world.ask(f"it goes by its name after {version}", "leave_group", 3, **leave)
        world.ask(f"nobody is left after {version}", "describe_groups", 5, groups=[group])


@scenario()
def group_lists(world: World) -> None:
    world.coordinator()
    world.topic("t")
    member_of(world, "stable")
    commit = {
        "group_id": "offsets",
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    }
    world.ask("a group of offsets only", "offset_commit", 7, **commit)
    for version in versions("describe_groups"):
        names = ["stable", "offsets", "none", ""]
        world.ask("described", "describe_groups", version, groups=names)
        world.ask("nothing", "describe_groups", version, groups=[])
        if version >= 3:
            world.ask(
                "with operations",
                "describe_groups",
                version,
                groups=["stable", "none"],
                include_authorized_operations=True,
            )
    for version in versions("list_groups"):
        world.ask("all", "list_groups", version)
        if version >= 4:
            for state in ("Stable", "stable", "Empty", "Dead", "nonsense"):
                world.ask(f"in state {state}", "list_groups", version, states_filter=[state])
    for kind in ("classic", "Classic", "consumer", "nonsense"):
        world.ask(f"of type {kind}", "list_groups", 5, types_filter=[kind])
    for version in versions("delete_groups"):
        world.ask("deleted", "delete_groups", version, groups_names=["stable", "none", ""])
    world.ask("deleted, offsets only", "delete_groups", 2, groups_names=["offsets"])
    world.ask("deleted again", "delete_groups", 2, groups_names=["offsets"])
    world.ask("nothing deleted", "delete_groups", 2, groups_names=[])


@scenario(config={"offset.metadata.max.bytes": "20", "group.max.size": "1"})
def group_limits(world: World) -> None:
    world.coordinator()
    world.topic("t")
    member_of(world, "g")
    world.ask("a member too many", "join_group", 5, client="two", **join("g"))
    for size in (20, 21):
        row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "x" * size}
        fields = {
            "group_id": "h",
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": "t", "partitions": [row]}],
        }
        world.ask(f"metadata of {size} bytes", "offset_commit", 7, **fields)
