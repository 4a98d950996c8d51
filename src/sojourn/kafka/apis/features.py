"""UpdateFeatures and DescribeQuorum: what clients ask of the controllers.

Every broker is a controller, too, and the active one is the first that is alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.kafka.features import UpdateType
from sojourn.kafka.internal_topics import CLUSTER_METADATA
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode, Fields

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Reply

_TYPES_SINCE = 1  # before this version an update only says whether it may be a downgrade
_EPOCH = 1  # of the active controller


def update_features(request: Any, reply: Reply, context: Context) -> None:
    """Set the levels of features: of all of them, or of none if one is refused."""
    features = context.broker.cluster.features
    for update in request.feature_updates:
        try:
            features.check_update(
                update.feature, update.max_version_level, _update_type(update, context.api_version)
            )
        except Refused as refused:
            reply(
                {
                    "error_code": refused.code,
                    "error_message": "The update failed for all features since the following "
                    f"feature had an error: {refused.reason}",
                }
            )
            return
    if not getattr(request, "validate_only", False):
        for update in request.feature_updates:
            features.update(update.feature, update.max_version_level)
    reply(
        {
            "results": [
                {"feature": update.feature, "error_message": "NONE"}
                for update in request.feature_updates
            ]
        }
    )


def _update_type(update: Any, version: int) -> int:
    if version >= _TYPES_SINCE:
        return int(update.upgrade_type)
    return UpdateType.SAFE_DOWNGRADE if update.allow_downgrade else UpdateType.UPGRADE


def describe_quorum(request: Any, reply: Reply, context: Context) -> None:
    """Answer which controllers vote, and which of them is active."""
    request_partitions = [
        (topic.topic_name, [one.partition_index for one in topic.partitions])
        for topic in request.topics
    ]
    if request_partitions != [(CLUSTER_METADATA, [0])]:
        reply(
            {
                "topics": [
                    {"topic_name": name, "partitions": [_unknown(index) for index in indexes]}
                    for name, indexes in request_partitions
                ],
                "error_message": "",
            }
        )
        return
    cluster = context.broker.cluster
    now_ms, offset = cluster.wall_ms(), cluster.controller.changes
    voters = [broker for broker in cluster.brokers if broker.is_alive]
    states = [
        {
            "replica_id": broker.id,
            "replica_directory_id": None,
            "log_end_offset": offset,
            "last_fetch_timestamp": now_ms,
            "last_caught_up_timestamp": now_ms,
        }
        for broker in voters
    ]
    partition = {
        "partition_index": 0,
        "error_message": "",
        "leader_id": cluster.controller.id,
        "leader_epoch": _EPOCH,
        "high_watermark": offset,
        "current_voters": states,
        "observers": [],
    }
    reply(
        {
            "error_message": "",
            "topics": [{"topic_name": CLUSTER_METADATA, "partitions": [partition]}],
            "nodes": [_node(broker, context) for broker in voters],
        }
    )


def _unknown(index: int) -> Fields:
    return {
        "partition_index": index,
        "error_code": ErrorCode.unknown_topic_or_partition,
        "error_message": "the controllers have one log, __cluster_metadata, with partition 0 only",
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
    }


def _node(broker: Broker, context: Context) -> Fields:
    endpoint = broker.endpoint(context)
    listener = {"name": "CONTROLLER", "host": endpoint["host"], "port": endpoint["port"]}
    return {"node_id": broker.id, "listeners": [listener]}
