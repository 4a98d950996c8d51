"""Three brokers: followers that are read from, leaders that move, replicas that stand still."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.batches import batch
from tests.kafka.conformance.scenarios.fetch import WAIT_MS
from tests.kafka.conformance.scenarios.requests import (
    LONG_MS,
    create,
    delete_records,
    fetch,
    list_offsets,
    produce,
    produced,
)
from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.world import World

_LAG = {"replica.lag.time.max.ms": "1500"}


def _in_sync(count: int) -> Any:
    return lambda answer: len(answer["topics"][0]["partitions"][0]["isr_nodes"]) == count


@scenario(brokers=3)
def followers(world: World) -> None:
    world.topic("t", assignment=[[1, 2, 3]])
    produced(world, "t", batch(b"a"), batch(b"b"))
    start = fetch(world, "t", {0: 0})
    world.eventually(
        "from a follower",
        lambda answer: answer["responses"][0]["partitions"][0]["high_watermark"] == 2,
        "fetch",
        12,
        at=2,
        **start,
    )
    for version in (10, 11, 13, 17):
        world.ask("at a follower", "fetch", version, at=2, **start)
        world.ask("its end at a follower", "fetch", version, at=2, **fetch(world, "t", {0: 2}))
        world.ask("beyond it at a follower", "fetch", version, at=2, **fetch(world, "t", {0: 3}))
        epoch = fetch(world, "t", {0: 0}, leader_epoch=5)
        world.ask("an epoch to come at a follower", "fetch", version, at=2, **epoch)
    end = fetch(world, "t", {0: 2}, max_wait_ms=WAIT_MS)
    world.ask("waiting at a follower", "fetch", 12, at=2, timed_ms=WAIT_MS, **end)
    for version in (3, 9, 10, 11):
        world.ask("produced at a follower", "produce", version, at=2, **produce("t"))
    for version in (1, 5, 9):
        world.ask("offsets at a follower", "list_offsets", version, at=2, **list_offsets("t", -1))
    world.ask("deleted at a follower", "delete_records", 2, at=2, **delete_records("t", 1))
    asked = {"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}
    epochs = [{"topic": "t", "partitions": [asked]}]
    world.ask(
        "epochs at a follower", "offset_for_leader_epoch", 4, at=2, topics=epochs, replica_id=-1
    )


@scenario(brokers=3)
def moved_leaders(world: World) -> None:
    world.topic("t", assignment=[[1, 2, 3]])
    produced(world, "t", batch(b"a"), batch(b"b"))
    told = world.setup(lambda _: True, "metadata", 12, topics=[{"name": "t"}])
    epoch = told["topics"][0]["partitions"][0]["leader_epoch"]
    waiting = fetch(world, "t", {0: 2}, max_wait_ms=20_000, leader_epoch=epoch)
    world.send("fetch", 10, client="waiting", **waiting)
    other = fetch(world, "t", {0: 2}, max_wait_ms=20_000)
    world.send("fetch", 10, client="no epoch", **other)
    moved = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [2, 1, 3]}]}]
    world.ask("reordered", "alter_partition_reassignments", 0, topics=moved, timeout=LONG_MS)
    preferred = [{"topic": "t", "partitions": [0]}]
    fields = {"election_type": 0, "timeout": LONG_MS, "topic_partitions": preferred}
    world.ask("elected", "elect_leaders", 2, **fields)
    for broker in world.brokers():
        world.setup(
            lambda answer: answer["topics"][0]["partitions"][0]["leader_id"] == 2,
            "metadata",
            12,
            at=broker,
            topics=[{"name": "t"}],
        )
    world.receive("it waited with an epoch", client="waiting")
    world.receive("it waited without one", client="no epoch")
    for version in (10, 12, 16):
        stale = fetch(world, "t", {0: 0}, leader_epoch=epoch)
        world.ask("a stale epoch at the old leader", "fetch", version, **stale)
    world.ask("no epoch at the old leader", "fetch", 10, **fetch(world, "t", {0: 0}))
    stale = list_offsets("t", -1, leader_epoch=epoch)
    world.ask("a stale epoch", "list_offsets", 5, **stale)
    world.ask("no epoch", "list_offsets", 5, **list_offsets("t", -1))
    world.ask("produced at the old leader", "produce", 9, **produce("t"))
    world.setup(
        lambda answer: answer["responses"][0]["partition_responses"][0]["error_code"] == 0,
        "produce",
        9,
        at=2,
        **produce("t"),
    )
    world.ask(
        "a stale epoch at the new leader",
        "fetch",
        12,
        at=2,
        **fetch(world, "t", {0: 0}, leader_epoch=epoch),
    )


@scenario(brokers=3, config=_LAG)
def frozen_followers(world: World) -> None:
    world.topic("t", assignment=[[1, 2, 3]], config={"min.insync.replicas": "2"})

    def numbered(sequence: int) -> bytes:
        return batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)

    produced(world, "t", numbered(0))
    world.freeze(2)
    world.freeze(3)
    late = produce("t", numbered(1), timeout_ms=WAIT_MS)
    world.ask("nobody replicates it", "produce", 9, timed_ms=WAIT_MS, **late)
    above = fetch(world, "t", {0: 2}, max_wait_ms=WAIT_MS)
    world.ask("above the high watermark", "fetch", 12, timed_ms=WAIT_MS, **above)
    world.ask("up to the high watermark", "fetch", 12, **fetch(world, "t", {0: 0}))
    world.ask("the last offset", "list_offsets", 5, **list_offsets("t", -1))
    waiting = produce("t", numbered(2), timeout_ms=20_000)
    world.send("produce", 9, client="waiting", **waiting)
    world.waits("it waits", client="waiting")
    world.advance(1_500)
    world.setup(_in_sync(1), "metadata", 12, topics=[{"name": "t"}])
    world.waits("it waits though too few are in sync", client="waiting")
    world.ask("too few are in sync", "produce", 9, **produce("t", numbered(3)))
    world.ask("one that stands in the log", "produce", 9, **produce("t", numbered(0)))
    world.ask("one that waits", "produce", 9, **produce("t", numbered(2)))
    world.ask("after the refused one", "produce", 9, **produce("t", numbered(4), acks=1))
    world.ask("with acks 1", "produce", 9, **produce("t", numbered(3), acks=1))
    world.ask("above it still", "fetch", 12, timed_ms=WAIT_MS, **above)
    world.ask("deleted", "delete_records", 2, **delete_records("t", 1, timeout_ms=WAIT_MS))
    world.thaw(2)
    world.thaw(3)
    world.receive("it is replicated at last", client="waiting")
    world.eventually("all are in sync again", _in_sync(3), "metadata", 12, topics=[{"name": "t"}])
    world.ask("the next", "produce", 9, **produce("t", numbered(4)))


@scenario(brokers=3)
def two_of_three(world: World) -> None:
    world.stop(3)
    for factor in (2, 3, 4):
        fields = create(f"t{factor}", replication_factor=factor)
        world.ask(f"{factor} replicas", "create_topics", 7, **fields)
    manual = create("m", partitions=-1, replication_factor=-1, assignments={0: [3, 1], 1: [2, 3]})
    world.ask("assigned to the stopped one", "create_topics", 7, **manual)
    world.eventually(
        "who leads",
        lambda answer: answer["topics"][0]["error_code"] == 0,
        "metadata",
        12,
        topics=[{"name": "m"}],
    )
    alone = create("n", partitions=-1, replication_factor=-1, assignments={0: [3]})
    world.ask("assigned to the stopped one alone", "create_topics", 7, **alone)
