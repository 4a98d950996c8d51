"""Transactions: writes to several partitions that are all committed, or all aborted."""

# All transactional ids of a cluster, and how their transactions end.
from sojourn.kafka.transactions.coordinator import TransactionCoordinator as TransactionCoordinator
from sojourn.kafka.transactions.coordinator import code_for_writers as code_for_writers  # refusals
from sojourn.kafka.transactions.transaction import Owner as Owner  # a producer's id and epoch
from sojourn.kafka.transactions.transaction import State as State  # a transaction's state
from sojourn.kafka.transactions.transaction import Transaction as Transaction  # one id
