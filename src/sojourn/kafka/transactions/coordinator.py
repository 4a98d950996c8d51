"""The transaction coordinator: which producer owns a transactional id, and how transactions end.

The requests of a producer:

    InitProducerId      -> its id and epoch; a transaction that is still open is aborted first
    AddPartitionsToTxn  -> the transaction begins, and its timeout (timeout.py)
    Produce             -> the leader checks here that the partition was added
    AddOffsetsToTxn, TxnOffsetCommit -> offsets of a group, pending until the end
    EndTxn              -> decided and answered; markers are written to all partitions (markers.py)

The state here stands for `__transaction_state`, the replicated topic in which Kafka keeps it: any
broker that becomes the coordinator of an id goes on from it. So a cluster has one of these, and
each broker answers for the ids that it coordinates (apis.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING

from sojourn._log import log
from sojourn.kafka.log.end_marker import EndMarker
from sojourn.kafka.refusal import Refused
from sojourn.kafka.topic import TopicPartition
from sojourn.kafka.transactions.markers import DelayedMarkers, PendingMarker
from sojourn.kafka.transactions.timeout import DelayedTimeout
from sojourn.kafka.transactions.transaction import Owner, State, Transaction
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster


def code_for_writers(code: ErrorCode, is_abortable: bool) -> ErrorCode:
    """The error code of a refused check, for requests that write records or offsets.

    `is_abortable`: the client knows TRANSACTION_ABORTABLE.
    """
    if code is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if code is ErrorCode.transaction_abortable and not is_abortable:
        return ErrorCode.invalid_txn_state
    return code


class TransactionCoordinator(Mapping[str, Transaction]):
    """All transactional ids of a cluster. Called with the agenda held."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.agenda = cluster.agenda
        self._by_id: dict[str, Transaction] = {}
        #: Transactions whose markers are not replicated in all their partitions yet.
        self.ending: set[Transaction] = set()
        #: The coordinator epoch: how often coordinators have changed.
        self.epoch = 0
        self._producer_ids = count(1_000)

    # Producers.

    def start_producer(
        self, transactional_id: str, timeout_ms: int, expected: Owner | None
    ) -> Owner:
        """The producer's id and epoch; or Refused.

        An open transaction of the id is aborted, and the producer has to retry when that is done.
        """
        if not transactional_id:
            raise Refused(ErrorCode.invalid_request)
        if not 0 < timeout_ms <= self._cluster.settings.number("transaction.max.timeout.ms"):
            raise Refused(ErrorCode.invalid_transaction_timeout)
        now_ms = self._cluster.wall_ms()
        transaction = self._by_id.get(transactional_id)
        if transaction is None:
            transaction = self._by_id[transactional_id] = Transaction(transactional_id, now_ms)
        transaction.check_expected(expected)
        if transaction.state is State.ONGOING:
            self._abort_and_fence(transaction)  # now it is ending, and the next line refuses
        transaction.start_producer(timeout_ms, expected, self.new_producer_id, now_ms)
        return transaction.owner

    def new_producer_id(self) -> int:
        """A new producer id."""
        return next(self._producer_ids)

    # The transaction.

    def add(
        self,
        transactional_id: str,
        owner: Owner,
        partitions: Iterable[TopicPartition] = (),
        groups: Iterable[str] = (),
    ) -> None:
        """Add these to the transaction, which begins with the first; or Refused."""
        transaction = self._owned(transactional_id, owner)
        if transaction.add(partitions, groups, self._cluster.wall_ms()):
            transaction.timeout = DelayedTimeout(self, transaction)
            self._cluster.purgatories.transaction.try_complete_else_watch(
                transaction.timeout, [transactional_id]
            )

    def end(self, transactional_id: str, owner: Owner, is_commit: bool) -> None:
        """Commit or abort the transaction, and write that to its partitions; or Refused."""
        self._end(self._owned(transactional_id, owner), is_commit)

    def check_partition(self, transactional_id: str, owner: Owner, place: TopicPartition) -> None:
        """Refuse a producer that writes to a partition which it has not added."""
        if place not in self._writable(transactional_id, owner).partitions:
            raise Refused(
                ErrorCode.transaction_abortable, f"{place} was not added to the transaction"
            )

    def check_group(self, transactional_id: str, owner: Owner, group_id: str) -> None:
        """Refuse a producer that commits offsets of a group which it has not added."""
        if group_id not in self._writable(transactional_id, owner).groups:
            raise Refused(
                ErrorCode.transaction_abortable, f"{group_id} was not added to the transaction"
            )

    def _owned(self, transactional_id: str, owner: Owner) -> Transaction:
        if not transactional_id:
            raise Refused(ErrorCode.invalid_request)
        transaction = self._by_id.get(transactional_id)
        if transaction is None:
            raise Refused(ErrorCode.invalid_producer_id_mapping)
        transaction.check(owner)
        return transaction

    def _writable(self, transactional_id: str, owner: Owner) -> Transaction:
        transaction = self._owned(transactional_id, owner)
        transaction.check_not_ending()
        return transaction

    # The end.

    def abort_expired(self, transaction: Transaction) -> None:
        """Abort a transaction that has timed out."""
        log.info("kafka: %r has taken longer than %d ms", transaction, transaction.timeout_ms)
        self._abort_and_fence(transaction)

    def _abort_and_fence(self, transaction: Transaction) -> None:
        transaction.fence()
        self._end(transaction, is_commit=False)

    def _end(self, transaction: Transaction, is_commit: bool) -> None:
        if not transaction.prepare(is_commit, self._cluster.wall_ms()):
            return
        self._cluster.purgatories.transaction.check_and_complete(transaction.transactional_id)
        self.ending.add(transaction)
        self.agenda.defer(lambda: self._write_end(transaction))  # after the answer

    def _write_end(self, transaction: Transaction) -> None:
        is_commit = transaction.state is State.PREPARE_COMMIT
        for group_id in transaction.groups:
            self._cluster.groups.store.complete_transaction(
                group_id, transaction.owner.producer_id, is_commit
            )
        marker = EndMarker(is_commit, self.epoch)
        partitions = [
            self._cluster.controller.partition(*place) for place in sorted(transaction.partitions)
        ]
        self.await_markers(
            transaction,
            [PendingMarker(one, transaction.owner, marker) for one in partitions if one],
        )

    def await_markers(self, transaction: Transaction, pending: list[PendingMarker]) -> None:
        """Complete the transaction when all these are replicated."""
        if not pending:
            self.complete(transaction)
            return
        self._cluster.purgatories.transaction_marker.try_complete_else_watch(
            DelayedMarkers(self, transaction, pending),
            [marker.partition.key for marker in pending],
        )

    def complete(self, transaction: Transaction) -> None:
        """Note that the markers are replicated in every partition."""
        self.ending.discard(transaction)
        transaction.complete(self._cluster.wall_ms())

    # All transactional ids.

    def raise_epoch(self) -> None:
        """Begin a coordinator epoch: a broker has stopped."""
        self.epoch += 1

    def expire(self) -> None:
        """Remove ids that were not used for `transactional.id.expiration.ms`."""
        keep_ms = self._cluster.settings.number("transactional.id.expiration.ms")
        before_ms = self._cluster.wall_ms() - keep_ms
        for transaction in list(self._by_id.values()):
            is_idle = transaction.state is not State.ONGOING and transaction not in self.ending
            if is_idle and transaction.changed_ms <= before_ms:
                del self._by_id[transaction.transactional_id]

    def __getitem__(self, transactional_id: str) -> Transaction:
        return self._by_id[transactional_id]

    def __iter__(self) -> Iterator[str]:
        with self.agenda:
            return iter(list(self._by_id))

    def __len__(self) -> int:
        return len(self._by_id)
