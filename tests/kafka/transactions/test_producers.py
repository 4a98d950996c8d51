"""Producers of one transactional id: their epochs, and who is fenced."""

from __future__ import annotations

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.wire import ErrorCode
from tests.kafka.transactions.producer import TIMEOUT_MS, Producer, open_transaction, written


def test_a_producer_whose_epochs_are_used_up_gets_another_id(cluster: Cluster) -> None:
    producer = Producer(cluster)
    transaction = producer.transaction
    transaction.owner = transaction.owner._replace(epoch=32_766)
    answer = producer.start(owner=transaction.owner)
    assert answer["producer_id"] != producer.id
    assert answer["producer_epoch"] == 0
    assert producer.start(owner=(producer.id, 32_766)) == answer  # the answer was lost
    assert producer.start(owner=(producer.id, 32_765))["error_code"] is ErrorCode.producer_fenced


def test_the_last_epoch_is_kept_for_fencing(cluster: Cluster, manual_clock: ManualClock) -> None:
    producer = Producer(cluster)
    producer.epoch = 32_766
    producer.transaction.owner = producer.transaction.owner._replace(epoch=producer.epoch)
    producer.add(0)
    producer.write(b"a")
    manual_clock.advance(TIMEOUT_MS)
    assert producer.transaction.owner.epoch == 32_767
    assert producer.start()["producer_epoch"] == 0


def test_one_that_was_fenced_writes_nothing_anywhere(cluster: Cluster) -> None:
    old = open_transaction(cluster)
    assert old.start()["error_code"] is ErrorCode.concurrent_transactions  # aborted meanwhile
    Producer(cluster)
    assert old.write(b"b") is ErrorCode.invalid_producer_epoch
    assert old.write(b"b", partition=1) is ErrorCode.invalid_producer_epoch
    assert old.end() is ErrorCode.producer_fenced
    assert written(cluster) == []
