"""Committed offsets: written, read and deleted."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.scenarios.groups import member_of
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World


def commit(group: str, offset: int = 5, *, generation: int = -1, **more: Any) -> dict[str, Any]:
    rows = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": 3,
            "committed_metadata": more.pop("metadata", "m"),
        }
        for index in more.pop("partitions", (0,))
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "retention_time": -1,
        "topics": [{"name": more.pop("topic", "t"), "partitions": rows}],
        **more,
    }


@scenario()
def offset_commits(world: World) -> None:
    world.coordinator()
    world.topic("t", partitions=2)
    for version in versions("offset_commit"):
        group = f"g{version}"
        member = member_of(world, group)
        for step, fields in {
            "alone": commit(f"alone{version}"),
            "alone, two partitions": commit(f"alone{version}", partitions=(0, 1)),
            "null metadata": commit(f"alone{version}", metadata=None),
            "a negative offset": commit(f"alone{version}", -1),
            "an unknown partition": commit(f"alone{version}", partitions=(0, 9)),
            "an unknown topic": commit(f"alone{version}", topic="u"),
            "metadata too long": commit(f"alone{version}", metadata="x" * 5_000),
            "alone with a member": commit(f"alone{version}", member_id="nobody"),
            "a generation of no group": commit(f"none{version}", generation=1, member_id="x"),
            "no group": commit(""),
            "a member": commit(group, generation=1, member_id=member),
            "an old generation": commit(group, generation=0, member_id=member),
            "a generation to come": commit(group, generation=2, member_id=member),
            "an unknown member": commit(group, generation=1, member_id="nobody"),
            "a stranger": commit(group),
            "a member without generation": commit(group, member_id=member),
            "nothing": {**commit(group, generation=1, member_id=member), "topics": []},
        }.items():
            world.ask(step, "offset_commit", version, **fields)
        if version >= 7:
            static = commit(group, generation=1, member_id=member, group_instance_id="i")
            world.ask("an unknown instance", "offset_commit", version, **static)


@scenario()
def offset_fetches(world: World) -> None:
    world.coordinator()
    world.topic("t", partitions=2)
    exchange = world.exchange(1, "setup")
    answer = exchange.ask("offset_commit", 7, **commit("g", partitions=(0,)))
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0
    for version in versions("offset_fetch"):

        def asked(group: str, topics: Any, version: int = version) -> dict[str, Any]:
            fields = {"group_id": group, "topics": topics}
            return {"groups": [fields]} if version >= 8 else fields

        some = [
            {"name": "t", "partition_indexes": [0, 1, 9]},
            {"name": "u", "partition_indexes": [0]},
        ]
        world.ask("some", "offset_fetch", version, **asked("g", some))
        world.ask("of an unknown group", "offset_fetch", version, **asked("none", some))
        world.ask("of no group", "offset_fetch", version, **asked("", some))
        world.ask("of nothing", "offset_fetch", version, **asked("g", []))
        if version >= 2:
            world.ask("all", "offset_fetch", version, **asked("g", None))
            world.ask("all of an unknown group", "offset_fetch", version, **asked("none", None))
        if version >= 7:
            stable = asked("g", some) | {"require_stable": True}
            world.ask("stable ones", "offset_fetch", version, **stable)
        if version >= 8:
            two = {"groups": [{"group_id": one, "topics": some} for one in ("g", "none")]}
            world.ask("of two groups", "offset_fetch", version, **two)
        if version >= 9:
            fields = {"group_id": "g", "topics": some, "member_id": "nobody", "member_epoch": 1}
            world.ask("of a member", "offset_fetch", version, groups=[fields])


@scenario()
def offset_deletes(world: World) -> None:
    world.coordinator()
    world.topic("t", partitions=2)
    member_of(world, "read")
    for group in ("g", "h"):
        world.exchange(1, "setup").ask("offset_commit", 7, **commit(group))

    def deleted(group: str, topic: str, *indices: int) -> dict[str, Any]:
        rows = [{"partition_index": index} for index in indices]
        return {"group_id": group, "topics": [{"name": topic, "partitions": rows}]}

    for step, fields in {
        "one that there is": deleted("g", "t", 0),
        "one that there is not": deleted("g", "t", 1),
        "an unknown partition": deleted("h", "t", 0, 9),
        "an unknown topic": deleted("h", "u", 0),
        "an unknown group": deleted("none", "t", 0),
        "no group": deleted("", "t", 0),
        "what is being read": deleted("read", "t", 0),
        "what is not being read": deleted("read", "other", 0),
        "nothing": {"group_id": "h", "topics": []},
    }.items():
        world.ask(step, "offset_delete", 0, **fields)
    everything = {"group_id": "g", "topics": None}
    world.ask("what is left", "offset_fetch", 7, **everything)
