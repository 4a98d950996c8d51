"""A transactional id: whose it is, and how its present transaction is doing.

                    the first partition or group
    EMPTY --------------------------------------------> ONGOING <-----------+
      ^                                                 |     |             |
      |                                         commit  |     |  abort      |
      |                                                 v     v             |
      |                                    PREPARE_COMMIT     PREPARE_ABORT | the next
      |                                                 |     |             | transaction
      |             its end stands in every partition   |     |             |
      |                                                 v     v             |
      +--- a producer starts --------- COMPLETE_COMMIT, COMPLETE_ABORT -----+

It is aborted by its producer, by the next one that starts, or because it takes too long. From
PREPARE_* on nothing changes how it ends.

A producer is its id and epoch. Each start raises the epoch, and so does an abort that the
producer has not asked for: whoever comes with an older one was fenced. An id whose epochs are
used up is replaced by a new one.

Callers hold the agenda; all times are wall time by the cluster's clock.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.transactions.timeout import DelayedTimeout

_NONE = -1
_LAST_EPOCH = 2**15 - 2  # one more is kept for fencing


class State(enum.Enum):
    """How a transaction is doing; the values are what Kafka's tools show."""

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
    """A producer as it names itself."""

    producer_id: int
    epoch: int


_NOBODY = Owner(_NONE, _NONE)


class Transaction:
    """One transactional id, from its first producer on."""

    def __init__(self, transactional_id: str, now_ms: int) -> None:
        self.transactional_id = transactional_id
        self.state = State.EMPTY
        self.owner = _NOBODY
        #: Who it was before the producer itself asked to go on with another epoch.
        self.earlier = _NOBODY
        self.timeout_ms = 0
        #: What the transaction has to do with: partitions (topic, number), groups of consumers.
        self.partitions: set[tuple[str, int]] = set()
        self.groups: set[str] = set()
        self.started_ms = _NONE
        self.changed_ms = now_ms
        #: What ends it when its time is up, while it is ongoing.
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
        """Give it to a new producer, or to the one that says who it was; or Refused.

        The transaction must not be ongoing: who starts aborts it first.
        """
        self.check_not_ending()
        owner = self.owner
        if owner == _NOBODY:
            self.owner = Owner(new_producer_id(), 0)
        elif expected is not None and expected == self.earlier:
            pass  # it asks again for what it was given: the answer was lost
        elif expected is not None and expected.epoch != owner.epoch:
            raise self._fenced(expected)
        else:
            self.earlier = _NOBODY if expected is None else owner
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
        """Refuse a producer that says it was here before, if its id is not the one known."""
        owner = self.owner
        if (
            expected is None
            or owner == _NOBODY
            or expected.producer_id == owner.producer_id
            or expected == self.earlier
        ):
            return
        raise self._fenced(expected)

    def _fenced(self, who: Owner) -> Refused:
        return Refused(
            ErrorCode.producer_fenced,
            f"{self.transactional_id} belongs to {self.owner}, not to {who}",
        )

    def check(self, owner: Owner) -> None:
        """Refuse whoever does not own it."""
        if owner.producer_id != self.owner.producer_id:
            raise Refused(ErrorCode.invalid_producer_id_mapping)
        if owner.epoch != self.owner.epoch:
            raise self._fenced(owner)

    def fence(self) -> None:
        """Whoever owned it does so no more."""
        self.owner = self.owner._replace(epoch=self.owner.epoch + 1)
        self.earlier = _NOBODY

    # The transaction.

    def add(
        self, partitions: Iterable[tuple[str, int]], groups: Iterable[str], now_ms: int
    ) -> bool:
        """Take these in; say whether that began a transaction. Or Refused."""
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
        """Refuse who has to wait until the transaction's end stands in every partition."""
        if self.state.is_ending:
            raise Refused(ErrorCode.concurrent_transactions, f"{self!r}: its end is being written")

    def prepare(self, is_commit: bool, now_ms: int) -> bool:
        """Decide how it ends; False if it has ended so before. Or Refused."""
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
        """Its end stands in every partition."""
        is_commit = self.state is State.PREPARE_COMMIT
        self.state = State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT
        self.partitions.clear()
        self.groups.clear()
        self.changed_ms = now_ms
