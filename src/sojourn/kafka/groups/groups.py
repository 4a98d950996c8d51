"""A cluster's groups: which broker coordinates each, also when brokers stop and start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from sojourn.kafka.groups.admin_apis import GroupAdminApis
from sojourn.kafka.groups.any_group import AnyGroup
from sojourn.kafka.groups.config import GroupConfig
from sojourn.kafka.groups.consumer.config import ConsumerGroupConfig
from sojourn.kafka.groups.consumer_apis import ConsumerApis
from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.groups.member_apis import MemberApis
from sojourn.kafka.groups.offset_apis import OffsetApis
from sojourn.kafka.groups.store import GroupStore

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Handler
    from sojourn.kafka.cluster import Cluster


class Groups(Mapping[str, AnyGroup]):
    """All groups of a cluster by their id, each on the broker that coordinates it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.store = GroupStore()
        self._coordinators: dict[int, GroupCoordinator] = {}

    def handlers(self, broker: Broker) -> Mapping[str, Handler]:
        """Make the broker's coordinator, and return its handlers."""
        coordinator = self._coordinators[broker.id] = GroupCoordinator(
            self._cluster.purgatories.rebalance,
            self._cluster.purgatories.heartbeat,
            partial(self._is_at, broker),
            topics=broker.metadata_cache,
            config=GroupConfig.of(broker.settings.number),
            consumer_config=ConsumerGroupConfig.of(broker.settings.number, broker.settings.text),
            store=self.store,
            agenda=self._cluster.agenda,
            now_ms=self._cluster.now_ms,
        )
        return {
            **MemberApis(coordinator).handlers(),
            **OffsetApis(coordinator).handlers(),
            **GroupAdminApis(coordinator).handlers(),
            **ConsumerApis(coordinator).handlers(),
        }

    def move_coordinators(self) -> None:
        """Move groups to the brokers that coordinate them now: one has started or stopped."""
        with self._cluster.agenda:
            for coordinator in self._coordinators.values():
                coordinator.unload()
            for coordinator in self._coordinators.values():
                coordinator.load()

    def expire(self) -> None:
        """Remove offsets that were kept for `offsets.retention.minutes`."""
        keep_ms = self._cluster.settings.number("offsets.retention.minutes") * 60_000
        for coordinator in self._coordinators.values():
            coordinator.expire(keep_ms)

    def remove_topic(self, topic: str) -> None:
        """Remove the offsets of a deleted topic."""
        with self._cluster.agenda:
            self.store.remove_topic(topic)

    def _is_at(self, broker: Broker, group_id: str) -> bool:
        return broker.is_alive and self._cluster.coordinator(group_id) is broker

    def __getitem__(self, group_id: str) -> AnyGroup:
        for coordinator in self._coordinators.values():
            if group_id in coordinator.groups:
                return coordinator.groups[group_id]
        raise KeyError(group_id)

    def __iter__(self) -> Iterator[str]:
        with self._cluster.agenda:
            group_ids = [
                group_id
                for coordinator in self._coordinators.values()
                for group_id in coordinator.groups
            ]
        return iter(group_ids)

    def __len__(self) -> int:
        return sum(len(coordinator.groups) for coordinator in self._coordinators.values())
