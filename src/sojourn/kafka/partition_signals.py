"""Signals to the requests that wait for a partition: one round for all changes of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.partition import Partition


class PartitionSignals:
    """Signals one partition's key in the purgatories. Called with the agenda held."""

    def __init__(self, partition: Partition, cluster: Cluster) -> None:
        self._partition = partition
        self._cluster = cluster
        self._is_deferred = False
        self._has_changed = False

    def after_append(self) -> None:
        """Signal fetches: something was appended."""
        if not self._is_deferred:
            self._is_deferred = True
            self._cluster.agenda.defer(self._signal)

    def after_change(self) -> None:
        """Signal everything: a watermark, the leader or the replicas in sync have changed."""
        self._has_changed = True
        self.after_append()

    def _signal(self) -> None:
        partition, purgatories = self._partition, self._cluster.purgatories
        has_changed, self._is_deferred, self._has_changed = self._has_changed, False, False
        if has_changed:
            if partition.leadership is not None:
                partition.leadership.signal()
            purgatories.delete_records.check_and_complete(partition.key)
            if self._cluster.transactions.ending:
                purgatories.transaction_marker.check_and_complete(partition.key)
        purgatories.fetch.check_and_complete(partition.key)
