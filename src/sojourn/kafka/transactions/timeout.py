"""The timeout of a transaction, which its producer has chosen.

A  the transaction has ended, or another one has begun
B  it expires: the transaction is aborted, and its producer fenced
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.kafka.delayed import ExpectedRequest
from sojourn.kafka.transactions.transaction import State, Transaction

if TYPE_CHECKING:
    from sojourn.kafka.transactions.coordinator import TransactionCoordinator


class DelayedTimeout(ExpectedRequest):
    """Waits for the end of an open transaction."""

    def __init__(self, coordinator: TransactionCoordinator, transaction: Transaction) -> None:
        super().__init__(transaction.timeout_ms, coordinator.agenda)
        self.coordinator = coordinator
        self.transaction = transaction

    def on_timeout(self) -> None:
        self.coordinator.abort_expired(self.transaction)  # B

    @property
    def is_over(self) -> bool:
        """Whether the transaction has ended."""
        transaction = self.transaction
        return transaction.timeout is not self or transaction.state is not State.ONGOING  # A
