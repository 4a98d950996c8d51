"""What becomes of records: taken, or refused and why."""

from __future__ import annotations

import struct

from tests.kafka.conformance.batches import CODECS, batch
from tests.kafka.conformance.scenarios.requests import fetch, produce
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World


@scenario()
def produce_versions(world: World) -> None:
    world.topic("t", partitions=2)
    for version in versions("produce"):
        world.ask("acks all", "produce", version, **produce("t"))
        world.ask("acks 1", "produce", version, **produce("t", acks=1))
        world.ask("two partitions", "produce", version, **produce("t", None, 0, 1))
        world.ask("an unknown topic", "produce", version, **produce("u"))
        world.ask("an unknown partition", "produce", version, **produce("t", None, 9))
        world.ask("one known, one unknown", "produce", version, **produce("t", None, 0, 9))
        world.ask("a wrong checksum", "produce", version, **produce("t", _wrong_crc()))
        world.ask("acks 2", "produce", version, **produce("t", acks=2))
        world.ask("nothing", "produce", version, acks=-1, timeout=1000, topic_data=[])


def _wrong_crc() -> bytes:
    data = bytearray(batch(b"value"))
    data[-1] ^= 1
    return bytes(data)


@scenario(config={"message.max.bytes": "2000"})
def bad_records(world: World) -> None:
    world.topic("t")
    world.topic("tiny", config={"max.message.bytes": "100"})
    good = batch(b"value")

    def patched(at: int, value: bytes) -> bytes:
        data = bytearray(good)
        data[at : at + len(value)] = value
        return bytes(data)

    for step, records in {
        "none": b"",
        "too short for a header": good[:40],
        "cut off": good[:-1],
        "two batches": good + good,
        "an empty batch": batch(),
        "a length too short": patched(8, struct.pack(">i", 10)),
        "a length too long": patched(8, struct.pack(">i", 5_000)),
        "a negative length": patched(8, struct.pack(">i", -1)),
        "another magic": patched(16, b"\x03"),
        "the old magic": patched(16, b"\x01"),
        "a wrong checksum": _wrong_crc(),
        "a control batch": batch(b"x", attributes=0x20),
        "a transactional batch": batch(
            b"x", attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0
        ),
        "a transactional batch without producer": batch(b"x", attributes=0x10),
        "a producer without epoch": batch(b"x", producer_id=5),
        "a producer without sequence": batch(b"x", producer_id=5, producer_epoch=0),
        "a count too high": batch(b"x", count=2),
        "a count of zero": batch(b"x", count=0),
        "a negative count": batch(b"x", count=-1),
        "records that are garbage": batch(b"x", payload=b"garbage"),
        "bytes after the records": batch(b"x", payload=good[61:] + b"more"),
        "too large": batch(bytes(2_100)),
        "as large as allowed": batch(bytes(2_000 - 70)),
        "a codec that there is not": batch(b"x", attributes=0x05),
    }.items():
        world.ask(step, "produce", 9, **produce("t", records))
    world.ask("too large for its topic", "produce", 9, **produce("tiny", batch(bytes(200))))
    world.ask("what was taken", "fetch", 12, **fetch(world, "t", {0: 0}))


@scenario()
def produce_without_acks(world: World) -> None:
    world.topic("t")
    for version in versions("produce"):
        exchange = world.exchange(1, "silent")
        exchange.send("produce", version, **produce("t", acks=0))
    world.eventually(
        "what was taken",
        lambda answer: answer["topics"][0]["partitions"][0]["offset"] == 9,
        "list_offsets",
        5,
        replica_id=-1,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    )
    world.send("produce", 9, client="wrong", **produce("u", acks=0))
    world.receive("to an unknown topic", client="wrong")


@scenario()
def codecs(world: World) -> None:
    for kept in ("producer", "uncompressed", *CODECS[1:]):
        world.topic(kept, config={"compression.type": kept})
        for codec in CODECS:
            records = batch(*[b"value %d" % n for n in range(20)], codec=codec)
            world.ask(f"{codec} to {kept}", "produce", 9, **produce(kept, records))
        world.ask(f"what {kept} has kept", "fetch", 12, **fetch(world, kept, {0: 0}))
    for codec in CODECS[1:]:
        broken = batch(b"x", codec=codec, payload=b"this is not compressed")
        world.ask(f"broken {codec}", "produce", 9, **produce("producer", broken))
        cut = batch(b"x", codec=codec)
        short = batch(b"x", codec=codec, payload=cut[61:-3])
        world.ask(f"{codec} cut short", "produce", 9, **produce("producer", short))
    old = produce("producer", batch(b"x", codec="zstd"))
    world.ask("zstd in an old version", "produce", 6, **old)
    for codec in CODECS[1:]:
        two = batch(b"x", b"y", codec=codec, count=3)
        world.ask(f"a count too high in {codec}", "produce", 9, **produce("producer", two))


@scenario()
def timestamps(world: World) -> None:
    now_ms = world.now_ms()
    world.topic("t")
    world.topic("append", config={"message.timestamp.type": "LogAppendTime"})
    world.topic(
        "narrow",
        config={
            "message.timestamp.before.max.ms": "600000",
            "message.timestamp.after.max.ms": "600000",
        },
    )
    hour = 3_600_000
    for step, time_ms in {
        "of now": now_ms,
        "of an hour ago": now_ms - hour - 5_000,
        "of 1970": 1_000,
        "of half an hour to come": now_ms + hour // 2,
        "of two hours to come": now_ms + 2 * hour,
        "none": -1,
    }.items():
        for topic in ("t", "append", "narrow"):
            records = batch(b"a", b"b", timestamp_ms=time_ms)
            world.ask(f"{step} to {topic}", "produce", 9, **produce(topic, records))
    some = batch(b"a", b"b", b"c", timestamp_ms=now_ms, step_ms=-hour)
    world.ask("some too old", "produce", 9, **produce("narrow", some))
    few = batch(b"a", b"b", b"c", timestamp_ms=now_ms, step_ms=-hour, codec="gzip")
    world.ask("some too old, compressed", "produce", 9, **produce("narrow", few))
    world.topic("kept", config={"message.timestamp.type": "LogAppendTime"})
    world.ask("two records", "produce", 9, **produce("kept", batch(b"a", b"b", step_ms=5)))
    world.ask("compressed", "produce", 9, **produce("kept", batch(b"a", b"b", codec="gzip")))
    world.ask("what kept has kept", "fetch", 12, **fetch(world, "kept", {0: 0}))


@scenario()
def compacted_topics(world: World) -> None:
    world.topic("compact", config={"cleanup.policy": "compact"})
    world.topic("both", config={"cleanup.policy": "compact,delete"})
    for topic in ("compact", "both"):
        for step, records in {
            "with keys": batch((b"k", b"v"), (b"k2", b"v")),
            "without a key": batch(b"v"),
            "some without a key": batch((b"k", b"v"), (None, b"v"), (b"l", b"v"), (None, b"w")),
            "without a value": batch((b"k", None)),
            "without a key, compressed": batch((b"k", b"v"), (None, b"v"), codec="gzip"),
            "an empty key": batch((b"", b"v")),
        }.items():
            world.ask(f"{step} to {topic}", "produce", 9, **produce(topic, records))
        for version in versions("produce"):
            records = batch((b"k", b"v"), (None, b"v"))
            world.ask(f"a null key to {topic}", "produce", version, **produce(topic, records))
