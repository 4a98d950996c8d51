"""DescribeLogDirs and AlterReplicaLogDirs: one directory for each broker, in name only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.kafka.answer_parts import by_topic
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Reply


def describe_log_dirs(request: Any, reply: Reply, context: Context) -> None:
    """Answer the size of this broker's logs, of the partitions asked for or of all."""
    broker = context.broker
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    topics = []
    for topic in broker.cluster.controller.topics.values():
        row = []
        for partition in topic.partitions:
            log = partition.logs.get(broker.id)
            if log is not None and (wanted is None or (topic.name, partition.index) in wanted):
                row.append(
                    {
                        "partition_index": partition.index,
                        "partition_size": log.size,
                        "offset_lag": max(0, partition.high_watermark - log.end_offset),
                        "is_future_key": False,
                    }
                )
        if row:
            topics.append({"name": topic.name, "partitions": row})
    reply({"results": [{"log_dir": broker.log_dir, "topics": topics}]})


def alter_replica_log_dirs(request: Any, reply: Reply, context: Context) -> None:
    """Accept each replica's present directory, and refuse any other."""
    rows = []
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                code = _error(context.broker, directory.path, topic.name, index)
                rows.append((topic.name, {"partition_index": index, "error_code": code}))
    reply({"results": by_topic(rows, "topic_name")})


def _error(broker: Broker, path: str, topic: str, index: int) -> ErrorCode:
    if path != broker.log_dir:
        return ErrorCode.log_dir_not_found
    partition = broker.cluster.controller.partition(topic, index)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if broker.id not in partition.logs:
        return ErrorCode.replica_not_available
    return ErrorCode.none
