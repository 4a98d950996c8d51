"""ApiVersions, Metadata and DescribeCluster: what there is, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sojourn.kafka import wire
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply
    from sojourn.kafka.topic import Topic

_NO_ID = UUID(int=0)
_NOT_ASKED = -(2**31)  # authorized operations: nobody has asked, or there is nothing to say

# librdkafka compresses only for brokers that say they know produce version 0, so Kafka goes on
# saying so although it has forgotten those versions; and so do we.
_SAID_LOWEST = {"produce": 0}


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {
        "api_versions": api_versions,
        "metadata": metadata,
        "describe_cluster": describe_cluster,
    }


def api_versions(request: Any, reply: Reply, context: Context) -> None:
    """Say what this broker serves."""
    reply(
        {
            "api_keys": [
                {
                    "api_key": wire.API_KEYS[name],
                    "min_version": _SAID_LOWEST.get(name, wire.VERSIONS[name][0]),
                    "max_version": wire.VERSIONS[name][1],
                }
                for name in sorted(context.broker.handlers, key=wire.API_KEYS.__getitem__)
            ],
            "finalized_features_epoch": 0,
        }
    )


def metadata(request: Any, reply: Reply, context: Context) -> None:
    """Say which brokers there are and who leads what; topics asked for may be created."""
    cluster = context.broker.cluster
    topics = []
    for name, topic_id in _asked(request, context):
        if topic_id is not None:
            topic = cluster.controller.topic_by_id(topic_id)
            error = ErrorCode.unknown_topic_id
        else:
            topic, error = cluster.controller.topic_or_created(
                name, may_create=getattr(request, "allow_auto_topic_creation", True)
            )
        if topic is not None:
            topics.append(_described(topic, context.api_version))
        else:
            topics.append(
                {
                    "error_code": error,
                    "name": name,
                    "topic_id": topic_id or _NO_ID,
                    "is_internal": False,
                    "partitions": [],
                }
            )
    reply(
        {
            "brokers": _brokers(context),
            "cluster_id": cluster.id,
            "controller_id": cluster.controller.id,
            "topics": topics,
            "cluster_authorized_operations": _NOT_ASKED,
        }
    )


def _asked(request: Any, context: Context) -> list[tuple[str, UUID | None]]:
    topics = request.topics
    if topics is None or (context.api_version == 0 and not topics):
        return [(name, None) for name in context.broker.cluster.controller.topics]
    return [(topic.name or "", getattr(topic, "topic_id", None)) for topic in topics]


def _brokers(context: Context) -> list[wire.Fields]:
    return [b.endpoint() for b in context.broker.cluster.brokers if b.is_alive]


def _described(topic: Topic, version: int) -> wire.Fields:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": False,
        "partitions": [
            {
                "error_code": ErrorCode.none
                if partition.leader >= 0
                else ErrorCode.leader_not_available,
                "partition_index": partition.index,
                "leader_id": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replica_nodes": partition.replicas,
                "isr_nodes": sorted(partition.isr),
                "offline_replicas": partition.offline_replicas(),
            }
            for partition in topic.partitions
        ],
    }


def describe_cluster(request: Any, reply: Reply, context: Context) -> None:
    """Say which brokers there are."""
    cluster = context.broker.cluster
    reply(
        {
            "cluster_id": cluster.id,
            "controller_id": cluster.controller.id,
            "brokers": [
                {"broker_id": b["node_id"], "host": b["host"], "port": b["port"]}
                for b in _brokers(context)
            ],
            "cluster_authorized_operations": _NOT_ASKED,
            "endpoint_type": 1,
        }
    )
