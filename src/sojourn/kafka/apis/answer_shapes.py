"""Where errors stand in answers: which list of a request comes back as which list of its answer.

produce    topic_data[name] / partition_data[index]
               -> responses[name] / partition_responses[index, error_code]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from sojourn.kafka import wire

TOPIC, PARTITION, OTHER = "topic", "partition", "other"


class Level(NamedTuple):
    """A list of the request, the list of the answer that mirrors it, and the levels below."""

    request_list: str
    answer_list: str
    keys: Mapping[str, str]  # the answer's field: the request's, or "" for the row itself
    names: str = OTHER  # what a row stands for
    below: Level | None = None
    error: str = "error_code"
    has_error: bool = False  # a row has an error for everything below it


def level_of(api_name: str, payload: Any) -> Level | None:
    """The first level of this request; which one depends on the version."""
    levels = [level for level in _TABLE.get(api_name, ()) if hasattr(payload, level.request_list)]
    filled = (level for level in levels if getattr(payload, level.request_list))
    return next(filled, levels[0] if levels else None)


def can_name(api_name: str, what: str) -> bool:
    """Whether requests of this API name topics, or partitions."""
    levels = list(_TABLE.get(api_name, ()))
    while levels:
        level = levels.pop()
        if level.names == what:
            return True
        if level.below is not None:
            levels.append(level.below)
    return False


def can_carry_error(api_name: str) -> bool:
    """Whether an answer of this API has a place for an error."""
    newest = wire.api(api_name, wire.VERSIONS[api_name][1])
    return api_name in _TABLE or has_error(newest.response)


def has_error(response: Any) -> bool:
    """Whether this class of answers has one error for the whole answer."""
    return any(field.name == "error_code" for field in dataclasses.fields(response))


def _topics(
    request_list: str = "topics",
    answer_list: str = "topics",
    key: str = "name",
    below: Level | None = None,
    **more: str,
) -> Level:
    return Level(request_list, answer_list, {key: key, **more}, TOPIC, below)


_PARTITIONS = Level("partitions", "partitions", {"partition_index": "partition_index"}, PARTITION)
_INDEXES = Level("partition_indexes", "partitions", {"partition_index": ""}, PARTITION)
_RESULTS = Level(
    "partitions",
    "results_by_partition",
    {"partition_index": ""},
    PARTITION,
    error="partition_error_code",
)
_RESOURCE = {"resource_name": "resource_name", "resource_type": "resource_type"}

_TABLE: Mapping[str, tuple[Level, ...]] = {
    "produce": (
        _topics(
            "topic_data",
            "responses",
            topic_id="topic_id",
            below=Level("partition_data", "partition_responses", {"index": "index"}, PARTITION),
        ),
    ),
    "fetch": (
        _topics(
            answer_list="responses",
            key="topic",
            topic_id="topic_id",
            below=_PARTITIONS._replace(keys={"partition_index": "partition"}),
        ),
    ),
    "list_offsets": (_topics(below=_PARTITIONS),),
    "metadata": (_topics(topic_id="topic_id"),),
    "offset_commit": (_topics(below=_PARTITIONS),),
    "offset_fetch": (
        Level(
            "groups",
            "groups",
            {"group_id": "group_id"},
            below=_topics(below=_INDEXES),
            has_error=True,
        ),
        _topics(below=_INDEXES),
    ),
    "find_coordinator": (Level("coordinator_keys", "coordinators", {"key": ""}),),
    "describe_groups": (Level("groups", "groups", {"group_id": ""}),),
    "create_topics": (_topics(),),
    "delete_topics": (
        _topics(answer_list="responses", topic_id="topic_id"),
        Level("topic_names", "responses", {"name": ""}, TOPIC),
    ),
    "delete_records": (_topics(below=_PARTITIONS),),
    "offset_for_leader_epoch": (
        _topics(key="topic", below=_PARTITIONS._replace(keys={"partition": "partition"})),
    ),
    "describe_configs": (Level("resources", "results", _RESOURCE, TOPIC),),
    "alter_configs": (Level("resources", "responses", _RESOURCE, TOPIC),),
    "incremental_alter_configs": (Level("resources", "responses", _RESOURCE, TOPIC),),
    "create_partitions": (_topics(answer_list="results"),),
    "delete_groups": (Level("groups_names", "results", {"group_id": ""}),),
    "elect_leaders": (
        _topics(
            "topic_partitions",
            "replica_election_results",
            "topic",
            Level("partitions", "partition_result", {"partition_id": ""}, PARTITION),
        ),
    ),
    "alter_partition_reassignments": (_topics(answer_list="responses", below=_PARTITIONS),),
    "offset_delete": (_topics(below=_PARTITIONS),),
    "describe_topic_partitions": (_topics(),),
    "add_partitions_to_txn": (
        Level(
            "transactions",
            "results_by_transaction",
            {"transactional_id": "transactional_id"},
            below=_topics(answer_list="topic_results", below=_RESULTS),
        ),
        _topics("v3_and_below_topics", "results_by_topic_v3_and_below", below=_RESULTS),
    ),
    "write_txn_markers": (
        Level(
            "markers",
            "markers",
            {"producer_id": "producer_id"},
            below=_topics(below=_INDEXES),
        ),
    ),
    "txn_offset_commit": (_topics(below=_PARTITIONS),),
    "describe_producers": (_topics(below=_INDEXES),),
    "describe_transactions": (
        Level("transactional_ids", "transaction_states", {"transactional_id": ""}),
    ),
    "alter_user_scram_credentials": (
        Level("upsertions", "results", {"user": "name"}),
        Level("deletions", "results", {"user": "name"}),
    ),
    "consumer_group_describe": (Level("group_ids", "groups", {"group_id": ""}),),
}
