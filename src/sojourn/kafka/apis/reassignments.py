"""AlterPartitionReassignments and ListPartitionReassignments: replicas move to other brokers.

    asked      replicas      adding   removing   in sync
               1 2           -        -          1 2
    3 2        3 2 1         3        1          1 2        3 follows
               3 2 1         3        1          1 2 3      3 has caught up: the move is done
               3 2           -        -          2 3        1 is removed; it led, so 3 is elected

The answer does not wait for that. A second request while the first is in progress replaces its
target; a cancelled one goes back to the original replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sojourn.kafka.answer_parts import by_topic
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply
    from sojourn.kafka.controller import Controller


def alter_partition_reassignments(request: Any, reply: Reply, context: Context) -> None:
    """Begin or cancel a reassignment for each partition."""
    controller = context.broker.cluster.controller
    responses = []
    for topic in request.topics:
        row = []
        for entry in topic.partitions:
            fields: dict[str, Any] = {"partition_index": entry.partition_index}
            try:
                _alter(controller, topic.name, entry.partition_index, entry.replicas)
            except Refused as refused:
                fields |= refused.fields
            row.append(fields)
        responses.append({"name": topic.name, "partitions": row})
    reply({"responses": responses, "error_message": None if responses else ""})


def _alter(controller: Controller, topic: str, index: int, replicas: Sequence[int] | None) -> None:
    partition = controller.partition(topic, index)
    if partition is None:
        what = "a topic named" if topic not in controller.topics else f"partition {index} of"
        raise Refused(ErrorCode.unknown_topic_or_partition, f"Unable to find {what} {topic}.")
    if replicas is None:
        controller.cancel_reassignment(partition)
        return
    error = ""
    if not replicas:
        error = "an empty replica list"
    elif len(set(replicas)) != len(replicas):
        error = f"a broker more than once: {list(replicas)}"
    else:
        brokers = controller.all_brokers()
        unknown = [replica for replica in replicas if replica not in brokers]
        if unknown:
            error = f"broker {unknown[0]}, but no such broker is registered"
    if error:
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            f"The manual partition assignment includes {error}.",
        )
    controller.reassign(partition, tuple(replicas))


def list_partition_reassignments(request: Any, reply: Reply, context: Context) -> None:
    """List the reassignments in progress, of the partitions asked for or of all."""
    controller = context.broker.cluster.controller
    if request.topics is None:
        partitions = list(controller.partitions())
    else:
        candidates = [
            controller.partition(topic.name, index)
            for topic in request.topics
            for index in topic.partition_indexes
        ]
        partitions = [partition for partition in candidates if partition is not None]
    rows = []
    for partition in partitions:
        if partition.is_reassigning:
            fields = {
                "partition_index": partition.index,
                "replicas": partition.replicas,
                "adding_replicas": partition.adding,
                "removing_replicas": partition.removing,
            }
            rows.append((partition.topic.name, fields))
    reply({"topics": by_topic(rows)})
