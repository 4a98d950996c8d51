"""Transactions as tools see them, and end them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.kafka.conformance.scenarios.requests import fetch
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.scenarios.transactions import READ_COMMITTED, Producer, init, is_fine
from tests.kafka.conformance.world import World


@scenario()
def transactions_described(world: World) -> None:
    world.coordinator()
    world.topic("t", partitions=3)
    # The first id of a Kafka is 0, which also stands for none; so nobody here has it.
    world.setup(is_fine, "init_producer_id", 4, **init(None))
    names = ["empty", "ongoing", "committed", "aborted"]
    empty, ongoing, committed, aborted = (Producer(world, name) for name in names)
    ongoing.write("t", b"x", partition=1)
    ongoing.add("t", 0)
    world.setup(is_fine, "add_offsets_to_txn", 3, **ongoing.owner, group_id="g")
    committed.write("t", b"x")
    committed.end(True)
    aborted.write("t", b"x")
    aborted.end(False)
    for name in (*names, "none", ""):
        world.ask(f"the {name}", "describe_transactions", 0, transactional_ids=[name])
    world.ask("two", "describe_transactions", 0, transactional_ids=names[:2])
    world.ask("none at all", "describe_transactions", 0, transactional_ids=[])
    for version in versions("list_transactions"):
        for step, states in {
            "all": [],
            "ongoing": ["Ongoing"],
            "two states": ["Empty", "CompleteCommit"],
            "in lower case": ["ongoing"],
            "an unknown state": ["Sleeping"],
            "one known, one not": ["Ongoing", "Sleeping"],
            "fencing": ["PrepareEpochFence", "Dead"],
        }.items():
            world.ask(f"listed: {step}", "list_transactions", version, state_filters=states)
        world.ask(
            "listed: by producer",
            "list_transactions",
            version,
            producer_id_filters=[ongoing.id, 123_456],
        )
    world.advance(10)
    for step, ms in (("short ones too", 0), ("long ones", 600_000)):
        world.ask(f"listed: {step}", "list_transactions", 1, duration_filter=ms)
    world.ask(
        "producers",
        "describe_producers",
        0,
        topics=[
            {"name": "t", "partition_indexes": [0, 1, 2, 9]},
            {"name": "u", "partition_indexes": [0]},
        ],
    )
    assert empty.epoch == 0


@scenario()
def markers_by_hand(world: World) -> None:
    world.topic("t", partitions=2)

    def markers(producer: Producer, committed: bool, *places: Sequence[Any], **other: Any) -> Any:
        return {
            "markers": [
                {
                    "producer_id": producer.id,
                    "producer_epoch": producer.epoch,
                    "transaction_result": committed,
                    "topics": [
                        {"name": topic, "partition_indexes": indices} for topic, *indices in places
                    ],
                    "coordinator_epoch": 0,
                    **other,
                }
            ]
        }

    one, two = Producer(world, "one"), Producer(world, "two")
    one.write("t", b"1")
    two.write("t", b"2", partition=1)
    for step, fields in {
        "aborted": markers(one, False, ("t", 0)),
        "again": markers(one, False, ("t", 0)),
        "an unknown partition": markers(one, False, ("t", 0, 9)),
        "an unknown topic": markers(one, False, ("u", 0)),
        "a newer epoch": markers(two, True, ("t", 1), producer_epoch=3, coordinator_epoch=5),
        "an older epoch": markers(two, True, ("t", 1), producer_epoch=2, coordinator_epoch=5),
        "a coordinator that was fenced": markers(
            two, True, ("t", 1), producer_epoch=3, coordinator_epoch=4
        ),
        "an unknown producer": markers(two, True, ("t", 1), producer_id=123_456),
        "none": {"markers": []},
    }.items():
        world.ask(step, "write_txn_markers", 1, **fields)
    for index in (0, 1):
        asked = fetch(world, "t", {index: 0}, **READ_COMMITTED)
        world.ask(f"what is in {index}", "fetch", 12, **asked)
    producers = [{"name": "t", "partition_indexes": [0, 1]}]
    world.ask("producers", "describe_producers", 0, topics=producers)
