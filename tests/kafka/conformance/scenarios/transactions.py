"""Transactions: producers and their epochs, what is part of one, how it ends, who reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kafka.conformance.batches import batch
from tests.kafka.conformance.scenarios.fetch import WAIT_MS
from tests.kafka.conformance.scenarios.requests import (
    delete_records,
    fetch,
    list_offsets,
    produce,
)
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World

_Value = bytes | tuple[bytes | None, bytes | None]
_TIMEOUT_MS = 60_000
_CONCURRENT = 51
_NONE = {"producer_id": -1, "producer_epoch": -1}
READ_COMMITTED: dict[str, Any] = {"isolation_level": 1}


def init(name: str | None, timeout_ms: int = _TIMEOUT_MS, **fields: Any) -> dict[str, Any]:
    return {"transactional_id": name, "transaction_timeout": timeout_ms, **_NONE, **fields}


class Producer:
    """A transactional producer: fields of its requests; its steps wait for the end before."""

    def __init__(self, world: World, name: str, timeout_ms: int = _TIMEOUT_MS, at: int = 1) -> None:
        self.world = world
        self.name = name
        self.at = at
        self.sequences: dict[tuple[str, int], int] = {}
        # The end of a transaction has the time of day; with other times Kafka cuts the log there.
        self.now_ms = world.now_ms()
        world.setup(is_fine, "find_coordinator", 2, at=at, key=name, key_type=1)
        started = world.setup(is_fine, "init_producer_id", 4, at=at, **init(name, timeout_ms))
        self.id, self.epoch = started["producer_id"], started["producer_epoch"]

    @property
    def owner(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }

    def adding(self, topic: str, *partitions: int, **other: Any) -> dict[str, Any]:
        """AddPartitionsToTxn up to version 3."""
        owner = {f"v3_and_below_{name}": value for name, value in (self.owner | other).items()}
        topics = [{"name": topic, "partitions": list(partitions or (0,))}]
        return {**owner, "v3_and_below_topics": topics}

    def ending(self, committed: bool, **other: Any) -> dict[str, Any]:
        return {**self.owner, "committed": committed, **other}

    def records(self, *values: _Value, epoch: int | None = None, sequence: int = 0) -> bytes:
        return batch(
            *values,
            attributes=0x10,
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            timestamp_ms=self.now_ms,
        )

    # Without a step.

    def add(self, topic: str, *partitions: int) -> None:
        self.world.setup(
            lambda answer: all(
                one["partition_error_code"] == 0
                for row in answer["results_by_topic_v3_and_below"]
                for one in row["results_by_partition"]
            ),
            "add_partitions_to_txn",
            3,
            at=self.at,
            **self.adding(topic, *partitions),
        )

    def write(self, topic: str, *values: _Value, partition: int = 0) -> None:
        """Write these in one batch."""
        self.add(topic, partition)
        sequence = self.sequences.get((topic, partition), 0)
        self.sequences[topic, partition] = sequence + len(values)
        data = self.records(*values, sequence=sequence)
        self.world.setup(
            lambda answer: answer["responses"][0]["partition_responses"][0]["error_code"] == 0,
            "produce",
            9,
            at=self.at,
            **produce(topic, data, partition, transactional_id=self.name),
        )

    def end(self, committed: bool) -> None:
        """End it, and wait until that stands in the log."""
        self.world.setup(is_fine, "end_txn", 3, at=self.at, **self.ending(committed))
        self.world.setup(is_fine, "end_txn", 3, at=self.at, **self.ending(committed))
        self.await_state("CompleteCommit" if committed else "CompleteAbort")

    def await_state(self, *states: str) -> None:
        self.world.setup(
            lambda answer: answer["transaction_states"][0]["transaction_state"] in states,
            "describe_transactions",
            0,
            at=self.at,
            transactional_ids=[self.name],
        )


def is_fine(answer: Any) -> bool:
    return bool(answer["error_code"] == 0)


def _not_concurrent(*path: str | int) -> Callable[[Any], bool]:
    def is_so(answer: Any) -> bool:
        for key in path:
            answer = answer[key]
        return bool(answer != _CONCURRENT)

    return is_so


_ended = _not_concurrent("error_code")
_added = _not_concurrent(
    "results_by_topic_v3_and_below", 0, "results_by_partition", 0, "partition_error_code"
)


@scenario()
def transactional_ids(world: World) -> None:
    Producer(world, "ready")
    for version in versions("init_producer_id"):
        name = f"x{version}"
        world.ask("a new one", "init_producer_id", version, **init(name))
        world.ask("again", "init_producer_id", version, **init(name))
        world.ask("with another timeout", "init_producer_id", version, **init(name, 1))
        world.ask("no time", "init_producer_id", version, **init(name, 0))
        world.ask("negative time", "init_producer_id", version, **init(name, -1))
        world.ask("the longest time", "init_producer_id", version, **init(name, 900_000))
        world.ask("too long a time", "init_producer_id", version, **init(name, 900_001))
        world.ask("an empty id", "init_producer_id", version, **init(""))
    for version in versions("init_producer_id", 3):
        name = f"y{version}"
        known = {"producer_id": 77, "producer_epoch": 5}
        first = world.ask(
            "a new one that says it was here", "init_producer_id", version, **init(name, **known)
        )
        mine = first["producer_id"]

        def going_on(
            step: str, producer_id: int, epoch: int, version: int = version, name: str = name
        ) -> None:
            known = {"producer_id": producer_id, "producer_epoch": epoch}
            world.ask(step, "init_producer_id", version, **init(name, **known))

        going_on("one that goes on", mine, 0)
        going_on("the same again", mine, 0)
        going_on("and on", mine, 1)
        going_on("two epochs ago", mine, 0)
        going_on("an epoch to come", mine, 9)
        going_on("another id", mine + 1_000, 2)
        going_on("only an id", mine, -1)
        world.ask("another that is new", "init_producer_id", version, **init(name))
        going_on("the one before it", mine, 2)
        going_on("itself", mine, 3)


@scenario()
def parts_of_a_transaction(world: World) -> None:
    world.topic("t", partitions=3)
    for version in versions("add_partitions_to_txn")[:4]:
        producer = Producer(world, f"x{version}")
        for step, fields in {
            "one": producer.adding("t", 0),
            "the same": producer.adding("t", 0),
            "two more": producer.adding("t", 1, 2),
            "none": producer.adding("t") | {"v3_and_below_topics": []},
            "an unknown partition": producer.adding("t", 0, 9),
            "an unknown topic": producer.adding("u", 0),
            "an older epoch": producer.adding("t", 0, producer_epoch=-1),
            "a newer epoch": producer.adding("t", 0, producer_epoch=9),
            "another producer": producer.adding("t", 0, producer_id=producer.id + 1_000),
            "an unknown id": producer.adding("t", 0, transactional_id="none"),
            "an empty id": producer.adding("t", 0, transactional_id=""),
        }.items():
            world.ask(step, "add_partitions_to_txn", version, **fields)
    for version in (4, 5):
        producer = Producer(world, f"x{version}")

        def several(
            *partitions: int, topic: str = "t", producer: Producer = producer, **other: Any
        ) -> dict[str, Any]:
            topics = [{"name": topic, "partitions": list(partitions)}]
            return {"transactions": [{**producer.owner, "topics": topics, **other}]}

        for step, fields in {
            "is it part": several(0, verify_only=True),
            "one": several(0),
            "is it part now": several(0, verify_only=True),
            "are they": several(0, 1, verify_only=True),
            "an unknown partition": several(9),
            "an unknown topic": several(0, topic="u"),
            "an older epoch": several(0, producer_epoch=-1),
            "is it of an older epoch": several(0, producer_epoch=-1, verify_only=True),
            "another producer": several(0, producer_id=producer.id + 1_000),
            "is it of another producer": several(
                0, producer_id=producer.id + 1_000, verify_only=True
            ),
            "an unknown id": several(0, transactional_id="none"),
            "is it of an unknown id": several(0, transactional_id="none", verify_only=True),
        }.items():
            world.ask(step, "add_partitions_to_txn", version, **fields)


@scenario()
def ends_of_a_transaction(world: World) -> None:
    world.topic("t")
    for version in versions("end_txn"):
        producer = Producer(world, f"x{version}")
        for step, committed in (("committed", True), ("aborted", False)):
            world.ask(f"none, {step}", "end_txn", version, **producer.ending(committed))
        for step, committed in (("committed", True), ("aborted", False)):
            producer.write("t", b"a")
            for wrong, other in {
                "an older epoch": {"producer_epoch": -1},
                "a newer epoch": {"producer_epoch": 9},
                "another producer": {"producer_id": producer.id + 1_000},
                "an unknown id": {"transactional_id": "none"},
                "an empty id": {"transactional_id": ""},
            }.items():
                fields = producer.ending(committed, **other)
                world.ask(f"{step} by {wrong}", "end_txn", version, **fields)
            world.ask(step, "end_txn", version, **producer.ending(committed))
            again = producer.ending(committed)
            world.eventually(f"{step} again", _ended, "end_txn", version, **again)
            world.ask(f"{step}, then not", "end_txn", version, **producer.ending(not committed))
        producer.add("t")
        world.ask("nothing was written", "end_txn", version, **producer.ending(True))
        adding = producer.adding("t")
        step = f"begun anew, {version}"
        world.eventually(step, _added, "add_partitions_to_txn", 3, **adding)
    world.ask("all of it", "fetch", 12, **fetch(world, "t", {0: 0}))
    world.ask("what is committed", "fetch", 12, **fetch(world, "t", {0: 0}, **READ_COMMITTED))


@scenario()
def transactional_records(world: World) -> None:
    world.topic("t", partitions=2)
    for version in versions("produce"):
        producer = Producer(world, f"x{version}")
        producer.add("t", 0)

        def send(
            step: str,
            records: bytes,
            partition: int = 0,
            name: str | None = producer.name,
            version: int = version,
        ) -> None:
            fields = produce("t", records, partition, transactional_id=name)
            world.ask(step, "produce", version, **fields)

        send("to a partition that was not added", producer.records(b"a"), 1)
        send("without its id", producer.records(b"a"), 0, None)
        send("with an unknown id", producer.records(b"a"), 0, "none")
        send("with an empty id", producer.records(b"a"), 0, "")
        send("of an older epoch", producer.records(b"a", epoch=-1))
        send("of a newer epoch", producer.records(b"a", epoch=5))
        send("in the middle", producer.records(b"a", sequence=5))
        send("the first", producer.records(b"a", b"b"))
        send("the first again", producer.records(b"a", b"b"))
        send("a gap", producer.records(b"c", sequence=5))
        send("the second", producer.records(b"c", sequence=2))
        plain = batch(
            b"d",
            producer_id=producer.id,
            producer_epoch=0,
            base_sequence=3,
            timestamp_ms=producer.now_ms,
        )
        send("not of the transaction", plain)
        send("of nobody", batch(b"d", timestamp_ms=producer.now_ms))
        send("with an unknown id, going on", producer.records(b"d", sequence=3), 0, "none")
        world.setup(is_fine, "end_txn", 3, **producer.ending(True))
        producer.await_state("CompleteCommit")
        send("after its end", producer.records(b"e", sequence=4))
        send("again after its end", producer.records(b"c", sequence=2))
        send("without one", plain)
        producer.add("t", 0)
        send("in the next", producer.records(b"e", sequence=4))
        producer.await_state("Ongoing")
        world.setup(is_fine, "end_txn", 3, **producer.ending(False))
        producer.await_state("CompleteAbort")
    world.ask("what is committed", "fetch", 12, **fetch(world, "t", {0: 0}, **READ_COMMITTED))
    world.ask("all of it", "fetch", 12, **fetch(world, "t", {0: 0}))


@scenario()
def isolation_levels(world: World) -> None:
    world.topic("t")
    one, two = Producer(world, "one"), Producer(world, "two")

    def look(when: str, *offsets: int) -> None:
        for offset in offsets or (0,):
            for how, fields in (("all", {}), ("committed", READ_COMMITTED)):
                asked = fetch(world, "t", {0: offset}, **fields)
                world.ask(f"{when}: {how} from {offset}", "fetch", 12, **asked)
        for how, fields in (("all", {}), ("committed", READ_COMMITTED)):
            for what, timestamp in (("end", -1), ("start", -2), ("by time", 1_000)):
                asked = list_offsets("t", timestamp, **fields)
                world.ask(f"{when}: {how}, {what}", "list_offsets", 7, **asked)
        world.ask(
            f"{when}: producers",
            "describe_producers",
            0,
            topics=[{"name": "t", "partition_indexes": [0, 9]}],
        )

    look("empty")
    one.write("t", b"1a", b"1b")
    look("one has begun")
    for how, fields in (("all", {}), ("committed", READ_COMMITTED)):
        world.ask(f"the latest of {how}", "list_offsets", 7, **list_offsets("t", -3, **fields))
    plain = batch(b"plain", timestamp_ms=one.now_ms)
    world.setup(lambda _: True, "produce", 9, **produce("t", plain))
    two.write("t", b"2a")
    look("two has begun", 0, 2)
    one.write("t", b"1c")
    two.end(False)
    look("two was aborted", 0, 3, 5)
    two.write("t", b"2b")
    one.end(True)
    look("one was committed", 0, 4, 6, 7)
    two.write("t", b"2c")
    two.end(False)
    one.write("t", b"1d")
    one.end(False)
    look("all are over", *range(12))
    for version in versions("fetch"):
        for how, fields in (("all", {}), ("committed", READ_COMMITTED)):
            asked = fetch(world, "t", {0: 0}, **fields)
            world.ask(f"{how} in this version", "fetch", version, **asked)
    for version in versions("list_offsets", 2):
        asked = list_offsets("t", -1, **READ_COMMITTED)
        world.ask("end in this version", "list_offsets", version, **asked)
    one.write("t", b"1e")
    late = fetch(world, "t", {0: 11}, max_wait_ms=WAIT_MS, **READ_COMMITTED)
    world.ask("what is open", "fetch", 12, timed_ms=WAIT_MS, **late)
    above = fetch(world, "t", {0: 12}, max_wait_ms=WAIT_MS, **READ_COMMITTED)
    world.ask("above the last stable offset", "fetch", 12, timed_ms=WAIT_MS, **above)
    waiting = fetch(world, "t", {0: 11}, max_wait_ms=20_000, **READ_COMMITTED)
    world.send("fetch", 12, client="waiting", **waiting)
    world.waits("it waits for the end", client="waiting")
    one.end(True)
    world.receive("it has the end", client="waiting")
    one.write("t", b"1f")
    world.ask("what is open is deleted", "delete_records", 2, **delete_records("t", -1))
    look("after that", 14)
    one.end(False)
    look("after its end", 14)


@scenario()
def fenced_producers(world: World) -> None:
    world.topic("t", partitions=2)
    for version in versions("init_producer_id"):
        old = Producer(world, f"x{version}")
        old.write("t", b"old")
        world.ask("another starts", "init_producer_id", version, **init(old.name))
        old.await_state("CompleteAbort")
        new = world.ask("and asks again", "init_producer_id", version, **init(old.name))
        for api, fields, some in (
            ("add_partitions_to_txn", old.adding("t"), (0, 1, 2, 3)),
            ("end_txn", old.ending(True), range(5)),
            ("add_offsets_to_txn", old.owner | {"group_id": "g"}, range(5)),
        ):
            for at in some:
                world.ask(f"the old one, {version}: {api}", api, at, **fields)
        data = old.records(b"old", sequence=1)
        asked = produce("t", data, transactional_id=old.name)
        world.ask(f"the old one writes, {version}", "produce", 9, **asked)
        asked = produce("t", old.records(b"old"), 1, transactional_id=old.name)
        world.ask(f"the old one writes elsewhere, {version}", "produce", 9, **asked)
        known = {"producer_id": old.id, "producer_epoch": old.epoch}
        step = f"the old one goes on, {version}"
        world.ask(step, "init_producer_id", 4, **init(old.name, **known))
        old.epoch = new["producer_epoch"]
        old.sequences.clear()
        old.write("t", b"new")
        old.end(True)
    stale = Producer(world, "stale")
    stale.write("t", b"x")
    known = {"producer_id": stale.id, "producer_epoch": 9}
    world.ask("a wrong epoch while ongoing", "init_producer_id", 4, **init("stale", **known))
    stale.await_state("CompleteAbort")
    world.ask("how it is then", "describe_transactions", 0, transactional_ids=["stale"])
    other = Producer(world, "other")
    other.write("t", b"x")
    known = {"producer_id": other.id + 1_000, "producer_epoch": 0}
    world.ask("a wrong id while ongoing", "init_producer_id", 4, **init("other", **known))
    world.ask("how it is after that", "describe_transactions", 0, transactional_ids=["other"])
    world.ask("all of it", "fetch", 12, **fetch(world, "t", {0: 0}))


@scenario(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"})
def transactions_that_take_too_long(world: World) -> None:
    world.topic("t")
    producer = Producer(world, "x", 400)
    producer.write("t", b"a")
    world.ask("it goes on", "fetch", 12, **fetch(world, "t", {0: 0}, **READ_COMMITTED))
    world.advance(1_000)
    producer.await_state("CompleteAbort")
    world.ask("it was aborted", "fetch", 12, **fetch(world, "t", {0: 0}, **READ_COMMITTED))
    world.ask("how it is", "describe_transactions", 0, transactional_ids=["x"])
    for version in versions("end_txn"):
        world.ask("committed too late", "end_txn", version, **producer.ending(True))
        world.ask("aborted too late", "end_txn", version, **producer.ending(False))
    for version in (1, 2, 3):
        world.ask("added too late", "add_partitions_to_txn", version, **producer.adding("t"))
    for version in (9, 11):
        asked = produce("t", producer.records(b"b", sequence=1), transactional_id="x")
        world.ask("written too late", "produce", version, **asked)
    known = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    world.ask("it goes on with its epoch", "init_producer_id", 4, **init("x", **known))
    world.ask("it starts anew", "init_producer_id", 4, **init("x"))


@scenario(brokers=3)
def transactions_of_frozen_followers(world: World) -> None:
    found = world.setup(is_fine, "find_coordinator", 2, key="x", key_type=1)
    at = found["node_id"]
    others = [broker for broker in world.brokers() if broker != at]
    world.topic("t", assignment=[[at, *others]])
    producer = Producer(world, "x", at=at)
    producer.write("t", b"a")
    for broker in others:
        world.freeze(broker)
    world.ask("its end", "end_txn", 3, at=at, **producer.ending(True))
    world.ask("its end again", "end_txn", 3, at=at, **producer.ending(True))
    world.ask("another end", "end_txn", 3, at=at, **producer.ending(False))
    adding = producer.adding("t")
    world.ask("the next", "add_partitions_to_txn", 3, at=at, **adding)
    world.ask("another producer", "init_producer_id", 4, at=at, **init("x"))
    names = {"transactional_ids": ["x"]}
    world.ask("how it is", "describe_transactions", 0, at=at, **names)
    asked = fetch(world, "t", {0: 0}, **READ_COMMITTED)
    world.ask("what is committed", "fetch", 12, at=at, **asked)
    data = produce("t", producer.records(b"b", sequence=1), transactional_id="x", timeout_ms=400)
    world.ask("it goes on writing", "produce", 9, at=at, **data)
    for broker in others:
        world.thaw(broker)
    producer.await_state("CompleteCommit")
    world.ask("how it is at last", "describe_transactions", 0, at=at, **names)
    world.eventually(
        "what is committed at last",
        lambda answer: answer["responses"][0]["partitions"][0]["last_stable_offset"] == 2,
        "fetch",
        12,
        at=at,
        **asked,
    )
    world.ask("elsewhere: init_producer_id", "init_producer_id", 4, at=others[0], **init("x"))
    world.ask("elsewhere: end_txn", "end_txn", 3, at=others[0], **producer.ending(True))
    world.ask(
        "elsewhere: add_partitions_to_txn", "add_partitions_to_txn", 3, at=others[0], **adding
    )
    world.ask("elsewhere: list_transactions", "list_transactions", 0, at=others[0])
