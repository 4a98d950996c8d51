"""Transactions: how they begin, wait and end, on a clock that is moved by hand."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.log.batch import Batch
from sojourn.kafka.log.end_marker import EndMarker, marker_batch, marker_of
from sojourn.kafka.log.isolation import Isolation
from sojourn.kafka.log.log import Log
from sojourn.kafka.transactions import State, Transaction, markers
from sojourn.kafka.wire import ErrorCode
from tests.kafka.conformance.batches import batch
from tests.kafka.in_process import Answer, ask, coordinator

TIMEOUT_MS = 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> Iterator[Cluster]:
    with Cluster(brokers=3, clock=clock, config={"min.insync.replicas": 2}) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=3)
        yield cluster


class Producer:
    """A transactional producer that asks the brokers' handlers, and takes what they say."""

    def __init__(self, cluster: Cluster, name: str = "x", timeout_ms: int = TIMEOUT_MS) -> None:
        self.cluster = cluster
        self.name = name
        self.sequence = [0, 0]
        answer = self.start(timeout_ms)
        assert "error_code" not in answer, answer
        self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]

    def start(self, timeout_ms: int = TIMEOUT_MS, known: tuple[int, int] = (-1, -1)) -> Any:
        return self._ask(
            "init_producer_id",
            5,
            transactional_id=self.name,
            transaction_timeout=datetime.timedelta(milliseconds=timeout_ms),
            producer_id=known[0],
            producer_epoch=known[1],
        ).fields

    @property
    def transaction(self) -> Transaction:
        return self.cluster.transactions[self.name]

    def state(self) -> State:
        return self.transaction.state

    def add(self, *partitions: int) -> ErrorCode:
        owner = {f"v3_and_below_{name}": value for name, value in self._owner.items()}
        topics = [{"name": "t", "partitions": list(partitions or (0,))}]
        answer = self._ask("add_partitions_to_txn", 3, **owner, v3_and_below_topics=topics).fields
        (topic,) = answer["results_by_topic_v3_and_below"]
        return ErrorCode(topic["results_by_partition"][0]["partition_error_code"])

    def write(self, *values: bytes, partition: int = 0, acks: int = -1) -> ErrorCode | None:
        """Write without adding; None: it waits."""
        records = batch(
            *values,
            attributes=0x10,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence[partition],
        )
        self.sequence[partition] += len(values)
        rows = [{"index": partition, "records": records}]
        answer = ask(
            self.cluster,
            self.cluster.leader("t", partition),
            "produce",
            11,
            {
                "transactional_id": self.name,
                "acks": acks,
                "timeout": datetime.timedelta(milliseconds=1_000),
                "topic_data": [{"name": "t", "partition_data": rows}],
            },
        )
        if answer.fields is None:
            return None
        return ErrorCode(answer.fields["responses"][0]["partition_responses"][0]["error_code"])

    def end(self, committed: bool = True) -> ErrorCode:
        answer = self._ask("end_txn", 4, **self._owner, committed=committed).fields
        return ErrorCode(answer["error_code"])

    @property
    def _owner(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }

    def _ask(self, api: str, version: int, **fields: Any) -> Answer:
        return ask(self.cluster, coordinator(self.cluster, self.name), api, version, fields)


def written(cluster: Cluster, *, committed: bool = True) -> list[bytes | None]:
    return [record.value for record in cluster.records("t", 0, committed=committed)]


def freeze(cluster: Cluster, *, partition: int = 0) -> list[int]:
    """Have both followers stand still; returns them."""
    leader = cluster.leader("t", partition)
    followers = [broker.id for broker in cluster.brokers if broker.id != leader]
    for follower in followers:
        cluster.pause_follower(follower, "t", partition)
    return followers


def fetch(cluster: Cluster, offset: int, *, max_wait_ms: int = 0, at: int = -1) -> Answer:
    row = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 2**20}
    return ask(
        cluster,
        cluster.leader("t", 0) if at < 0 else at,
        "fetch",
        12,
        {
            "max_wait": datetime.timedelta(milliseconds=max_wait_ms),
            "min_bytes": 1,
            "max_bytes": 2**20,
            "isolation_level": 1,
            "topics": [{"topic": "t", "partitions": [row]}],
            "forgotten_topics_data": [],
        },
    )


def write_marker(
    cluster: Cluster, producer: Producer, *partitions: int, **fields: Any
) -> list[ErrorCode] | None:
    """Abort the producer's transaction, as an administrator does; None: it waits."""
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": list(partitions or (0,))}],
        **fields,
    }
    leader = cluster.leader("t", 0)
    answer = ask(cluster, leader, "write_txn_markers", 1, {"markers": [marker]})
    if answer.fields is None:
        return None
    (topic,) = answer.fields["markers"][0]["topics"]
    return [partition["error_code"] for partition in topic["partitions"]]


def part_of(answer: Answer) -> Any:
    return answer.fields["responses"][0]["partitions"][0]


# The log.


def test_a_marker_says_how_the_transaction_ended() -> None:
    for marker in (EndMarker(True, 0), EndMarker(False, 7)):
        made = marker_batch(5, 2, marker, 1_000)
        made.check_crc()
        assert marker_of(made) == marker
        assert (made.producer_id, made.producer_epoch, made.max_timestamp) == (5, 2, 1_000)


def data(producer_id: int, sequence: int) -> Batch:
    return Batch(
        batch(
            b"x",
            attributes=0x10,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
    )


def log_of(*batches: Batch) -> Log:
    log = Log()
    for one in batches:
        log.append(one.placed(log.end_offset, 0))
    return log


def drawn_log() -> Log:
    """The one that is drawn at the head of isolation.py."""
    plain = Batch(batch(b"x"))
    aborted = marker_batch(1, 0, EndMarker(False, 0), 0)
    committed = marker_batch(2, 0, EndMarker(True, 0), 0)
    return log_of(
        data(1, 0),
        data(2, 0),
        data(1, 1),
        plain,
        aborted,
        data(2, 1),
        committed,
        data(1, 2),
    )


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
            assert aborted == {
                key for key, last in ends.items() if last >= start and key[1] < upto
            }, (
                start,
                upto,
            )


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


# The end.


def test_a_transaction_is_over_when_its_end_is_replicated(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0, 1)
    assert producer.write(b"a") is ErrorCode.none
    followers = freeze(cluster)
    assert producer.end() is ErrorCode.none  # decided
    assert producer.state() is State.PREPARE_COMMIT
    assert cluster.purgatories.transaction_marker.delayed == 1
    assert cluster.partition("t", 1).log.last_stable_offset == 1  # it has the end
    assert cluster.partition("t", 0).log.last_stable_offset == 0
    assert producer.add(0) is ErrorCode.concurrent_transactions
    assert producer.end() is ErrorCode.concurrent_transactions
    assert producer.end(committed=False) is ErrorCode.concurrent_transactions
    assert producer.start()["error_code"] is ErrorCode.concurrent_transactions
    for follower in followers:
        cluster.resume(follower, "t", 0)
    assert producer.state() is State.COMPLETE_COMMIT
    assert cluster.purgatories.transaction_marker.watched == 0
    assert written(cluster) == [b"a"]
    assert producer.end() is ErrorCode.none


def test_the_next_leader_writes_the_end_that_the_last_one_took_with_it(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    old, partition = cluster.leader("t", 0), cluster.partition("t", 0)
    followers = freeze(cluster)
    producer.end()
    assert partition.end_offset == 2
    cluster.stop_broker(old)
    for follower in followers:
        cluster.resume(follower, "t", 0)
    assert partition.leader != old
    assert producer.state() is State.COMPLETE_COMMIT
    assert written(cluster) == [b"a"]
    cluster.start_broker(old)
    assert partition.logs[old].last_stable_offset == 2


def test_an_end_waits_until_enough_replicas_are_in_sync(
    cluster: Cluster, clock: ManualClock
) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    followers = freeze(cluster)
    producer.write(b"b", acks=1)
    clock.advance(50_000)  # they drop out of sync
    assert cluster.partition("t", 0).isr == {cluster.leader("t", 0)}
    assert producer.end(committed=False) is ErrorCode.none
    assert producer.state() is State.PREPARE_ABORT
    assert cluster.partition("t", 0).end_offset == 2  # not even written
    for follower in followers:
        cluster.resume(follower, "t", 0)
    assert producer.state() is State.COMPLETE_ABORT
    assert written(cluster) == []
    assert written(cluster, committed=False) == [b"a", b"b"]


def test_an_end_waits_for_a_leader(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    cluster.pause_elections()
    cluster.stop_broker(cluster.leader("t", 0))
    assert producer.end() is ErrorCode.none
    assert producer.state() is State.PREPARE_COMMIT
    cluster.resume_elections()
    assert producer.state() is State.COMPLETE_COMMIT
    assert written(cluster) == [b"a"]


def test_an_end_is_not_written_after_that_of_a_newer_coordinator(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    assert write_marker(cluster, producer, coordinator_epoch=7) == [ErrorCode.none]
    assert producer.end() is ErrorCode.none
    assert producer.state() is State.COMPLETE_COMMIT
    assert cluster.partition("t", 0).end_offset == 2  # the record, and the administrator's marker
    assert written(cluster) == []


def test_an_end_that_waits_has_no_timeout_that_anybody_could_see(
    cluster: Cluster, clock: ManualClock
) -> None:
    producer = Producer(cluster)
    producer.add(0)
    freeze(cluster)
    producer.end()
    clock.advance(24 * 3_600_000)
    assert producer.state() is State.PREPARE_COMMIT
    assert cluster.purgatories.transaction_marker.metrics().expired == 0


def test_an_end_is_not_given_up_however_long_it_takes(
    cluster: Cluster, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "_TIMEOUT_MS", 10_000)
    producer = Producer(cluster)
    producer.add(0)
    followers = freeze(cluster)
    producer.end()
    clock.advance(25_000)
    assert cluster.purgatories.transaction_marker.metrics().expired == 2
    assert cluster.purgatories.transaction_marker.watched == 1
    for follower in followers:
        cluster.resume(follower, "t", 0)
    assert producer.state() is State.COMPLETE_COMMIT


def test_each_end_has_the_epoch_of_its_coordinator(cluster: Cluster) -> None:
    producer = Producer(cluster)
    log = cluster.partition("t", 0).log
    for stopped in range(2):
        producer.add(0)
        producer.end()
        (end,) = log.read(log.end_offset - 1, log.end_offset, 0, at_least_one=True)
        assert marker_of(end) == EndMarker(True, stopped)
        cluster.stop_broker(cluster.partition("t", 0).replicas[2])


def test_an_id_expires_when_it_is_not_used_and_not_while_its_transaction_is_open(
    clock: ManualClock,
) -> None:
    with Cluster(clock=clock, config={"transactional.id.expiration.ms": 10_000}) as cluster:
        cluster.create_topic("t", partitions=2)
        idle, busy = Producer(cluster, "idle"), Producer(cluster, "busy")
        busy.add(0)
        clock.advance(9_999)
        cluster.transactions.expire()
        assert set(cluster.transactions) == {"idle", "busy"}
        clock.advance(1)
        cluster.transactions.expire()
        assert set(cluster.transactions) == {"busy"}
        assert idle.add(0) is ErrorCode.invalid_producer_id_mapping
        assert Producer(cluster, "idle").id not in (idle.id, busy.id)


def test_a_transaction_outlives_its_coordinator(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    gone = coordinator(cluster, "x")
    cluster.stop_broker(gone)
    assert coordinator(cluster, "x") != gone
    assert producer.write(b"b") is ErrorCode.none
    assert producer.end() is ErrorCode.none
    assert written(cluster) == [b"a", b"b"]


def test_a_new_leader_knows_which_transactions_are_open_and_which_were_aborted(
    cluster: Cluster,
) -> None:
    one, two = Producer(cluster, "one"), Producer(cluster, "two")
    for producer in (one, two):
        producer.add(0)
        producer.write(producer.name.encode())
    one.end(committed=False)
    one.add(0)
    one.write(b"again")
    cluster.stop_broker(cluster.leader("t", 0))
    log = cluster.partition("t", 0).log
    assert log.isolation.ongoing == {two.id: 1, one.id: 3}
    assert [one.first_offset for one in log.isolation.aborted(0, 4)] == [0]
    two.end()
    one.end()
    assert written(cluster) == [b"two", b"again"]


def test_a_topic_that_is_deleted_needs_no_end(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0, 1)
    producer.write(b"a")
    freeze(cluster)
    producer.end()
    assert producer.state() is State.PREPARE_COMMIT
    cluster.delete_topic("t")
    assert producer.state() is State.COMPLETE_COMMIT


def test_a_record_that_comes_after_the_end_is_refused(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    producer.end()
    assert producer.write(b"late") is ErrorCode.transaction_abortable
    assert cluster.partition("t", 0).end_offset == 2


def test_a_transaction_hangs_if_brokers_do_not_ask_and_the_administrator_ends_it(
    clock: ManualClock,
) -> None:
    config = {"transaction.partition.verification.enable": False}
    with Cluster(clock=clock, config=config) as cluster:
        cluster.create_topic("t", partitions=2)
        producer = Producer(cluster)
        producer.add(0)
        producer.write(b"a")
        producer.end()
        assert producer.write(b"late") is ErrorCode.none
        clock.advance(2 * TIMEOUT_MS)  # the coordinator knows nothing of it
        log = cluster.partition("t", 0).log
        assert (log.last_stable_offset, log.high_watermark) == (2, 3)
        assert write_marker(cluster, producer) == [ErrorCode.none]
        assert log.last_stable_offset == log.high_watermark == 4
        assert written(cluster) == [b"a"]


def test_an_administrators_end_waits_for_the_replicas(cluster: Cluster, clock: ManualClock) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    followers = freeze(cluster)
    assert write_marker(cluster, producer) is None
    assert cluster.purgatories.produce.watched == 1
    for follower in followers:
        cluster.resume(follower, "t", 0)
    assert cluster.purgatories.produce.watched == 0
    assert write_marker(cluster, producer) == [ErrorCode.none]


def test_an_administrators_end_is_refused_for_each_partition_by_itself(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    assert write_marker(cluster, producer, 0, 7, producer_epoch=-1) == [
        ErrorCode.invalid_producer_epoch,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert cluster.partition("t", 0).end_offset == 1


# Readers.


def test_a_fetch_of_what_is_committed_waits_for_the_end(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    waiting = fetch(cluster, 0, max_wait_ms=10_000)
    assert not waiting.is_over
    producer.end(committed=False)
    assert waiting.is_over
    part = part_of(waiting)
    assert part["last_stable_offset"] == 2
    assert part["aborted_transactions"] == [{"producer_id": producer.id, "first_offset": 0}]


def test_a_follower_gives_what_it_knows_to_be_stable(cluster: Cluster) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    producer.end()
    producer.add(0)
    producer.write(b"b")
    (follower, _) = freeze(cluster)
    part = part_of(fetch(cluster, 0, at=follower))
    assert (part["high_watermark"], part["last_stable_offset"]) == (3, 2)


# Time.


def test_each_transaction_has_its_time_from_its_first_partition_on(
    cluster: Cluster, clock: ManualClock
) -> None:
    producer = Producer(cluster)
    clock.advance(10 * TIMEOUT_MS)  # it has not begun
    for _ in range(3):
        assert producer.add(0) is ErrorCode.none
        assert cluster.purgatories.transaction.watched == 1
        clock.advance(TIMEOUT_MS - 1)
        assert producer.end() is ErrorCode.none
        assert cluster.purgatories.transaction.watched == 0
    producer.add(0)
    clock.advance(TIMEOUT_MS)
    assert producer.state() is State.COMPLETE_ABORT
    assert producer.end() is ErrorCode.producer_fenced
    assert producer.add(0) is ErrorCode.producer_fenced


def test_a_transaction_is_aborted_in_time_though_its_coordinator_is_down(
    cluster: Cluster, clock: ManualClock
) -> None:
    producer = Producer(cluster)
    producer.add(0)
    producer.write(b"a")
    cluster.stop_broker(coordinator(cluster, "x"))
    clock.advance(TIMEOUT_MS)
    assert producer.state() is State.COMPLETE_ABORT
    assert written(cluster) == []


def test_an_id_that_nobody_uses_is_forgotten(clock: ManualClock) -> None:
    config = {
        "transactional.id.expiration.ms": 100_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 1_000,
    }
    with Cluster(clock=clock, config=config) as cluster:
        cluster.create_topic("t", partitions=2)
        idle, busy = Producer(cluster, "idle"), Producer(cluster, "busy", 200_000)
        busy.add(0)
        clock.advance(101_000)
        assert list(cluster.transactions) == ["busy"]
        assert idle.add(0) is ErrorCode.invalid_producer_id_mapping


# Producers.


def test_a_producer_whose_epochs_are_used_up_gets_another_id(cluster: Cluster) -> None:
    producer = Producer(cluster)
    transaction = producer.transaction
    transaction.owner = transaction.owner._replace(epoch=32_766)
    answer = producer.start(known=transaction.owner)
    assert answer["producer_id"] != producer.id
    assert answer["producer_epoch"] == 0
    assert producer.start(known=(producer.id, 32_766)) == answer  # the answer was lost
    assert producer.start(known=(producer.id, 32_765))["error_code"] is ErrorCode.producer_fenced


def test_the_last_epoch_is_kept_for_fencing(cluster: Cluster, clock: ManualClock) -> None:
    producer = Producer(cluster)
    producer.epoch = 32_766
    producer.transaction.owner = producer.transaction.owner._replace(epoch=producer.epoch)
    producer.add(0)
    producer.write(b"a")
    clock.advance(TIMEOUT_MS)
    assert producer.transaction.owner.epoch == 32_767
    assert producer.start()["producer_epoch"] == 0


def test_one_that_was_fenced_writes_nothing_anywhere(cluster: Cluster) -> None:
    old = Producer(cluster)
    old.add(0)
    old.write(b"a")
    assert old.start()["error_code"] is ErrorCode.concurrent_transactions  # aborted meanwhile
    Producer(cluster)
    assert old.write(b"b") is ErrorCode.invalid_producer_epoch
    assert old.write(b"b", partition=1) is ErrorCode.invalid_producer_epoch
    assert old.end() is ErrorCode.producer_fenced
    assert written(cluster) == []


# Offsets of groups.


def pend(producer: Producer, offset: int) -> Any:
    cluster = producer.cluster
    producer._ask("add_offsets_to_txn", 3, **producer._owner, group_id="g")
    row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    fields = {
        **producer._owner,
        "group_id": "g",
        "topics": [{"name": "t", "partitions": [row]}],
    }
    answer = ask(cluster, coordinator(cluster, "g"), "txn_offset_commit", 2, fields).fields
    return answer["topics"][0]["partitions"][0]["error_code"]


def test_pending_offsets_outlive_the_groups_coordinator(cluster: Cluster) -> None:
    producer = Producer(cluster)
    assert pend(producer, 5) is ErrorCode.none
    cluster.stop_broker(coordinator(cluster, "g"))
    assert cluster.groups.store.is_pending("g", "t", 0)
    assert "g" in cluster.groups
    producer.end()
    assert cluster.groups.store.offsets("g")["t", 0].offset == 5


def test_pending_offsets_of_a_deleted_topic_are_gone(cluster: Cluster) -> None:
    producer = Producer(cluster)
    pend(producer, 5)
    cluster.delete_topic("t")
    producer.end()
    assert cluster.groups.store.offsets("g") == {}


def test_a_group_with_pending_offsets_does_not_expire(clock: ManualClock) -> None:
    config = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1_000}
    with Cluster(clock=clock, config=config) as cluster:
        cluster.create_topic("t", partitions=2)
        producer = Producer(cluster, timeout_ms=900_000)
        pend(producer, 5)
        clock.advance(120_000)
        assert "g" in cluster.groups
        producer.end()
        assert cluster.groups.store.offsets("g")["t", 0].offset == 5
        clock.advance(120_000)
        assert "g" not in cluster.groups
