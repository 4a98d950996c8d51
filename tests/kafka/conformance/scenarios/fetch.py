"""What a consumer gets, and how long it waits for it."""

from __future__ import annotations

from tests.kafka.conformance.batches import batch
from tests.kafka.conformance.scenarios.requests import (
    delete_records,
    fetch,
    fetch_topic,
    produce,
    produced,
)
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World

_NOBODY = "00000000-0000-4000-8000-000000000000"
WAIT_MS = 400


@scenario()
def fetch_versions(world: World) -> None:
    world.topic("t", partitions=2)
    produced(world, "t", *(batch(b"value %d" % n) for n in range(3)))
    for version in versions("fetch"):
        world.ask("from the start", "fetch", version, **fetch(world, "t", {0: 0}))
        world.ask("the end", "fetch", version, **fetch(world, "t", {0: 3, 1: 0}))
        world.ask("beyond the end", "fetch", version, **fetch(world, "t", {0: 4}))
        world.ask("a negative offset", "fetch", version, **fetch(world, "t", {0: -1}))
        world.ask("an unknown partition", "fetch", version, **fetch(world, "t", {7: 0}))
        unknown = fetch(world, "u", {0: 0}, topic_id=_NOBODY)
        world.ask("an unknown topic", "fetch", version, **unknown)
        world.ask("nothing", "fetch", version, replica_id=-1, max_wait=0, min_bytes=1, topics=[])
    for version in versions("fetch", 9):
        for epoch in (0, 1):
            fields = fetch(world, "t", {0: 0}, leader_epoch=epoch)
            world.ask(f"at epoch {epoch}", "fetch", version, **fields)
    for version in versions("fetch", 12):
        for epoch, offset in ((0, 3), (0, 0), (3, 3)):
            fields = fetch(world, "t", {0: offset})
            fields["topics"][0]["partitions"][0]["last_fetched_epoch"] = epoch
            world.ask(f"fetched up to {offset} of epoch {epoch}", "fetch", version, **fields)
    for level in (0, 1, 2):
        fields = fetch(world, "t", {0: 0}, isolation_level=level)
        world.ask(f"isolation level {level}", "fetch", 12, **fields)


@scenario()
def fetch_sizes(world: World) -> None:
    world.topic("t", partitions=2)
    records = [batch(bytes(100 + n)) for n in range(4)]
    produced(world, "t", *records)
    produced(world, "t", *records, partition=1)
    size = len(records[0])
    for limit in (
        0,
        1,
        60,
        size - 1,
        size,
        size + 1,
        size + 30,
        size + 70,
        2 * size,
        2 * size + 1,
        10_000,
    ):
        for offset in (0, 1):
            fields = fetch(world, "t", {0: offset}, partition_max_bytes=limit)
            world.ask(f"{limit} bytes of a partition from {offset}", "fetch", 12, **fields)
        fields = fetch(world, "t", {0: 0, 1: 0}, max_bytes=limit)
        world.ask(f"{limit} bytes of two partitions", "fetch", 12, **fields)
        fields = fetch(world, "t", {1: 1, 0: 0}, max_bytes=10_000, partition_max_bytes=limit)
        world.ask(f"{limit} bytes of each of two partitions", "fetch", 12, **fields)
        fields = fetch(world, "t", {0: 0}, max_bytes=limit, partition_max_bytes=limit)
        world.ask(f"{limit} bytes in all", "fetch", 4, **fields)


@scenario()
def fetch_waits(world: World) -> None:
    world.topic("t", partitions=3)
    produced(world, "t", batch(b"value"))
    size = len(batch(b"value"))

    def timed(step: str, version: int = 12, **fields: object) -> None:
        world.ask(step, "fetch", version, timed_ms=WAIT_MS, **fields)

    end = fetch(world, "t", {0: 1}, max_wait_ms=WAIT_MS)
    timed("at the end", **end)
    timed("at the end", 4, **end)
    timed("enough bytes", **fetch(world, "t", {0: 0}, max_wait_ms=WAIT_MS, min_bytes=size))
    timed("one byte too few", **fetch(world, "t", {0: 0}, max_wait_ms=WAIT_MS, min_bytes=size + 1))
    limited = fetch(
        world, "t", {0: 0}, max_wait_ms=WAIT_MS, min_bytes=size, partition_max_bytes=size - 1
    )
    timed("the partition may not give as many", **limited)
    limited = fetch(world, "t", {0: 0}, max_wait_ms=WAIT_MS, min_bytes=size, max_bytes=size - 1)
    timed("the answer may not have as many", **limited)
    timed("no bytes wanted", **fetch(world, "t", {0: 1}, max_wait_ms=WAIT_MS, min_bytes=0))
    timed("out of range", **fetch(world, "t", {0: 7}, max_wait_ms=WAIT_MS))
    timed("one out of range", **fetch(world, "t", {0: 7, 1: 0}, max_wait_ms=WAIT_MS))
    timed("a wrong epoch", **fetch(world, "t", {0: 1}, max_wait_ms=WAIT_MS, leader_epoch=5))
    timed("an unknown partition", **fetch(world, "t", {9: 0}, max_wait_ms=WAIT_MS))
    timed("one unknown", **fetch(world, "t", {0: 1, 9: 0}, max_wait_ms=WAIT_MS))
    two = fetch(world, "t", {0: 1}, max_wait_ms=WAIT_MS)
    two["topics"].append(fetch_topic(world, "u", {0: 0}, topic_id=_NOBODY))
    timed("one topic unknown", **two)
    timed("one topic unknown", 13, **two)
    timed("nothing", replica_id=-1, max_wait=WAIT_MS, min_bytes=1, topics=[])

    later = fetch(world, "t", {0: 1, 1: 0, 2: 0}, max_wait_ms=5_000)
    world.send("fetch", 12, client="waiting", **later)
    world.waits("it waits", client="waiting")
    world.ask("something is produced", "produce", 9, **produce("t", None, 1))
    world.receive("it gets it", client="waiting")
    much = fetch(world, "t", {0: 1}, max_wait_ms=5_000, min_bytes=2 * size)
    world.send("fetch", 12, client="waiting", **much)
    world.ask("half of it", "produce", 9, **produce("t"))
    world.waits("it waits for more", client="waiting")
    world.ask("the rest", "produce", 9, **produce("t"))
    world.receive("it gets both", client="waiting")
    gone = fetch(world, "t", {0: 3}, max_wait_ms=WAIT_MS)
    world.send("fetch", 12, client="waiting", **gone)
    world.ask("records are deleted", "delete_records", 2, **delete_records("t", 3))
    world.receive("nothing was at its offset", client="waiting")
    dies = fetch(world, "t", {0: 3}, max_wait_ms=3_000)
    world.send("fetch", 12, client="waiting", **dies)
    named = {"topic_names": ["t"], "topics": [{"name": "t"}]}
    world.ask("the topic is deleted", "delete_topics", 5, timeout=10_000, **named)
    world.receive("it hears of it", client="waiting")


@scenario()
def fetch_sessions(world: World) -> None:
    world.topic("t", partitions=3)
    world.topic("u")
    produced(world, "t", batch(b"value"))
    for version in (7, 12, 13, 17):
        name = f"client {version}"

        def ask(
            step: str,
            session_id: int,
            epoch: int,
            offsets: dict[int, int] | None = None,
            version: int = version,
            name: str = name,
            **more: object,
        ) -> int:
            fields = fetch(world, "t", offsets or {}, session_id=session_id, session_epoch=epoch)
            if not offsets:
                fields["topics"] = []
            answer = world.ask(step, "fetch", version, client=name, **(fields | more))
            return int(answer["session_id"])

        ask("no session wanted", 0, -1, {0: 0, 1: 0})
        session = ask("a full fetch", 0, 0, {0: 0, 1: 0})
        ask("nothing has changed", session, 1)
        ask("another offset", session, 2, {0: 1})
        ask("one partition more", session, 3, {2: 0})
        world.ask(f"one record for client {version}", "produce", 9, **produce("t", None, 1))
        ask("it comes", session, 4)
        ask("it comes again", session, 5)
        end = 1 + (7, 12, 13, 17).index(version)
        ask("its offset moves", session, 6, {1: end})
        ask("an epoch twice", session, 6)
        ask("an epoch too high", session, 9)
        ask("the right epoch", session, 7)
        forgotten = [{"topic": "t", "topic_id": world.topic_ids["t"], "partitions": [0]}]
        ask("one is forgotten", session, 8, {2: 9}, forgotten_topics_data=forgotten)
        ask("out of range again", session, 9)
        ask("an unknown partition", session, 10, {9: 0})
        ask("still unknown", session, 11)
        ask("a session that there is not", session + 12345, 1)
        ask("it is closed", session, -1)
        ask("it is gone", session, 12)
        session = ask("all unknown", 0, 0, {8: 0})
        again = ask("anew", 0, 0, {0: 0})
        ask("anew in its place", again, 0, {1: 0})
        ask("and the one before", again, 1)
