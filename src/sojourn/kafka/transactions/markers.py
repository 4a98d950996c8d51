"""The end of a transaction, written to its partitions.

Each partition's leader appends a control batch, the marker. The transaction is complete when all of
them are replicated. Until then each partition is checked when its leader, its watermark or the
replicas in sync change:

    A  it is deleted: nothing to write
    B  the marker is not written: write it, if there is a leader and enough replicas are in sync
    C  the leader has a newer producer epoch or coordinator epoch: nothing to write
    D  the high watermark has passed the marker: done
    E  the leader has changed before that: as B, at the new one. If that has the marker already,
       the log has it twice, which changes nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.log.end_marker import EndMarker
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.leadership import Leadership
    from sojourn.kafka.partition import Partition
    from sojourn.kafka.transactions.coordinator import TransactionCoordinator
    from sojourn.kafka.transactions.transaction import Owner, Transaction

# The longest timeout there is; it starts again when it expires.
_TIMEOUT_MS = 2**31 - 1
_RETRIABLE = (ErrorCode.not_enough_replicas,)


class PendingMarker:
    """The marker of a transaction in one partition."""

    def __init__(self, partition: Partition, owner: Owner, marker: EndMarker) -> None:
        self.partition = partition
        self._owner = owner
        self._marker = marker
        # Under which leadership, and the offset that the high watermark has to reach.
        self._written: tuple[Leadership, int] | None = None

    def is_done(self) -> bool:
        """Write it if it is not written; return whether it is replicated, or not needed."""
        if self.partition.is_deleted:
            return True  # A
        if self._written is None or self._is_lost(*self._written):
            leadership = self.partition.leadership
            if leadership is None:
                return False
            try:
                appended = self.partition.append_marker(*self._owner, self._marker)  # B, E
            except Refused as refused:
                return refused.code not in _RETRIABLE  # C
            self._written = leadership, appended.next_offset
        leadership, offset = self._written
        return leadership.high_watermark >= offset  # D

    def _is_lost(self, leadership: Leadership, offset: int) -> bool:
        """Whether the leader has changed before the high watermark reached this offset."""
        return leadership.end_error is not None and leadership.high_watermark < offset


class DelayedMarkers(DelayedRequest):
    """The markers of one transaction, until all are replicated."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        transaction: Transaction,
        pending: list[PendingMarker],
    ) -> None:
        super().__init__(_TIMEOUT_MS, coordinator.agenda)
        self.coordinator = coordinator
        self.transaction = transaction
        self.pending = pending

    def try_complete(self) -> bool:
        self.pending = [marker for marker in self.pending if not marker.is_done()]
        return not self.pending

    def on_complete(self) -> None:
        if not self.pending:
            self.coordinator.complete(self.transaction)

    def on_expiration(self) -> None:
        self.coordinator.await_markers(self.transaction, self.pending)
