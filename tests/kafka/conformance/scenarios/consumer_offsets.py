"""Offsets of consumer groups: who may commit and fetch them."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.scenarios.commits import commit
from tests.kafka.conformance.scenarios.consumer_groups import (
    AT_ONCE,
    Consumer,
    start,
)
from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.scenarios.transactions import Producer
from tests.kafka.conformance.world import World


@scenario(config=AT_ONCE)
def offsets_of_consumers(world: World) -> None:
    start(world, t=6)
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
