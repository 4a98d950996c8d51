"""A transactional id: the producer that owns it, and the state of its transaction.

                    the first partition or group
    EMPTY --------------------------------------------> ONGOING <-----------+
      ^                                                 |     |             |
      |                                         commit  |     |  abort      |
      |                                                 v     v             |
      |                                    PREPARE_COMMIT     PREPARE_ABORT | the next
      |                                                 |     |             | transaction
      |             markers in every partition          |     |             |
      |                                                 v     v             |
      +--- a producer starts --------- COMPLETE_COMMIT, COMPLETE_ABORT -----+

It is aborted by its producer, by the next one that starts, or by its timeout. From PREPARE_* on
its outcome is fixed.

A producer is identified by its id and epoch. Each start raises the epoch, and so does an abort
that the producer has not asked for: requests with an older epoch are fenced. When the epochs of
an id are used up, a new id replaces it.

Callers hold the agenda; all times are wall time by the cluster's clock.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.topic import TopicPartition
    from sojourn.kafka.transactions.timeout import DelayedTimeout

_NONE = -1
_LAST_EPOCH = 2**15 - 2  # one more is kept for fencing


class State(enum.Enum):
    """A transaction's state; the values are what Kafka's tools show."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    @property
    def is_ending(self) -> bool:
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)


class Owner(NamedTuple):
    """A producer's id and epoch."""

    producer_id: int
    epoch: int


_NO_OWNER = Owner(_NONE, _NONE)


class Transaction:
    """One transactional id."""

    def __init__(self, transactional_id: str, now_ms: int) -> None:
        self.transactional_id = transactional_id
        self.state = State.EMPTY
        self.owner = _NO_OWNER
        #: The owner before the producer itself asked for another epoch.
        self.previous_owner = _NO_OWNER
        self.timeout_ms = 0
        #: What was added to the transaction: partitions, and groups that commit offsets.
        self.partitions: set[TopicPartition] = set()
        self.groups: set[str] = set()
        self.started_ms = _NONE
        self.changed_ms = now_ms
        #: Aborts it when it expires, while it is open.
        self.timeout: DelayedTimeout | None = None

    def __repr__(self) -> str:
        producer_id, epoch = self.owner
        return (
            f"<Transaction {self.transactional_id!r} {self.state.value}, "
            f"producer {producer_id} epoch {epoch}>"
        )

    # Producers.

    def start_producer(
        self,
        timeout_ms: int,
        expected: Owner | None,
        new_producer_id: Callable[[], int],
        now_ms: int,
    ) -> None:
        """Set a new owner, or raise the epoch of the `expected` one; or Refused.

        The transaction must not be open: the caller aborts it first.
        """
        self.check_not_ending()
        owner = self.owner
        if owner == _NO_OWNER:
            self.owner = Owner(new_producer_id(), 0)
        elif expected is not None and expected == self.previous_owner:
            pass  # a retry: the producer did not get the answer
        elif expected is not None and expected.epoch != owner.epoch:
            raise self._fenced(expected)
        else:
            self.previous_owner = _NO_OWNER if expected is None else owner
            is_exhausted = owner.epoch >= _LAST_EPOCH
            self.owner = (
                Owner(new_producer_id(), 0)
                if is_exhausted
                else owner._replace(epoch=owner.epoch + 1)
            )
        self.state = State.EMPTY
        self.timeout_ms = timeout_ms
        self.started_ms = _NONE
        self.changed_ms = now_ms

    def check_expected(self, expected: Owner | None) -> None:
        """Refuse a producer that names an earlier owner of another id."""
        owner = self.owner
        if (
            expected is None
            or owner == _NO_OWNER
            or expected.producer_id == owner.producer_id
            or expected == self.previous_owner
        ):
            return
        raise self._fenced(expected)

    def _fenced(self, who: Owner) -> Refused:
        return Refused(
            ErrorCode.producer_fenced,
            f"{self.transactional_id} belongs to {self.owner}, not to {who}",
        )

    def check(self, owner: Owner) -> None:
        """Refuse a producer that does not own it."""
        if owner.producer_id != self.owner.producer_id:
            raise Refused(ErrorCode.invalid_producer_id_mapping)
        if owner.epoch != self.owner.epoch:
            raise self._fenced(owner)

    def fence(self) -> None:
        """Raise the epoch: the present owner is fenced."""
        self.owner = self.owner._replace(epoch=self.owner.epoch + 1)
        self.previous_owner = _NO_OWNER

    # The transaction.

    def add(self, partitions: Iterable[TopicPartition], groups: Iterable[str], now_ms: int) -> bool:
        """Add these; return whether that began a transaction. Or Refused."""
        self.check_not_ending()
        begins = self.state is not State.ONGOING
        if begins:
            self.state = State.ONGOING
            self.started_ms = now_ms
        self.partitions.update(partitions)
        self.groups.update(groups)
        self.changed_ms = now_ms
        return begins

    def check_not_ending(self) -> None:
        """Refuse a request that has to wait until the markers are replicated."""
        if self.state.is_ending:
            raise Refused(ErrorCode.concurrent_transactions, f"{self!r}: its end is being written")

    def prepare(self, is_commit: bool, now_ms: int) -> bool:
        """Fix its outcome; False if it had this outcome already. Or Refused."""
        prepared = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
        completed = State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT
        if self.state is completed:
            return False
        self.check_not_ending()
        if self.state is not State.ONGOING:
            raise Refused(ErrorCode.invalid_txn_state, f"it is {self.state.value}")
        self.state = prepared
        self.changed_ms = now_ms
        return True

    def complete(self, now_ms: int) -> None:
        """Note that the markers are replicated in every partition."""
        is_commit = self.state is State.PREPARE_COMMIT
        self.state = State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT
        self.partitions.clear()
        self.groups.clear()
        self.changed_ms = now_ms
