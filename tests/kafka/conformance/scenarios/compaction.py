"""Compacted topics: what is left of them once the cleaner has run.

It runs once, and when it is told to, since what is left depends on how often it ran. A fetch ends
where a segment ends, so logs are read by several fetches and noted as a whole.
"""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.batches import batch
from tests.kafka.conformance.scenarios.requests import fetch, list_offsets, produce, produced
from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.scenarios.transactions import Producer
from tests.kafka.conformance.world import World

CLEANER = {"log.cleaner.backoff.ms": "100"}
_RATIO = "min.cleanable.dirty.ratio"
_NEVER, _ALWAYS = "1", "0"
# Each batch is a segment: all but the last can be cleaned.
COMPACT = {"cleanup.policy": "compact", "segment.ms": "1", _RATIO: _NEVER}
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

    def clean(self, *offsets: int) -> None:
        """Have the cleaner run; note the log, once only these offsets are left."""
        self._alter_ratio(_ALWAYS)
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
        self._alter_ratio(_NEVER)
        self.world.note(f"{self.name} is left with {left}", {"records": batches})

    def _alter_ratio(self, ratio: str) -> None:
        config = {"name": _RATIO, "config_operation": 0, "value": ratio}
        topic = {"resource_type": 2, "resource_name": self.name, "configs": [config]}
        self.world.setup(
            lambda answer: answer["responses"][0]["error_code"] == 0,
            "incremental_alter_configs",
            1,
            resources=[topic],
            validate_only=False,
        )


@scenario(config=CLEANER)
def compaction(world: World) -> None:
    topic = _Topic(world, "t")
    topic.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    topic.write((b"c", b"1"))
    topic.write((b"c", b"2"), (b"d", b"1"), step_ms=3)
    topic.write((b"b", b"2"), (b"c", b"3"), codec="gzip", step_ms=5)
    topic.write((b"z", b"1"))
    topic.clean(2, 5, 6, 7, 8)
    for offset in range(10):
        world.note(f"from {offset}", {"records": topic.read(offset)})
    for when in (-1, -2, -3, 0):
        world.ask(f"offset of {when}", "list_offsets", 7, **list_offsets("t", when))
    topic.write((b"d", b"2"))
    topic.write((b"z", b"2"))
    topic.clean(2, 6, 7, 8, 9, 10)


@scenario(config=CLEANER)
def tombstones(world: World) -> None:
    kept = _Topic(world, "kept", delete_retention_ms=str(_HALF_AN_HOUR_MS))
    kept.write((b"a", b"1"), (b"b", b"1"))
    kept.write((b"a", None), step_ms=3)
    kept.write((b"c", b"1"), (b"c", None), (b"d", b"1"), step_ms=3)
    kept.write((b"z", b"1"))
    kept.clean(1, 2, 4, 5, 6)
    gone = _Topic(world, "gone", delete_retention_ms="0")
    gone.write((b"a", b"1"), (b"b", b"1"))
    gone.write((b"a", None))
    gone.write((b"b", None), (b"c", b"1"))
    gone.write((b"z", b"1"))
    gone.clean(2, 3, 4, 5)
    gone.write((b"y", b"1"))
    gone.clean(4, 5, 6)


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
    topic.clean(5, 6, 7)
    again = batch((b"a", b"3"), (b"b", b"2"), base_sequence=2, **one)
    world.ask("the last batch again", "produce", 9, **produce("t", again))
    again = batch((b"a", b"1"), (b"b", b"1"), base_sequence=0, **one)
    world.ask("the first batch again", "produce", 9, **produce("t", again))
    after = batch((b"a", b"5"), base_sequence=4, timestamp_ms=world.now_ms(), **one)
    world.ask("the next batch", "produce", 9, **produce("t", after))


@scenario(config=CLEANER)
def compaction_with_transactions(world: World) -> None:
    topic = _Topic(world, "t", delete_retention_ms=str(_HALF_AN_HOUR_MS))
    first, second = Producer(world, "first"), Producer(world, "second")
    for producer, key, value, commits in [
        (first, b"a", b"1", True),
        (second, b"a", b"aborted", False),
        (first, b"b", b"1", True),
        (second, b"b", b"aborted", False),
        (first, b"a", b"2", True),
    ]:
        world.advance(20)
        producer.now_ms = world.now_ms()
        producer.write("t", (key, value))
        world.advance(20)
        producer.end(commits)
    for delay_ms in (1_000, 2_000):
        data = batch((b"z", b"1"), timestamp_ms=world.now_ms() + delay_ms)
        produced(world, "t", data)
    # The markers at 1, 3, 5, 7 and 9, and the last records of b, a and z.
    topic.clean(1, 3, 4, 5, 7, 8, 9, 10, 11)
    world.note("read committed", {"records": topic.read(isolation_level=1)})
