"""A cluster's purgatories: one for each kind of request that can wait, on one timer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sojourn.core.purgatory import Purgatory

if TYPE_CHECKING:
    from sojourn.core.timer import Timer

# Each leadership has its own key, so keys grow with every election. Idle ones are not needed
# (leadership.py); a minute keeps those of partitions in use.
_FORGET_AFTER_MS = 60_000


class Purgatories:
    """By attribute (`purgatories.delete_records`), by name (`["delete-records"]`), or all."""

    def __init__(self, timer: Timer) -> None:
        self.produce = Purgatory("produce", timer, forget_keys_after_ms=_FORGET_AFTER_MS)
        self.fetch = Purgatory("fetch", timer)
        self.delete_records = Purgatory("delete-records", timer)
        self.topic = Purgatory("topic", timer)
        self.rebalance = Purgatory("rebalance", timer)
        self.heartbeat = Purgatory("heartbeat", timer)
        self.transaction = Purgatory("transaction", timer)
        self.transaction_marker = Purgatory("transaction-marker", timer)
        self._all = {
            purgatory.name: purgatory
            for purgatory in (
                self.produce,
                self.fetch,
                self.delete_records,
                self.topic,
                self.rebalance,
                self.heartbeat,
                self.transaction,
                self.transaction_marker,
            )
        }

    def __getitem__(self, name: str) -> Purgatory:
        return self._all[name]

    def __iter__(self) -> Iterator[Purgatory]:
        return iter(self._all.values())

    def close(self) -> None:
        for purgatory in self:
            purgatory.close()

    def __repr__(self) -> str:
        waiting = ", ".join(f"{p.name} {p.watched}" for p in self if p.watched)
        return f"<Purgatories watched: {waiting or 'none'}>"
