"""A topic: its name, id, settings and partitions; and where replicas are placed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from sojourn.kafka.internal_topics import is_internal

if TYPE_CHECKING:
    from sojourn.kafka.partition import Partition
    from sojourn.kafka.settings.layers import Settings

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_NAME_LENGTH_MAX = 249

#: A topic's name and a partition's number.
TopicPartition = tuple[str, int]

#: For each partition the brokers that have a replica, the preferred leader first.
Assignment = list[tuple[int, ...]]


class Topic:
    """A topic. Its partitions are numbered from 0; they are added, never removed."""

    def __init__(self, name: str, topic_id: UUID, settings: Settings) -> None:
        self.name = name
        self.id = topic_id
        self.settings = settings
        self.partitions: list[Partition] = []
        self.is_internal = is_internal(name)  # Kafka keeps it for itself

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)

    def __repr__(self) -> str:
        return f"<Topic {self.name!r} of {len(self.partitions)} partitions>"


def name_error(name: str) -> str:
    """Why this cannot be a topic's name; empty if it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > _NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {_NAME_LENGTH_MAX}"
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return ""


def spread(
    brokers: Sequence[int], partitions: int, replication_factor: int, start: int, first: int = 0
) -> Assignment:
    """Place partitions `first`, `first` + 1, … so that leaders and replicas spread evenly.

    Leaders go round the brokers. The other replicas are the brokers after the leader, at a
    distance that grows by one with each round, so that one broker's partitions have different
    followers:

        brokers 1 2 3 4, start 0, three replicas

        partition   0      1      2      3      4      5
        replicas    1 2 3  2 3 4  3 4 1  4 1 2  1 3 4  2 4 1
    """
    placed: Assignment = []
    count = len(brokers)
    for partition in range(first, first + partitions):
        leader = (start + partition) % count
        shift = partition // count
        followers = [
            brokers[(leader + 1 + (shift + n) % (count - 1)) % count]
            for n in range(replication_factor - 1)
        ]
        placed.append((brokers[leader], *followers))
    return placed
