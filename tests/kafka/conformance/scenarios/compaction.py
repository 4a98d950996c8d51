"""Compacted topics: what is left of them once the cleaner has run.

A fetch ends where a segment ends, so logs are read by several fetches and noted as a whole.
"""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.batches import batch
from tests.kafka.conformance.scenarios.requests import fetch, list_offsets, produce, produced
from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.world import World

# The cleaner runs all the time, and each batch is a segment: all but the last can be cleaned.
CLEANER = {"log.cleaner.backoff.ms": "100"}
COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0.01",
}
_HALF_AN_HOUR_MS = 1_800_000
_TRIES = 5_000


class _Topic:
    """A compacted topic, whose batches are written a second apart, some time ago."""

    def __init__(self, world: World, name: str, **config: str) -> None:
        self.world, self.name = world, name
        world.topic(name, config=COMPACT | {key.replace("_", "."): v for key, v in config.items()})
        self._time_ms = world.now_ms() - _HALF_AN_HOUR_MS

    def write(self, *records: tuple[bytes, bytes | None], **fields: Any) -> None:
        self._time_ms += 1_000
        data = batch(*records, timestamp_ms=self._time_ms, **fields)
        produced(self.world, self.name, data)

    def read(self, offset: int = 0, **fields: Any) -> list[dict[str, Any]]:
        """The batches from this offset on."""
        batches: list[dict[str, Any]] = []
        exchange = self.world.exchange(1, "reads")
        while True:
            asked = fetch(self.world, self.name, {0: offset}, **fields)
            (partition,) = exchange.ask("fetch", 12, **asked)["responses"][0]["partitions"]
            if not partition["records"]:
                return batches
            batches += partition["records"]
            offset = batches[-1]["base_offset"] + batches[-1]["last_delta"] + 1

    def wait(self, *offsets: int) -> None:
        """Note the log, once only these offsets are left."""
        for _ in range(_TRIES):
            batches = self.read()
            left = [
                one["base_offset"] + int(record.split()[0])
                for one in batches
                for record in one["records"]
            ]
            if left == list(offsets):
                break
            self.world.advance(20)
        self.world.note(f"{self.name} is left with {left}", {"records": batches})


@scenario(config=CLEANER)
def compaction(world: World) -> None:
    topic = _Topic(world, "t")
    topic.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    topic.write((b"c", b"1"))
    topic.write((b"c", b"2"), (b"d", b"1"), step_ms=3)
    topic.write((b"b", b"2"), (b"c", b"3"), codec="gzip", step_ms=5)
    topic.write((b"z", b"1"))
    topic.wait(2, 5, 6, 7, 8)
    for offset in range(10):
        world.note(f"from {offset}", {"records": topic.read(offset)})
    for when in (-1, -2, -3, 0):
        world.ask(f"offset of {when}", "list_offsets", 7, **list_offsets("t", when))
    topic.write((b"d", b"2"))
    topic.write((b"z", b"2"))
    topic.wait(2, 6, 7, 8, 9, 10)


@scenario(config=CLEANER)
def compaction_with_producers(world: World) -> None:
    topic = _Topic(world, "t")
    one = {"producer_id": 1, "producer_epoch": 0}
    two = {"producer_id": 2, "producer_epoch": 0}
    topic.write((b"a", b"1"), (b"b", b"1"), base_sequence=0, **one)
    topic.write((b"a", b"2"), base_sequence=0, **two)
    topic.write((b"a", b"3"), (b"b", b"2"), base_sequence=2, **one)
    topic.write((b"a", b"4"))
    topic.write((b"b", b"3"))
    topic.write((b"z", b"1"))
    topic.wait(5, 6, 7)
    again = batch((b"a", b"3"), (b"b", b"2"), base_sequence=2, **one)
    world.ask("the last batch again", "produce", 9, **produce("t", again))
    again = batch((b"a", b"1"), (b"b", b"1"), base_sequence=0, **one)
    world.ask("the first batch again", "produce", 9, **produce("t", again))
    after = batch((b"a", b"5"), base_sequence=4, timestamp_ms=world.now_ms(), **one)
    world.ask("the next batch", "produce", 9, **produce("t", after))
