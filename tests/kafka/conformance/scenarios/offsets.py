"""Which offset is first, last, of a time, of an epoch."""

from __future__ import annotations

from tests.kafka.conformance.batches import batch
from tests.kafka.conformance.scenarios.requests import delete_records, list_offsets, produced
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World


@scenario()
def list_offsets_of(world: World) -> None:
    world.topic("t", partitions=2)
    produced(
        world,
        "t",
        batch(b"a", b"b", b"c", timestamp_ms=1_000, step_ms=10),
        batch(b"d", b"e", timestamp_ms=3_000, step_ms=-500, codec="gzip"),
        batch(b"f", timestamp_ms=2_000),
    )
    for version in versions("list_offsets"):
        for time in (-1, -2, -3, -4, -5, -6, 0, 1_000, 1_005, 2_000, 2_600, 3_000, 3_001):
            world.ask(f"time {time}", "list_offsets", version, **list_offsets("t", time))
        world.ask("an empty partition", "list_offsets", version, **list_offsets("t", -1, 1))
        world.ask("no record", "list_offsets", version, **list_offsets("t", 5, 1))
        world.ask("an unknown partition", "list_offsets", version, **list_offsets("t", -1, 0, 9))
        world.ask("an unknown topic", "list_offsets", version, **list_offsets("u", -1))
    for version in versions("list_offsets", 4):
        for epoch in (0, 1):
            fields = list_offsets("t", -1, leader_epoch=epoch)
            world.ask(f"at epoch {epoch}", "list_offsets", version, **fields)
    for level in (0, 1):
        fields = list_offsets("t", -1, isolation_level=level)
        world.ask(f"isolation level {level}", "list_offsets", 5, **fields)
    for replica in (-2, -1):
        fields = list_offsets("t", -1) | {"replica_id": replica}
        world.ask(f"as replica {replica}", "list_offsets", 5, **fields)
    twice = list_offsets("t", -1, 0, 0)
    world.ask("a partition twice", "list_offsets", 5, **twice)
    world.ask("records go", "delete_records", 2, **delete_records("t", 4))
    for time in (-1, -2, -3, 0, 1_000, 2_600):
        world.ask(f"time {time}, some gone", "list_offsets", 5, **list_offsets("t", time))
    world.ask("all records go", "delete_records", 2, **delete_records("t", -1))
    for time in (-1, -2, -3, 0):
        world.ask(f"time {time}, all gone", "list_offsets", 5, **list_offsets("t", time))


@scenario()
def epochs(world: World) -> None:
    world.topic("t")
    produced(world, "t", batch(b"a", b"b"))
    for version in versions("offset_for_leader_epoch"):
        for epoch in (-1, 0, 1):
            for current in (-1, 0, 1):
                partition = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
                topics = [{"topic": "t", "partitions": [partition]}]
                step = f"epoch {epoch}, current {current}"
                world.ask(step, "offset_for_leader_epoch", version, topics=topics, replica_id=-1)
        strangers = [
            {"topic": "t", "partitions": [{"partition": 4, "leader_epoch": 0}]},
            {"topic": "u", "partitions": [{"partition": 0, "leader_epoch": 0}]},
        ]
        world.ask("unknown", "offset_for_leader_epoch", version, topics=strangers, replica_id=-1)


@scenario()
def deleted_records(world: World) -> None:
    world.topic("t")
    world.topic("compact", config={"cleanup.policy": "compact"})
    world.topic("both", config={"cleanup.policy": "compact,delete"})
    produced(world, "t", *(batch(b"a", b"b") for _ in range(5)))
    for topic in ("compact", "both"):
        produced(world, topic, batch((b"k", b"v")))
    for version in versions("delete_records"):
        start = 3 * version

        def ask(step: str, topic: str, offset: int, version: int = version, **more: int) -> None:
            world.ask(step, "delete_records", version, **delete_records(topic, offset, **more))

        ask("some", "t", start)
        ask("some again", "t", start)
        ask("one more", "t", start + 1)
        ask("beyond the end", "t", 11)
        ask("a negative offset", "t", -2)
        ask("of an unknown topic", "u", 0)
        ask("of a compacted topic", "compact", 0)
        ask("of both policies", "both", 0)
        ask("without time", "t", start + 2, timeout_ms=0)
    world.ask("everything", "delete_records", 2, **delete_records("t", -1))
    world.ask("everything again", "delete_records", 2, **delete_records("t", -1))
