"""A cluster's groups: who coordinates which, and what is left when a broker stops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from sojourn.kafka.groups.apis import GroupApis
from sojourn.kafka.groups.config import GroupConfig
from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.groups.group import Group
from sojourn.kafka.groups.ledger import Ledger

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Handler
    from sojourn.kafka.cluster import Cluster


class Groups(Mapping[str, Group]):
    """All groups of a cluster by their id, each on the broker that coordinates it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.ledger = Ledger()
        self._coordinators: dict[int, GroupCoordinator] = {}

    def handlers(self, broker: Broker) -> Mapping[str, Handler]:
        """The handlers of a broker's own coordinator, which is made now."""
        coordinator = self._coordinators[broker.id] = GroupCoordinator(
            self._cluster.purgatories.rebalance,
            self._cluster.purgatories.heartbeat,
            partial(self._is_at, broker),
            config=GroupConfig.of(broker.settings.number),
            ledger=self.ledger,
            agenda=self._cluster.agenda,
            now_ms=self._cluster.now_ms,
        )
        return GroupApis(coordinator).handlers()

    def settle(self) -> None:
        """A broker has started or stopped: groups go where they belong now."""
        with self._cluster.agenda:
            for coordinator in self._coordinators.values():
                coordinator.give_up()
            for coordinator in self._coordinators.values():
                coordinator.take_over()

    def expire(self) -> None:
        """Forget offsets that were kept for `offsets.retention.minutes`."""
        keep_ms = self._cluster.settings.number("offsets.retention.minutes") * 60_000
        for coordinator in self._coordinators.values():
            coordinator.expire(keep_ms)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted, and with it how far anybody had read it."""
        with self._cluster.agenda:
            self.ledger.forget_topic(topic)

    def _is_at(self, broker: Broker, group_id: str) -> bool:
        return broker.is_alive and self._cluster.coordinator(group_id) is broker

    def __getitem__(self, group_id: str) -> Group:
        for coordinator in self._coordinators.values():
            if group_id in coordinator.groups:
                return coordinator.groups[group_id]
        raise KeyError(group_id)

    def __iter__(self) -> Iterator[str]:
        with self._cluster.agenda:
            ids = [one for where in self._coordinators.values() for one in where.groups]
        return iter(ids)

    def __len__(self) -> int:
        return sum(len(coordinator.groups) for coordinator in self._coordinators.values())
