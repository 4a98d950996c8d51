"""Idempotent producers, as one replica's log remembers them: retries never duplicate.

A producer numbers its records in each partition. A batch is taken if its first number follows
the last one taken; a batch among the last five is a retry and gets the answer it had; anything
else came out of order. What is remembered follows from the batches in the log, so every
replica knows it, and a new leader carries on where the old one was. A producer whose last batch
is older than `producer.id.expiration.ms`, by the batch's own time, is forgotten, unless its
transaction goes on.

A transaction begins with a producer's first transactional batch and ends with a control batch
(end_marker.py). If that has a newer epoch, the producer was fenced: its numbers begin anew.
Before it begins the coordinator is asked, who may refuse it for now. Then the client tries again,
and a batch that was sent after it may come first: the lowest number that was tried is remembered,
and no higher one taken.
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

_REMEMBERED = 5  # what clients may have under way at most


class Taken(NamedTuple):
    """What is remembered of a batch: not its records."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    next_offset: int
    max_timestamp: int


class Producer:
    """What is known of one producer."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "latest_ms")

    def __init__(self, epoch: int, coordinator_epoch: int = -1) -> None:
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch  # of the last transaction's end
        self.latest_ms = -1  # the time of its last batch
        self.batches: deque[Taken] = deque(maxlen=_REMEMBERED)

    @property
    def last_sequence(self) -> int:
        """The number of its last record; -1 if it has none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1


class Producers:
    """By producer id."""

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}
        self._tried: dict[int, tuple[int, int]] = {}  # the epoch, and the lowest number
        self.isolation = Isolation()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._by_id.items())

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer's transaction of this epoch goes on here."""
        known = self._by_id.get(producer_id)
        return known is not None and known.epoch == epoch and producer_id in self.isolation.ongoing

    def tries(self, batch: Batch) -> None:
        """The batch is the first of a transaction here, if its coordinator agrees."""
        now = (batch.producer_epoch, batch.base_sequence)
        epoch, lowest = self._tried.get(batch.producer_id, now)
        if batch.producer_epoch > epoch or (batch.producer_epoch == epoch and now[1] < lowest):
            epoch, lowest = now
        self._tried[batch.producer_id] = (epoch, lowest)

    def check(self, batch: Batch) -> Taken | None:
        """The batch of the log that this one repeats; None if it is new; or Refused."""
        known = self._by_id.get(batch.producer_id)
        if known is not None:
            self._check_epoch(known, batch.producer_id, batch.producer_epoch)
            if batch.producer_epoch == known.epoch:
                for earlier in known.batches:
                    if (
                        earlier.base_sequence == batch.base_sequence
                        and earlier.last_sequence == batch.last_sequence
                    ):
                        return earlier
        if self._tried:
            self._check_tried(batch)
        if known is not None:
            self._check_follows(known, batch)
        return None

    def _check_follows(self, known: Producer, batch: Batch) -> None:
        """Refuse a batch that does not come next."""
        if batch.producer_epoch > known.epoch:
            if batch.base_sequence:
                raise Refused(
                    ErrorCode.out_of_order_sequence_number,
                    f"a new epoch starts with sequence 0, got {batch.base_sequence}",
                )
            return
        last = known.last_sequence
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

    def _check_tried(self, batch: Batch) -> None:
        _, lowest = self._tried.get(batch.producer_id, (-1, batch.base_sequence))
        if batch.base_sequence > lowest:
            raise Refused(
                ErrorCode.out_of_order_sequence_number,
                f"producer {batch.producer_id}: sequence {batch.base_sequence} before {lowest}",
            )

    def check_marker(self, producer_id: int, epoch: int, marker: EndMarker) -> None:
        """Refuse the end of a transaction by a coordinator, or for a producer, that was fenced."""
        known = self._by_id.get(producer_id)
        if known is None:
            return
        self._check_epoch(known, producer_id, epoch)
        if marker.coordinator_epoch < known.coordinator_epoch:
            raise Refused(
                ErrorCode.transaction_coordinator_fenced,
                f"the coordinator is at epoch {known.coordinator_epoch}, "
                f"got {marker.coordinator_epoch}",
            )

    def _check_epoch(self, known: Producer, producer_id: int, epoch: int) -> None:
        if epoch < known.epoch:
            raise Refused(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id} is at epoch {known.epoch}, got {epoch}",
            )

    def note(self, batch: Batch, high_watermark: int) -> None:
        """The batch is in the log now."""
        known = self._by_id.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            coordinator_epoch = -1 if known is None else known.coordinator_epoch
            known = Producer(batch.producer_epoch, coordinator_epoch)
            self._by_id[batch.producer_id] = known
        known.latest_ms = batch.max_timestamp
        if batch.attributes & TRANSACTIONAL:
            if batch.attributes & CONTROL:
                marker = marker_of(batch)
                known.coordinator_epoch = marker.coordinator_epoch
                self.isolation.end(
                    batch.producer_id, batch.base_offset, marker.is_commit, high_watermark
                )
                return
            self._tried.pop(batch.producer_id, None)
            self.isolation.begin(batch.producer_id, batch.base_offset)
        known.batches.append(
            Taken(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.next_offset,
                batch.max_timestamp,
            )
        )

    def rebuild(self, batches: Iterable[Batch], high_watermark: int) -> None:
        """Remember what these batches say, and nothing else."""
        self._by_id.clear()
        self.isolation.clear()
        for batch in batches:
            if batch.is_idempotent:
                self.note(batch, high_watermark)

    def expire(self, before_ms: int) -> None:
        """Forget those whose last batch has this time or an earlier one."""
        self._tried.clear()
        for producer_id, known in list(self._by_id.items()):
            if known.latest_ms <= before_ms and producer_id not in self.isolation.ongoing:
                del self._by_id[producer_id]
