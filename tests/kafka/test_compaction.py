"""Compaction: of each key the last record stays, tombstones for a time, and offsets as they are."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster, Record
from sojourn.kafka.log.batch import Batch
from sojourn.kafka.log.record import records_in
from sojourn.kafka.refusal import Refused
from tests.kafka.batches import batch
from tests.kafka.wire_client import WireClient
from tests.seeds import seed

_HOUR_MS = 3_600_000
COMPACT = {"cleanup.policy": "compact"}
#: A segment for each batch, so that all but the last can be cleaned.
SMALL = COMPACT | {"segment.ms": "1", "min.cleanable.dirty.ratio": "0"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> Iterator[Cluster]:
    with Cluster(brokers=3, clock=clock) as one:
        yield one


def _kept(cluster: Cluster, topic: str = "t") -> list[tuple[int, str, str | None]]:
    return [
        (
            record.offset,
            (record.key or b"").decode(),
            None if record.value is None else record.value.decode(),
        )
        for record in cluster.records(topic)
    ]


def _append(cluster: Cluster, *pairs: tuple[str, str | None], topic: str = "t") -> None:
    for pair in pairs:
        cluster.append(topic, [pair])


def _append_apart(
    cluster: Cluster, clock: ManualClock, *pairs: tuple[str, str | None], ms: int = 2
) -> None:
    for pair in pairs:
        clock.advance(ms)
        cluster.append("t", [pair])


def test_the_last_record_of_each_key_stays_at_its_offset(cluster: Cluster) -> None:
    cluster.create_topic("t", config=COMPACT)
    cluster.append("t", [("a", "1"), ("b", "1"), ("a", "2")])
    cluster.append("t", [("c", "1"), ("b", "2")])
    cluster.compact("t")
    assert _kept(cluster) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2")]
    assert cluster.partition("t", 0).end_offset == 5
    assert cluster.partition("t", 0).log.start_offset == 0
    cluster.append("t", [("a", "3")])
    cluster.compact("t")
    assert _kept(cluster) == [(3, "c", "1"), (4, "b", "2"), (5, "a", "3")]


def test_a_consumer_reads_across_the_gaps(cluster: Cluster) -> None:
    cluster.create_topic("t", config=COMPACT)
    _append(cluster, *[("a", str(n)) for n in range(5)], ("b", "1"))
    cluster.compact("t")
    leader = cluster.broker(cluster.leader("t", 0))
    with WireClient(leader.host, leader.port) as client:
        answer = client.ask(client.fetch("t", {0: 1}))
    (partition,) = answer.responses[0].partitions
    assert [Batch(partition.records).base_offset] == [4]


def test_headers_times_and_compression_of_what_stays_are_kept(
    cluster: Cluster, clock: ManualClock
) -> None:
    cluster.create_topic("t", config=COMPACT | {"compression.type": "gzip"})
    start_ms = cluster.wall_ms()
    rows = [
        Record(b"1", b"a", (("h", b"x"), ("n", None)), start_ms),
        Record(b"1", b"b", timestamp_ms=start_ms + 1),
        Record(b"2", b"b", (("h", b"y"),), start_ms + 5),
    ]
    (first, _, third) = cluster.append("t", rows)
    cluster.compact("t")
    assert cluster.records("t") == [first, third]
    (kept,) = cluster.partition("t", 0).log.data_batches(committed=True)
    assert (kept.base_offset, kept.last_offset, kept.count) == (0, 2, 2)
    kept.check_crc()
    assert kept.attributes & 7 == 1
    assert kept.max_timestamp == start_ms + 5


def test_a_tombstone_stays_for_delete_retention_ms(cluster: Cluster, clock: ManualClock) -> None:
    cluster.create_topic("t", config=COMPACT | {"delete.retention.ms": str(_HOUR_MS)})
    _append(cluster, ("a", "1"), ("a", None), ("b", "1"))
    clock.advance(_HOUR_MS)  # counted from the cleaning, not from the append
    cluster.compact("t")
    assert _kept(cluster) == [(1, "a", None), (2, "b", "1")]
    (before,) = [one for one in cluster.records("t") if one.value is None]
    clock.advance(_HOUR_MS - 1)
    _append(cluster, ("c", "1"))
    cluster.compact("t")
    assert [one for one in cluster.records("t") if one.value is None] == [before]
    clock.advance(1)
    cluster.compact("t")
    assert _kept(cluster) == [(2, "b", "1"), (3, "c", "1")]


def test_the_cleaner_runs_on_the_clusters_clock(cluster: Cluster, clock: ManualClock) -> None:
    cluster.create_topic("t", replication_factor=3, config=SMALL)
    _append_apart(cluster, clock, ("a", "1"), ("a", "2"), ("b", "1"))
    assert len(cluster.records("t")) == 3
    clock.advance(15_000)  # log.cleaner.backoff.ms
    assert _kept(cluster) == [(1, "a", "2"), (2, "b", "1")]
    for log in cluster.partition("t", 0).logs.values():
        batches = log.data_batches(committed=False)
        values = [record.value for one in batches for record in records_in(one, "t", 0)]
        assert values == [b"2", b"1"]


def test_the_segment_that_is_written_to_is_not_cleaned(
    cluster: Cluster, clock: ManualClock
) -> None:
    cluster.create_topic("t", config=SMALL | {"segment.ms": str(_HOUR_MS)})
    _append_apart(cluster, clock, ("a", "1"), ("a", "2"))
    clock.advance(15_000)
    assert len(cluster.records("t")) == 2
    clock.advance(_HOUR_MS)
    _append(cluster, ("a", "3"))  # begins a segment
    clock.advance(15_000)
    assert _kept(cluster) == [(1, "a", "2"), (2, "a", "3")]


def test_segments_end_at_segment_bytes(cluster: Cluster, clock: ManualClock) -> None:
    size = 600_000
    cluster.create_topic(
        "t", config=COMPACT | {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
    )
    for _ in range(3):
        cluster.append("t", [("a", "x" * size)])
    clock.advance(15_000)
    # 0 | 1 | 2: each segment has room for one, and the last one is being written to.
    assert [record.offset for record in cluster.records("t")] == [1, 2]


def test_little_dirt_is_left_until_the_ratio_is_reached(
    cluster: Cluster, clock: ManualClock
) -> None:
    cluster.create_topic("t", config=SMALL | {"min.cleanable.dirty.ratio": "0.5"})
    _append_apart(cluster, clock, *[(f"k{n}", "1") for n in range(10)])
    clock.advance(15_000)  # all of it was dirty
    _append_apart(cluster, clock, *[("k0", "2")] * 9)
    clock.advance(15_000)  # 9 of 18 segments: not above the ratio
    assert len(cluster.records("t")) == 19
    _append_apart(cluster, clock, ("k0", "2"), ("k0", "2"))
    clock.advance(15_000)
    assert len(cluster.records("t")) == 11


def test_records_younger_than_min_compaction_lag_stay(cluster: Cluster, clock: ManualClock) -> None:
    cluster.create_topic("t", config=SMALL | {"min.compaction.lag.ms": str(_HOUR_MS)})
    _append_apart(cluster, clock, ("a", "1"), ("a", "2"))
    clock.advance(_HOUR_MS // 2)
    _append_apart(cluster, clock, ("a", "3"), ("a", "4"))
    cluster.compact("t")
    assert len(cluster.records("t")) == 4
    clock.advance(_HOUR_MS // 2)
    cluster.compact("t")
    assert [record.offset for record in cluster.records("t")] == [1, 2, 3]
    clock.advance(_HOUR_MS)
    cluster.compact("t")
    assert [record.offset for record in cluster.records("t")] == [3]


def test_what_is_older_than_max_compaction_lag_is_cleaned_whatever_the_ratio(
    cluster: Cluster, clock: ManualClock
) -> None:
    config = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": str(_HOUR_MS)}
    cluster.create_topic("t", config=SMALL | config)
    _append_apart(cluster, clock, ("a", "1"), ("a", "2"), ("a", "3"))
    clock.advance(_HOUR_MS // 2)
    assert len(cluster.records("t")) == 3
    clock.advance(_HOUR_MS // 2 + 15_000)
    assert len(cluster.records("t")) == 2


def test_a_new_replica_follows_a_compacted_log_to_its_end(
    cluster: Cluster, clock: ManualClock
) -> None:
    topic = cluster.create_topic("t", config=COMPACT | {"delete.retention.ms": "0"})
    _append(cluster, ("a", "1"), ("b", "1"), ("b", None))
    for _ in range(3):  # the last of it has nothing left in the end
        clock.advance(1)
        cluster.compact("t")
        _append(cluster, ("c", None))
    clock.advance(1)
    cluster.compact("t")
    clock.advance(1)
    cluster.compact("t")
    partition = cluster.partition("t", 0)
    with cluster.agenda:
        cluster.controller.reassign(partition, (1, 2, 3))
    assert partition.isr == {1, 2, 3}
    assert {log.end_offset for log in partition.logs.values()} == {6}
    assert topic.replication_factor == 3


def test_a_retry_is_known_after_its_records_were_compacted(cluster: Cluster) -> None:
    cluster.create_topic("t", replication_factor=3, config=COMPACT)
    partition = cluster.partition("t", 0)
    rows = ((b"a", b"1"), (b"a", b"2"))
    first = Batch(batch(*rows, producer_id=7, producer_epoch=0, base_sequence=0))
    with cluster.agenda:
        partition.append(first, acks=1)
    _append(cluster, ("a", "3"))
    cluster.compact("t")
    assert _kept(cluster) == [(2, "a", "3")]
    assert partition.high_watermark == 3
    cluster.move_leader("t", 0, 2)
    log = partition.log
    log.producers.rebuild(log.read(0, 3, 1 << 30, at_least_one=True), 3)  # as after a truncation
    with cluster.agenda:
        again = partition.append(first, acks=1)
    assert (again.base_offset, partition.end_offset) == (0, 3)


def test_without_the_cleaner_nothing_is_cleaned(clock: ManualClock) -> None:
    with Cluster(clock=clock, config={"log.cleaner.enable": False}) as cluster:
        cluster.create_topic("t", config=SMALL)
        _append_apart(cluster, clock, ("a", "1"), ("a", "2"), ("a", "3"))
        clock.advance(_HOUR_MS)
        assert len(cluster.records("t")) == 3
        cluster.compact("t")
        assert len(cluster.records("t")) == 1


def test_a_topic_that_is_not_compacted_is_refused(cluster: Cluster) -> None:
    cluster.create_topic("t")
    with pytest.raises(Refused, match="is not compacted"):
        cluster.compact("t")
    with pytest.raises(Refused, match="unknown_topic_or_partition"):
        cluster.compact("unknown")


def test_a_topic_can_be_compacted_and_deleted(cluster: Cluster, clock: ManualClock) -> None:
    config = {"cleanup.policy": "compact,delete", "retention.ms": str(_HOUR_MS)}
    cluster.create_topic("t", config=config)
    _append(cluster, ("a", "1"), ("a", "2"), ("b", "1"))
    cluster.compact("t")
    assert [record.offset for record in cluster.records("t")] == [1, 2]
    clock.advance(2 * _HOUR_MS)
    assert cluster.records("t") == []


@pytest.mark.parametrize("number", range(20))
def test_random_logs_are_compacted_as_a_dictionary_would(number: int) -> None:
    rng = random.Random(seed() + number)
    clock = ManualClock()
    with Cluster(brokers=2, clock=clock) as cluster:
        config = COMPACT | {"delete.retention.ms": "50", "compression.type": "uncompressed"}
        cluster.create_topic("t", replication_factor=2, config=config)
        rows: list[Record] = []
        for _ in range(rng.randrange(1, 40)):
            action = rng.random()
            if action < 0.7:
                pairs = [
                    (f"k{rng.randrange(6)}", None if rng.random() < 0.3 else str(rng.random()))
                    for _ in range(rng.randrange(1, 5))
                ]
                rows += cluster.append("t", pairs)
            elif action < 0.85:
                clock.advance(rng.randrange(40))
            else:
                cluster.compact("t")
        cluster.compact("t")
        last = {record.key: record for record in rows}
        kept = cluster.records("t")
        with_value = [record for record in kept if record.value is not None]
        assert with_value == sorted(
            (one for one in last.values() if one.value is not None), key=lambda one: one.offset
        )
        assert all(last[record.key] == record for record in kept)
        clock.advance(51)
        cluster.append("t", [("end", "1")])
        cluster.compact("t")
        cluster.append("t", [("end", "2")])
        clock.advance(51)
        cluster.compact("t")
        assert all(record.value is not None for record in cluster.records("t"))
