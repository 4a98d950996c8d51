"""A member of a consumer group, seen from the protocol, that talks without sockets."""

from __future__ import annotations

from typing import Any

from sojourn.kafka.groups.consumer.group import ConsumerGroup
from sojourn.kafka.groups.consumer.member import Place
from sojourn.kafka.groups.consumer.messages import LEAVE, Beat, BeatAnswer
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode
from tests.kafka.group_world import World

REBALANCE_MS = 60_000


class ConsumerPerson:
    """A consumer that does what it is told: it remembers its epoch and its partitions."""

    def __init__(
        self,
        world: World,
        name: str,
        *topics: str,
        group: str = "g",
        instance_id: str | None = None,
        **joining: Any,
    ) -> None:
        self.world = world
        self.name = name
        self.group = group
        self.instance_id = instance_id
        self.joining: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "topics": frozenset(topics or ("t",)),
            **joining,
        }
        self.epoch = 0
        self.owned: frozenset[Place] = frozenset()

    def join(self, **fields: Any) -> BeatAnswer:
        """Join, with nothing."""
        self.owned = frozenset()
        return self.beat(epoch=0, owned=self.owned, **{**self.joining, **fields})

    def beat(self, **fields: Any) -> BeatAnswer:
        """Send a heartbeat, and take what comes back."""
        given = {"epoch": self.epoch, "instance_id": self.instance_id, **fields}
        answer = self.world.coordinator.consumers.heartbeat(Beat(self.group, self.name, **given))
        self.epoch = answer.epoch
        if answer.assigned is not None:
            self.owned = frozenset(answer.assigned)
        return answer

    def own(self, **fields: Any) -> BeatAnswer:
        """Tell which partitions it has."""
        return self.beat(owned=self.owned, **fields)

    def leave(self) -> BeatAnswer:
        return self.beat(epoch=LEAVE)

    def error(self, **fields: Any) -> ErrorCode:
        """Why its heartbeat is refused."""
        try:
            self.beat(**fields)
        except Refused as refused:
            return refused.code
        raise AssertionError("it is not refused")

    @property
    def numbers(self) -> list[int]:
        """Its partitions, without their topics."""
        return sorted(number for _, number in self.owned)


def consumer_group(world: World, group_id: str = "g") -> ConsumerGroup:
    group = world.coordinator.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return group


def settle(*people: ConsumerPerson, rounds: int = 6) -> None:
    """Heartbeats of all until everybody has its part."""
    for _ in range(rounds):
        for person in people:
            person.own()
