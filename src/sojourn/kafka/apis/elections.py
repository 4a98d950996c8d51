"""ElectLeaders: elect the preferred replica, or with an unclean election any replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply
    from sojourn.kafka.controller import Controller
    from sojourn.kafka.partition import Partition

PREFERRED = 0
UNCLEAN = 1

_NOT_NEEDED = "Leader election not needed for topic partition."


def elect_leaders(request: Any, reply: Reply, context: Context) -> None:
    """Hold an election for each partition asked for, or for all."""
    controller = context.broker.cluster.controller
    unclean = getattr(request, "election_type", PREFERRED) == UNCLEAN
    request_topics = request.topic_partitions
    is_for_all = request_topics is None
    if request_topics is None:
        wanted = [
            (topic.name, range(len(topic.partitions))) for topic in controller.topics.values()
        ]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request_topics]
    results = []
    for name, indices in wanted:
        row = []
        for index in indices:
            code, message = _elect(controller, controller.partition(name, index), unclean)
            if not (is_for_all and code is ErrorCode.election_not_needed):
                row.append({"partition_id": index, "error_code": code, "error_message": message})
        if row or is_for_all:
            results.append({"topic": name, "partition_result": row})
    reply({"replica_election_results": results})


def _elect(
    controller: Controller, partition: Partition | None, unclean: bool
) -> tuple[ErrorCode, str | None]:
    if partition is None:
        return ErrorCode.unknown_topic_or_partition, "No such topic or partition."
    if unclean:
        if partition.leader >= 0:
            return ErrorCode.election_not_needed, _NOT_NEEDED
        if not controller.elect(partition, unclean=True):
            return ErrorCode.eligible_leaders_not_available, "no replica is alive"
        return ErrorCode.none, None
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        return ErrorCode.election_not_needed, _NOT_NEEDED
    try:
        controller.move_leader(partition, preferred)
    except Refused as refused:
        return ErrorCode.preferred_leader_not_available, refused.reason
    return ErrorCode.none, None
