"""The end of a transaction on its way into the partitions that it has to do with.

Each partition gets a control batch from its leader, and the transaction is over when all of them
are replicated. As long as that takes, each partition is looked at when its leader, its watermark
or who is in sync changes:

    A  it is gone: there is nothing to end
    B  nothing is written: write it, if somebody leads and enough are in sync
    C  the leader knows a newer producer or coordinator: whatever that has done is right
    D  the high watermark has passed what was written: done
    E  the leader has changed before that: as B, at the next one. If that one has it already, the
       log has it twice, which means nothing more
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

# As long as there is: an end that was decided is not given up.
_EVER_MS = 2**31 - 1
_LATER = (ErrorCode.not_enough_replicas,)


class PendingMarker:
    """The end of a transaction in one partition."""

    def __init__(self, partition: Partition, owner: Owner, marker: EndMarker) -> None:
        self.partition = partition
        self._owner = owner
        self._marker = marker
        self._leadership: Leadership | None = None
        self._offset = -1

    def is_done(self) -> bool:
        """Write it if it is not written; say whether it is replicated, or need not be."""
        if self.partition.is_deleted:
            return True  # A
        written = self._leadership
        if written is None or (written.end_error is not None and not self._has_passed(written)):
            leadership = self.partition.leadership
            if leadership is None:
                return False
            try:
                appended = self.partition.append_marker(*self._owner, self._marker)  # B, E
            except Refused as refused:
                return refused.code not in _LATER  # C
            self._leadership, self._offset = leadership, appended.next_offset
            written = leadership
        return self._has_passed(written)  # D

    def _has_passed(self, leadership: Leadership) -> bool:
        return leadership.high_watermark >= self._offset


class DelayedMarkers(DelayedRequest):
    """The end of one transaction, until it stands in all its partitions."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        transaction: Transaction,
        pending: list[PendingMarker],
    ) -> None:
        super().__init__(_EVER_MS, coordinator.agenda)
        self.coordinator = coordinator
        self.transaction = transaction
        self.pending = pending

    def try_complete(self) -> bool:
        self.pending = [marker for marker in self.pending if not marker.is_done()]
        return not self.pending and self.force_complete()

    def on_complete(self) -> None:
        if not self.pending:
            self.coordinator.complete(self.transaction)

    def on_expiration(self) -> None:
        self.coordinator.await_markers(self.transaction, self.pending)
