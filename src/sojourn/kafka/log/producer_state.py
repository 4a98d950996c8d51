"""The state of idempotent producers in one replica's log: retries never duplicate.

A producer numbers its records in each partition. A batch is appended if its first number follows
the last one; a batch among the last five is a retry and gets the same answer again; anything else
is out of order. The state follows from the batches in the log, so every replica has it, and a new
leader goes on from it. A producer whose last batch is older than `producer.id.expiration.ms`, by
the batch's own time, is removed, unless its transaction is open.

A transaction begins with a producer's first transactional batch and ends with a control batch
(end_marker.py). If that has a newer epoch, the producer was fenced: its numbers begin anew.
The coordinator verifies the first batch, and may refuse it for now. Then the client retries, and
a batch that was sent after it may come first. So the lowest number under verification is kept, and
no higher one is appended before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from sojourn.kafka.log.batch import CONTROL, TRANSACTIONAL
from sojourn.kafka.log.end_marker import EndMarker, marker_of
from sojourn.kafka.log.isolation import Isolation
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.log.batch import Batch

_BATCHES_KEPT = 5  # clients have at most so many in flight


class BatchMetadata(NamedTuple):
    """What is kept of an appended batch, to recognise its retry."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    next_offset: int
    max_timestamp: int


class ProducerState:
    """One producer's last batches in the log."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "latest_ms")

    def __init__(self, epoch: int, coordinator_epoch: int = -1) -> None:
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch  # of the last transaction's end
        self.latest_ms = -1  # the time of its last batch
        self.batches: deque[BatchMetadata] = deque(maxlen=_BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        """The number of its last record; -1 if it has none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStates:
    """The producers of one replica's log, by their id."""

    def __init__(self) -> None:
        self._by_id: dict[int, ProducerState] = {}
        # Under verification: each producer's epoch and lowest sequence number.
        self._verifying: dict[int, tuple[int, int]] = {}
        self.isolation = Isolation()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[tuple[int, ProducerState]]:
        return iter(self._by_id.items())

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has an open transaction of this epoch here."""
        state = self._by_id.get(producer_id)
        return state is not None and state.epoch == epoch and producer_id in self.isolation.ongoing

    def begin_verification(self, batch: Batch) -> None:
        """Note a batch that begins a transaction here if the coordinator agrees."""
        given = (batch.producer_epoch, batch.base_sequence)
        epoch, lowest = self._verifying.get(batch.producer_id, given)
        if given[0] > epoch or (given[0] == epoch and given[1] < lowest):
            epoch, lowest = given
        self._verifying[batch.producer_id] = (epoch, lowest)

    def check(self, batch: Batch) -> BatchMetadata | None:
        """The appended batch that this one repeats; None if it is new; or Refused."""
        state = self._by_id.get(batch.producer_id)
        if state is not None:
            self._check_epoch(state, batch.producer_id, batch.producer_epoch)
            if batch.producer_epoch == state.epoch:
                for earlier in state.batches:
                    if (
                        earlier.base_sequence == batch.base_sequence
                        and earlier.last_sequence == batch.last_sequence
                    ):
                        return earlier
        if self._verifying:
            self._check_verifying(batch)
        if state is not None:
            self._check_follows(state, batch)
        return None

    def _check_follows(self, state: ProducerState, batch: Batch) -> None:
        """Raise Refused if the batch does not come next."""
        if batch.producer_epoch > state.epoch:
            if batch.base_sequence:
                raise Refused(
                    ErrorCode.out_of_order_sequence_number,
                    f"a new epoch starts with sequence 0, got {batch.base_sequence}",
                )
            return
        last = state.last_sequence
        if batch.base_sequence != (last + 1) & 0x7FFFFFFF:
            raise Refused(
                ErrorCode.out_of_order_sequence_number,
                f"producer {batch.producer_id}: sequence {batch.base_sequence} after {last}",
            )
        if batch.producer_id in self.isolation.ongoing and not batch.attributes & TRANSACTIONAL:
            raise Refused(
                ErrorCode.invalid_txn_state,
                f"producer {batch.producer_id} is in a transaction; its batches must say so",
            )

    def _check_verifying(self, batch: Batch) -> None:
        _, lowest = self._verifying.get(batch.producer_id, (-1, batch.base_sequence))
        if batch.base_sequence > lowest:
            raise Refused(
                ErrorCode.out_of_order_sequence_number,
                f"producer {batch.producer_id}: sequence {batch.base_sequence} before {lowest}",
            )

    def check_marker(self, producer_id: int, epoch: int, marker: EndMarker) -> None:
        """Raise Refused if the coordinator, or the producer, was fenced."""
        state = self._by_id.get(producer_id)
        if state is None:
            return
        self._check_epoch(state, producer_id, epoch)
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise Refused(
                ErrorCode.transaction_coordinator_fenced,
                f"the coordinator is at epoch {state.coordinator_epoch}, "
                f"got {marker.coordinator_epoch}",
            )

    def _check_epoch(self, state: ProducerState, producer_id: int, epoch: int) -> None:
        if epoch < state.epoch:
            raise Refused(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id} is at epoch {state.epoch}, got {epoch}",
            )

    def append(self, batch: Batch, high_watermark: int) -> None:
        """Update the producer's state: the batch was appended to the log."""
        state = self._by_id.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            coordinator_epoch = -1 if state is None else state.coordinator_epoch
            state = ProducerState(batch.producer_epoch, coordinator_epoch)
            self._by_id[batch.producer_id] = state
        state.latest_ms = batch.max_timestamp
        if batch.attributes & TRANSACTIONAL:
            if batch.attributes & CONTROL:
                marker = marker_of(batch)
                state.coordinator_epoch = marker.coordinator_epoch
                self.isolation.end(
                    batch.producer_id, batch.base_offset, marker.is_commit, high_watermark
                )
                return
            self._verifying.pop(batch.producer_id, None)
            self.isolation.begin(batch.producer_id, batch.base_offset)
        state.batches.append(
            BatchMetadata(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.next_offset,
                batch.max_timestamp,
            )
        )

    def rebuild(self, batches: Iterable[Batch], high_watermark: int) -> None:
        """Build the state from these batches alone."""
        self._by_id.clear()
        self.isolation.clear()
        for batch in batches:
            if batch.is_idempotent:
                self.append(batch, high_watermark)

    def expire(self, before_ms: int) -> None:
        """Remove those whose last batch has this time or an earlier one."""
        self._verifying.clear()
        for producer_id, state in list(self._by_id.items()):
            if state.latest_ms <= before_ms and producer_id not in self.isolation.ongoing:
                del self._by_id[producer_id]
