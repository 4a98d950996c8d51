"""Offsets that are committed in transactions."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.scenarios.commits import commit
from tests.kafka.conformance.scenarios.groups import member_of
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.scenarios.transactions import Producer, is_fine
from tests.kafka.conformance.world import World


def txn_commit(producer: Producer, group: str, offset: int = 5, **more: Any) -> dict[str, Any]:
    fields = commit(group, offset, **{k: more.pop(k) for k in _OF_COMMIT if k in more})
    return {
        **producer.owner,
        "group_id": group,
        "topics": fields["topics"],
        "generation_id": -1,
        **more,
    }


_OF_COMMIT = ("metadata", "partitions", "topic")


def _fetched(group: str, stable: bool, *partitions: int) -> dict[str, Any]:
    topics = [{"name": "t", "partition_indexes": list(partitions)}] if partitions else None
    return {"groups": [{"group_id": group, "topics": topics}], "require_stable": stable}


@scenario()
def transactional_offsets(world: World) -> None:
    world.coordinator()
    world.topic("t", partitions=2)
    for version in versions("add_offsets_to_txn"):
        producer = Producer(world, f"x{version}")
        added = producer.owner | {"group_id": "g"}
        for step, fields in {
            "a group": added,
            "the same": added,
            "an empty group": added | {"group_id": ""},
            "an older epoch": added | {"producer_epoch": -1},
            "another producer": added | {"producer_id": producer.id + 1_000},
            "an unknown id": added | {"transactional_id": "none"},
            "an empty id": added | {"transactional_id": ""},
        }.items():
            world.ask(f"added: {step}", "add_offsets_to_txn", version, **fields)
    for version in versions("txn_offset_commit"):
        producer = Producer(world, f"y{version}")
        group, members = f"g{version}", f"m{version}"
        member = member_of(world, members)
        world.ask("not added", "txn_offset_commit", version, **txn_commit(producer, group))
        for one in (group, members, f"new{version}"):
            asked = producer.owner | {"group_id": one}
            world.setup(is_fine, "add_offsets_to_txn", 3, **asked)
        known: dict[str, Any] = {"generation_id": 1, "member_id": member}
        for step, fields in {
            # Later Kafka 3.9 takes it, and then the transaction never ends.
            "a newer epoch": txn_commit(producer, group, producer_epoch=5),
            "an older epoch at first": txn_commit(producer, group, producer_epoch=-1),
            "one": txn_commit(producer, group),
            "two": txn_commit(producer, group, 6, partitions=(0, 1)),
            "an unknown partition": txn_commit(producer, group, partitions=(0, 9)),
            "an unknown topic": txn_commit(producer, group, topic="u"),
            "metadata too long": txn_commit(producer, group, metadata="x" * 5_000),
            "nothing": txn_commit(producer, group) | {"topics": []},
            "an older epoch": txn_commit(producer, group, producer_epoch=-1),
            "another producer": txn_commit(producer, group, producer_id=producer.id + 1_000),
            "an unknown id": txn_commit(producer, group, transactional_id="none"),
            "a generation of no group": txn_commit(
                producer, f"new{version}", generation_id=1, member_id="x"
            ),
            "a group with members": txn_commit(producer, members),
            "a member": txn_commit(producer, members, **known),
            "an old generation": txn_commit(producer, members, **known | {"generation_id": 0}),
            "an unknown member": txn_commit(producer, members, **known | {"member_id": "x"}),
        }.items():
            world.ask(step, "txn_offset_commit", version, **fields)
        for step, stable in (("stable", True), ("any", False)):
            asked = _fetched(group, stable, 0, 1)
            world.ask(f"{step}, before the end {version}", "offset_fetch", 8, **asked)
            asked = _fetched(group, stable)
            world.ask(f"all {step}, before the end {version}", "offset_fetch", 8, **asked)
        world.setup(is_fine, "end_txn", 3, **producer.ending(version % 2 == 0))
        producer.await_state("CompleteCommit", "CompleteAbort")
        for step, stable in (("stable", True), ("any", False)):
            asked = _fetched(group, stable, 0, 1)
            world.ask(f"{step}, after the end {version}", "offset_fetch", 8, **asked)
        asked = _fetched(members, True, 0)
        world.ask(f"of the members, after the end {version}", "offset_fetch", 8, **asked)
        world.ask("after its end", "txn_offset_commit", version, **txn_commit(producer, group))


@scenario()
def offsets_of_several_transactions(world: World) -> None:
    world.coordinator()
    world.topic("t", partitions=4)
    one, two = Producer(world, "one"), Producer(world, "two")

    def pend(producer: Producer, offset: int, *partitions: int) -> None:
        asked = producer.owner | {"group_id": "g"}
        world.setup(is_fine, "add_offsets_to_txn", 3, **asked)
        world.setup(
            lambda _: True,
            "txn_offset_commit",
            3,
            **txn_commit(producer, "g", offset, partitions=partitions),
        )

    def outside(offset: int, *partitions: int) -> None:
        world.setup(
            lambda _: True, "offset_commit", 7, **commit("g", offset, partitions=partitions)
        )

    outside(1, 0)
    pend(one, 5, 0, 1)
    pend(two, 6, 1, 2)
    outside(7, 0)
    world.ask("before", "offset_fetch", 8, **_fetched("g", True, 0, 1, 2, 3))
    world.ask("before, all", "offset_fetch", 8, **_fetched("g", True))
    two.end(True)
    world.ask("two is over", "offset_fetch", 8, **_fetched("g", False, 0, 1, 2, 3))
    world.ask("two is over, stable", "offset_fetch", 8, **_fetched("g", True, 0, 1, 2, 3))
    one.end(True)
    world.ask("one is over", "offset_fetch", 8, **_fetched("g", True, 0, 1, 2, 3))
    pend(one, 9, 3)
    deleted = {"topics": [{"name": "t", "partitions": [{"partition_index": 3}]}]}
    world.ask("what is pending is deleted", "offset_delete", 0, group_id="g", **deleted)
    world.ask("after that", "offset_fetch", 8, **_fetched("g", True, 3))
    world.ask("the group is deleted", "delete_groups", 2, groups_names=["g"])
    one.end(True)
    world.ask("what is left", "offset_fetch", 8, **_fetched("g", True, 0, 1, 2, 3))
