"""Isolation: how far a log is stable, and which transactions were aborted."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka import Cluster
from sojourn.kafka.log.batch import Batch
from sojourn.kafka.log.end_marker import EndMarker, marker_batch, marker_of
from sojourn.kafka.log.isolation import Isolation
from sojourn.kafka.log.log import Log
from tests.kafka.conformance.batches import batch
from tests.kafka.in_process import Answer, ask
from tests.kafka.transactions.producer import freeze, open_transaction


def test_a_marker_says_how_the_transaction_ended() -> None:
    for marker in (EndMarker(True, 0), EndMarker(False, 7)):
        made = marker_batch(5, 2, marker, 1_000)
        made.check_crc()
        assert marker_of(made) == marker
        assert (made.producer_id, made.producer_epoch, made.max_timestamp) == (5, 2, 1_000)


def data(producer_id: int, sequence: int) -> Batch:
    producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
    return Batch(batch(b"x", attributes=0x10, **producer))


def drawn_log() -> Log:
    """The one that is drawn at the head of isolation.py."""
    plain = Batch(batch(b"x"))
    aborted = marker_batch(1, 0, EndMarker(False, 0), 0)
    committed = marker_batch(2, 0, EndMarker(True, 0), 0)
    log = Log()
    for one in (
        data(1, 0),
        data(2, 0),
        data(1, 1),
        plain,
        aborted,
        data(2, 1),
        committed,
        data(1, 2),
    ):
        log.append(one.placed(log.end_offset, 0))
    return log


def test_what_is_stable_ends_where_a_transaction_is_open_or_its_end_not_replicated() -> None:
    log = drawn_log()
    stable = {}
    for high_watermark in range(9):
        log.high_watermark = high_watermark
        stable[high_watermark] = log.last_stable_offset
    # 0 to 4: 1's begins at 0 and ends at 4; 5 and 6: 2's begins at 1 and ends at 6.
    assert stable == {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 1, 6: 1, 7: 7, 8: 7}


def test_a_reader_is_told_of_the_aborted_transactions_of_which_it_reads_records() -> None:
    log = drawn_log()
    log.high_watermark = 8

    def aborted(offset: int, upto: int) -> list[tuple[int, int]]:
        return [(one.producer_id, one.first_offset) for one in log.isolation.aborted(offset, upto)]

    assert aborted(0, 1) == aborted(4, 8) == aborted(3, 4) == [(1, 0)]
    assert aborted(5, 8) == []
    assert [one.base_offset for one in log.data_batches(committed=True)] == [1, 3, 5]
    assert [one.base_offset for one in log.data_batches(committed=False)] == [0, 1, 2, 3, 5, 7]


def test_all_aborted_transactions_of_a_read_are_told_and_no_others() -> None:
    isolation = Isolation()
    ends = {}
    for offset in range(100):  # 10 producers whose transactions overlap
        producer_id = offset % 10
        if producer_id in isolation.ongoing:
            first = isolation.ongoing[producer_id]
            isolation.end(producer_id, offset, offset % 3 == 0, 1_000)
            if offset % 3:
                ends[producer_id, first] = offset
        else:
            isolation.begin(producer_id, offset)
    for start in range(0, 100, 7):
        for upto in range(start + 1, 101, 5):
            aborted = {
                (one.producer_id, one.first_offset) for one in isolation.aborted(start, upto)
            }
            expected = {key for key, last in ends.items() if last >= start and key[1] < upto}
            assert aborted == expected, (start, upto)


def test_a_log_that_is_cut_off_remembers_what_is_left() -> None:
    log = drawn_log()
    log.high_watermark = 8
    log.truncate(6)  # 2's end goes, and what 1 began after that
    assert log.isolation.ongoing == {2: 1}
    assert log.last_stable_offset == 1
    assert [one.first_offset for one in log.isolation.aborted(0, 6)] == [0]
    log.truncate(4)
    assert log.isolation.ongoing == {1: 0, 2: 1}
    assert list(log.isolation.aborted(0, 4)) == []


def test_aborted_transactions_are_forgotten_with_their_records() -> None:
    log = drawn_log()
    log.high_watermark = 8
    log.advance_start(5)
    assert list(log.isolation.aborted(0, 8)) == []
    log.advance_start(8)  # also what is open
    assert log.last_stable_offset == 8


def test_a_producer_in_a_transaction_is_not_forgotten() -> None:
    log = drawn_log()
    log.producers.expire(2**62)
    assert [producer_id for producer_id, _ in log.producers] == [1]


def fetch(cluster: Cluster, offset: int, *, max_wait_ms: int = 0, at: int = -1) -> Answer:
    row = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 2**20}
    fields = {
        "max_wait": datetime.timedelta(milliseconds=max_wait_ms),
        "min_bytes": 1,
        "max_bytes": 2**20,
        "isolation_level": 1,
        "topics": [{"topic": "t", "partitions": [row]}],
        "forgotten_topics_data": [],
    }
    return ask(cluster, cluster.leader("t", 0) if at < 0 else at, "fetch", 12, fields)


def part_of(answer: Answer) -> Any:
    return answer.fields["responses"][0]["partitions"][0]


def test_a_fetch_of_what_is_committed_waits_for_the_end(cluster: Cluster) -> None:
    producer = open_transaction(cluster)
    waiting = fetch(cluster, 0, max_wait_ms=10_000)
    assert not waiting.is_over
    producer.end(committed=False)
    assert waiting.is_over
    part = part_of(waiting)
    assert part["last_stable_offset"] == 2
    assert part["aborted_transactions"] == [{"producer_id": producer.id, "first_offset": 0}]


def test_a_follower_gives_what_it_knows_to_be_stable(cluster: Cluster) -> None:
    producer = open_transaction(cluster)
    producer.end()
    producer.add(0)
    producer.write(b"b")
    (follower, _) = freeze(cluster)
    part = part_of(fetch(cluster, 0, at=follower))
    assert (part["high_watermark"], part["last_stable_offset"]) == (3, 2)
