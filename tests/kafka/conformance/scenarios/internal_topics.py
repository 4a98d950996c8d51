"""The topics that Kafka keeps for itself: committed offsets and transactions."""

from __future__ import annotations

from typing import Any

from tests.kafka.conformance.scenarios.requests import (
    LONG_MS,
    create,
    delete_records,
    fetch,
    list_offsets,
    produce,
)
from tests.kafka.conformance.scenarios.scenario import scenario, versions
from tests.kafka.conformance.world import World

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def _metadata(name: str, may_create: bool = False) -> dict[str, Any]:
    return {"topics": [{"name": name}], "allow_auto_topic_creation": may_create}


def _is_there(answer: Any) -> bool:
    (topic,) = answer["topics"]
    return topic["error_code"] == 0 and all(one["leader_id"] >= 0 for one in topic["partitions"])


@scenario()
def internal_topics(world: World) -> None:
    for name in (OFFSETS, TRANSACTIONS):
        world.ask(f"{name} is not there", "metadata", 12, **_metadata(name))
    world.coordinator()
    world.setup(_is_there, "metadata", 12, **_metadata(OFFSETS))
    world.ask("created by a group", "metadata", 12, **_metadata(OFFSETS))
    world.ask("the other is not there yet", "metadata", 12, **_metadata(TRANSACTIONS))
    world.setup(
        lambda answer: answer["error_code"] == 0, "find_coordinator", 2, key="x", key_type=1
    )
    world.setup(_is_there, "metadata", 12, **_metadata(TRANSACTIONS))
    for version in versions("metadata"):
        world.ask("all", "metadata", version, topics=None if version else [])
    world.ask(
        "with operations",
        "metadata",
        10,
        topics=[{"name": OFFSETS}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    world.ask(
        "described by partition",
        "describe_topic_partitions",
        0,
        topics=[{"name": OFFSETS}],
        response_partition_limit=10,
        cursor=None,
    )
    for name in (OFFSETS, TRANSACTIONS):
        world.ask(
            f"settings of {name}",
            "describe_configs",
            4,
            resources=[{"resource_type": 2, "resource_name": name, "configuration_keys": None}],
            include_synonyms=True,
            include_documentation=False,
        )
        world.topic_ids[name] = world.exchange(1, "asks").ask("metadata", 12, **_metadata(name))[
            "topics"
        ][0]["topic_id"]
        for version in (3, 7, 9, 11):
            world.ask(f"produce to {name}", "produce", version, **produce(name))
        world.ask(
            f"produce to {name} as an admin", "produce", 9, client="__admin_client", **produce(name)
        )
        world.ask(f"start of {name}", "list_offsets", 5, **list_offsets(name, -2))
        world.ask(f"fetch beyond {name}", "fetch", 12, **fetch(world, name, {0: 999_999}))
        world.ask(f"delete records of {name}", "delete_records", 2, **delete_records(name, 0))
        world.ask(f"create {name} again", "create_topics", 7, **create(name))
        world.ask(
            f"more partitions of {name}, validated",
            "create_partitions",
            3,
            topics=[{"name": name, "count": 3, "assignments": None}],
            timeout=LONG_MS,
            validate_only=True,
        )
        world.ask(
            f"altered {name}",
            "incremental_alter_configs",
            1,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": name,
                    "configs": [
                        {"name": "retention.ms", "config_operation": 0, "value": "1000000"}
                    ],
                }
            ],
            validate_only=True,
        )
        world.ask(
            f"a commit for {name}",
            "offset_commit",
            2,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time=-1,
            topics=[
                {
                    "name": name,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": 3,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        )
        world.ask(
            f"{name} in a transaction",
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[{"name": name, "partitions": [0]}],
        )


@scenario()
def internal_topics_asked_for(world: World) -> None:
    for name in (OFFSETS, TRANSACTIONS):
        world.ask(f"{name} asked for", "metadata", 12, **_metadata(name, True))
        world.eventually(f"{name} is there", _is_there, "metadata", 12, **_metadata(name))
    for name in ("__cluster_metadata", "__share_group_state"):
        world.ask(f"{name} not to be created", "metadata", 12, **_metadata(name))
        world.ask(f"create {name}", "create_topics", 7, **create(name))
        world.ask(f"produce to {name}", "produce", 9, **produce(name))


@scenario()
def internal_topics_created_by_clients(world: World) -> None:
    for name in (OFFSETS, TRANSACTIONS):
        world.ask(f"create {name}", "create_topics", 7, **create(name))
        world.eventually(f"{name} is there", _is_there, "metadata", 12, **_metadata(name))
        world.ask(f"delete {name}", "delete_topics", 5, topic_names=[name], timeout=LONG_MS)
