"""Idempotent producers, as one replica's log remembers them: retries never duplicate.

A producer numbers its records in each partition. A batch is taken if its first number follows
the last one taken; a batch among the last five is a retry and gets the answer it had; anything
else came out of order. What is remembered follows from the batches in the log, so every
replica knows it, and a new leader carries on where the old one was. A producer whose last batch
is older than `producer.id.expiration.ms`, by the batch's own time, is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.records import Batch

_REMEMBERED = 5  # what clients may have under way at most


class Taken(NamedTuple):
    """What is remembered of a batch: not its records."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    next_offset: int
    max_timestamp: int


class _Producer:
    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[Taken] = deque(maxlen=_REMEMBERED)


class Producers:
    """By producer id."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def check(self, batch: Batch) -> Taken | None:
        """The batch of the log that this one repeats; None if it is new; or Refused."""
        known = self._by_id.get(batch.producer_id)
        if known is None:
            return None
        if batch.producer_epoch < known.epoch:
            raise Refused(
                ErrorCode.invalid_producer_epoch,
                f"producer {batch.producer_id} is at epoch {known.epoch}, "
                f"got {batch.producer_epoch}",
            )
        if batch.producer_epoch > known.epoch:
            if batch.base_sequence:
                raise Refused(
                    ErrorCode.out_of_order_sequence_number,
                    f"a new epoch starts with sequence 0, got {batch.base_sequence}",
                )
            return None
        for earlier in known.batches:
            if (
                earlier.base_sequence == batch.base_sequence
                and earlier.last_sequence == batch.last_sequence
            ):
                return earlier
        last = known.batches[-1].last_sequence
        if batch.base_sequence != (last + 1) & 0x7FFFFFFF:
            raise Refused(
                ErrorCode.out_of_order_sequence_number,
                f"producer {batch.producer_id}: sequence {batch.base_sequence} after {last}",
            )
        return None

    def note(self, batch: Batch) -> None:
        """The batch is in the log now."""
        known = self._by_id.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            known = self._by_id[batch.producer_id] = _Producer(batch.producer_epoch)
        known.batches.append(
            Taken(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.next_offset,
                batch.max_timestamp,
            )
        )

    def rebuild(self, batches: Iterable[Batch]) -> None:
        """Remember what these batches say, and nothing else."""
        self._by_id.clear()
        for batch in batches:
            if batch.is_idempotent:
                self.note(batch)

    def expire(self, before_ms: int) -> None:
        """Forget those whose last batch has this time or an earlier one."""
        for producer_id, known in list(self._by_id.items()):
            if known.batches[-1].max_timestamp <= before_ms:
                del self._by_id[producer_id]
