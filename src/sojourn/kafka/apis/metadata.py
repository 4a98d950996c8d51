"""ApiVersions, Metadata, DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sojourn.kafka import wire
from sojourn.kafka.answer_parts import NO_ID, NOT_ASKED
from sojourn.kafka.features import SUPPORTED
from sojourn.kafka.internal_topics import is_internal
from sojourn.kafka.topic import name_error
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply
    from sojourn.kafka.partition import Partition
    from sojourn.kafka.topic import Topic

# Every client may do everything, a bit for each: read 3, write 4, create 5, delete 6, alter 7,
# describe 8, act as a broker 9, describe and alter settings 10 and 11, write idempotently 12.
_TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
_CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))

_BROKERS, _CONTROLLERS = 1, 2  # endpoint types
_TOPIC_IDS_SINCE = 12  # from this version on topics can be named by their id

_PARTITIONS_MAX = 2_000  # Kafka's max.request.partition.size.limit

# librdkafka compresses only for brokers that advertise produce version 0, so Kafka still advertises
# it, although it no longer serves those versions; and so do we.
_ADVERTISED_LOWEST = {"produce": 0}

# Before this version clients do not read features that begin with level 0.
_LEVEL_0_SINCE = 4

# A client's software name and version.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(request: Any, reply: Reply, context: Context) -> None:
    """Answer the APIs and versions that this broker serves, and the cluster's features."""
    features = context.broker.cluster.features
    names = (
        getattr(request, "client_software_name", "unknown"),
        getattr(request, "client_software_version", "unknown"),
    )
    if not all(_SOFTWARE.fullmatch(name) for name in names):
        reply({"error_code": ErrorCode.invalid_request, "api_keys": []})
        return
    reply(
        {
            "api_keys": [
                {
                    "api_key": wire.API_KEYS[name],
                    "min_version": _ADVERTISED_LOWEST.get(name, wire.VERSIONS[name][0]),
                    "max_version": wire.VERSIONS[name][1],
                }
                for name in sorted(context.broker.handlers, key=wire.API_KEYS.__getitem__)
            ],
            "supported_features": [
                {"name": name, "min_version": levels.lowest, "max_version": levels.highest}
                for name, levels in SUPPORTED.items()
                if levels.lowest or context.api_version >= _LEVEL_0_SINCE
            ],
            "finalized_features_epoch": features.epoch,
            "finalized_features": [
                {"name": name, "max_version_level": level, "min_version_level": level}
                for name, level in features.finalized().items()
            ],
        }
    )


def metadata(request: Any, reply: Reply, context: Context) -> None:
    """Answer the brokers, topics and leaders; topics asked for may be created."""
    cluster = context.broker.cluster
    topics: list[wire.Fields] = []
    with_topics = getattr(request, "include_topic_authorized_operations", False)
    with_cluster = getattr(request, "include_cluster_authorized_operations", False)
    names_and_ids = _names_and_ids(request, context)
    if context.api_version < _TOPIC_IDS_SINCE and any(
        topic_id is not None for _, topic_id in names_and_ids
    ):
        reply(
            {
                "brokers": [],
                "cluster_id": cluster.id,
                "controller_id": -1,
                "topics": [
                    _unknown(name, ErrorCode.invalid_request, topic_id)
                    for name, topic_id in names_and_ids
                ],
                "cluster_authorized_operations": NOT_ASKED,
            }
        )
        return
    for name, topic_id in names_and_ids:
        if topic_id is not None:
            topic = context.broker.metadata_cache.topic_by_id(topic_id)
            error = ErrorCode.unknown_topic_id
        else:
            topic, error = cluster.controller.find_or_create_topic(
                name,
                getattr(request, "allow_auto_topic_creation", True),
                context.broker.metadata_cache,
            )
        if topic is not None:
            topics.append(
                {
                    **_described(topic),
                    "partitions": [_partition(partition) for partition in topic.partitions],
                    "topic_authorized_operations": _TOPIC_OPERATIONS if with_topics else NOT_ASKED,
                }
            )
        else:
            topics.append(_unknown(None if topic_id else name, error, topic_id))
    reply(
        {
            "brokers": _brokers(context),
            "cluster_id": cluster.id,
            "controller_id": cluster.controller.id,
            "topics": topics,
            "cluster_authorized_operations": _CLUSTER_OPERATIONS if with_cluster else NOT_ASKED,
        }
    )


def _names_and_ids(request: Any, context: Context) -> list[tuple[str, UUID | None]]:
    topics = request.topics
    if topics is None or (context.api_version == 0 and not topics):
        return [(topic.name, None) for topic in context.broker.metadata_cache.topics()]
    # Each once, also if it was asked for twice.
    return list(
        dict.fromkeys((topic.name or "", getattr(topic, "topic_id", None)) for topic in topics)
    )


def _brokers(context: Context) -> list[wire.Fields]:
    return [b.endpoint(context) for b in context.broker.cluster.brokers if b.is_alive]


def _described(topic: Topic) -> wire.Fields:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
    }


def _partition(partition: Partition) -> wire.Fields:
    has_leader = partition.leader >= 0
    return {
        "error_code": ErrorCode.none if has_leader else ErrorCode.leader_not_available,
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": sorted(partition.isr),
        "offline_replicas": partition.offline_replicas(),
    }


def describe_cluster(request: Any, reply: Reply, context: Context) -> None:
    """Answer the brokers."""
    cluster = context.broker.cluster
    endpoint_type = getattr(request, "endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        is_known = endpoint_type == _CONTROLLERS
        reply(
            {
                "error_code": ErrorCode.mismatched_endpoint_type
                if is_known
                else ErrorCode.unsupported_endpoint_type,
                "error_message": f"the request was sent to a broker; it asks for {endpoint_type}",
                "cluster_id": "",
                "controller_id": -1,
                "brokers": [],
                "cluster_authorized_operations": NOT_ASKED,
                "endpoint_type": 1,
            }
        )
        return
    reply(
        {
            "cluster_id": cluster.id,
            "controller_id": cluster.controller.id,
            "brokers": [
                {"broker_id": b["node_id"], "host": b["host"], "port": b["port"]}
                for b in _brokers(context)
            ],
            "cluster_authorized_operations": _CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations
            else NOT_ASKED,
            "endpoint_type": 1,
        }
    )


def describe_topic_partitions(request: Any, reply: Reply, context: Context) -> None:
    """Describe topics in the order of their names, up to a limit, with a cursor to go on from."""
    known_topics = {topic.name: topic for topic in context.broker.metadata_cache.topics()}
    named = {topic.name for topic in request.topics}
    names = sorted(named or known_topics)
    limit = max(1, min(request.response_partition_limit, _PARTITIONS_MAX))
    first = 0
    if request.cursor is not None:
        start = request.cursor.topic_name
        first = request.cursor.partition_index if start in names else 0
        names = [name for name in names if name >= start]
    if first < 0 or (named and request.cursor is not None and start not in named):
        reply({"topics": [_unknown(name, ErrorCode.invalid_request) for name in sorted(named)]})
        return
    topics: list[wire.Fields] = []
    cursor = None
    for name in names:
        topic = known_topics.get(name)
        if limit == 0:
            cursor = {"topic_name": name, "partition_index": 0}
            break
        if topic is None:
            error = ErrorCode.unknown_topic_or_partition
            if name_error(name):
                error = ErrorCode.invalid_topic_exception
            topics.append(
                {**_unknown(name, error), "topic_authorized_operations": _TOPIC_OPERATIONS}
            )
        else:
            shown = topic.partitions[first : first + limit]
            topics.append(
                {
                    **_described(topic),
                    "partitions": [
                        {
                            **_partition(partition),
                            "eligible_leader_replicas": [],
                            "last_known_elr": [],
                        }
                        for partition in shown
                    ],
                    "topic_authorized_operations": _TOPIC_OPERATIONS,
                }
            )
            limit -= len(shown)
            if first + len(shown) < len(topic.partitions):
                cursor = {"topic_name": name, "partition_index": first + len(shown)}
                break
        first = 0
    reply({"topics": topics, "next_cursor": cursor})


def _unknown(name: str | None, error: ErrorCode, topic_id: UUID | None = None) -> wire.Fields:
    return {
        "error_code": error,
        "name": name,
        "topic_id": topic_id or NO_ID,
        "is_internal": name is not None and is_internal(name),
        "partitions": [],
    }
