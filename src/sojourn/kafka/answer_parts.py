"""What answers of several APIs have in common: leaders, rows by topic, and values for "none"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context
    from sojourn.kafka.partition import Partition

#: The id of a topic that has none, or is not known.
NO_ID = UUID(int=0)
#: Authorized operations that the client has not asked for.
NOT_ASKED = -(2**31)

Topic = TypeVar("Topic")
Row = TypeVar("Row")


def by_topic(rows: Iterable[tuple[Topic, Row]], topic: str = "name") -> list[dict[str, Any]]:
    """Rows of partitions, each with its topic, as answers have them: a list for each topic.

    `topic` is the field with the topic's name, or id.
    """
    partitions: dict[Topic, list[Row]] = {}
    for name, row in rows:
        partitions.setdefault(name, []).append(row)
    return [{topic: name, "partitions": some} for name, some in partitions.items()]


def current_leader(partition: Partition) -> dict[str, Any]:
    """The field `current_leader` of Fetch and Produce answers: who leads, if not this broker."""
    return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}


def leader_endpoints(
    partitions: Iterable[Partition | None], context: Context
) -> list[dict[str, Any]]:
    """The field `node_endpoints`: where the leaders of these partitions are, each once."""
    leaders = {one.leader for one in partitions if one is not None and one.leader >= 0}
    cluster = context.broker.cluster
    return [cluster.broker(leader).endpoint(context) for leader in sorted(leaders)]
