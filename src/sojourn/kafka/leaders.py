"""The leader's place in an answer: who leads a partition that this broker does not lead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context
    from sojourn.kafka.partition import Partition


def current_leader(partition: Partition) -> dict[str, Any]:
    """The field `current_leader` of Fetch and Produce answers."""
    return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}


def leader_endpoints(
    partitions: Iterable[Partition | None], context: Context
) -> list[dict[str, Any]]:
    """The field `node_endpoints`: where the leaders of these partitions are, each once."""
    leaders = {one.leader for one in partitions if one is not None and one.leader >= 0}
    cluster = context.broker.cluster
    return [cluster.broker(leader).endpoint(context) for leader in sorted(leaders)]
