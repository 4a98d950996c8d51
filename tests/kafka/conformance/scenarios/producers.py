"""Idempotent producers: ids, sequences and epochs."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.batches import batch
from tests.kafka.conformance.scenarios.requests import delete_records, fetch, produce
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World


@scenario()
def producer_ids(world: World) -> None:
    ready: dict[str, Any] = {"transactional_id": None, "transaction_timeout": 60_000}
    none = {"producer_id": -1, "producer_epoch": -1}
    world.setup(lambda answer: answer["error_code"] == 0, "init_producer_id", 4, **ready, **none)
    for version in versions("init_producer_id"):
        world.ask("a new one", "init_producer_id", version, **ready, **none)
    for version in versions("init_producer_id", 3):
        only_id = {"producer_id": 5, "producer_epoch": -1}
        world.ask("only an id", "init_producer_id", version, **ready, **only_id)
        only_epoch = {"producer_id": -1, "producer_epoch": 5}
        world.ask("only an epoch", "init_producer_id", version, **ready, **only_epoch)
        both = {"producer_id": 5, "producer_epoch": 5}
        world.ask("both", "init_producer_id", version, **ready, **both)


@scenario()
def sequences(world: World) -> None:
    world.topic("t", partitions=2)

    def send(
        step: str, producer_id: int, sequence: int, *values: bytes, epoch: int = 0, **more: Any
    ) -> None:
        records = batch(
            *(values or (b"v",)),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            **more,
        )
        world.ask(step, "produce", 9, **produce("t", records))

    for number in range(7):
        send(f"batch {number}", 1, number)
    for number in range(7):
        send(f"batch {number} again", 1, number)
    send("a gap", 1, 9)
    send("after the gap", 1, 10)
    send("the one that was missing", 1, 7)
    send("two records", 1, 8, b"a", b"b")
    send("the first of them", 1, 8)
    send("the second of them", 1, 9)
    send("the two and one more", 1, 8, b"a", b"b", b"c")
    send("other content, same numbers", 1, 8, b"x", b"y")
    send("an older epoch", 1, 10, epoch=-1)
    send("a newer epoch, in the middle", 1, 10, epoch=1)
    send("a newer epoch, from the start", 1, 0, epoch=1)
    send("the epoch before", 1, 11)
    send("the epoch before, from the start", 1, 0)
    send("a stranger in the middle", 2, 5)
    send("the stranger goes on", 2, 6)
    send("the stranger from the start", 2, 0)
    send("a stranger of epoch 3", 3, 0, epoch=3)
    send("it goes on", 3, 1, epoch=3)
    send("near the end of numbers", 4, 2**31 - 2)
    send("over the end of numbers", 4, 2**31 - 1, b"a", b"b")
    send("from the start again", 4, 1)
    send("compressed", 5, 0, b"a", b"b", codec="gzip")
    send("compressed again", 5, 0, b"a", b"b", codec="gzip")
    send("compressed, next", 5, 2, b"a", b"b", codec="gzip")
    world.ask("all of it", "fetch", 12, **fetch(world, "t", {0: 0}))
    world.ask("what is deleted", "delete_records", 2, **delete_records("t", -1))
    send("a repeat of what was deleted", 5, 2, b"a", b"b", codec="gzip")
    send("the next after what was deleted", 5, 4)
