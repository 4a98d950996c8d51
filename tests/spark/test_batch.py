"""Spark batch: DataFrames in, DataFrames out. That the answers are right, test_one_answer says."""

from __future__ import annotations

import datetime
import functools
from decimal import Decimal
from threading import Semaphore
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest

from sojourn import replay
from sojourn.errors import BadTable, OutOfRange, WrongType
from tests.rows.traces import random_trace
from tests.until import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from sojourn.spark import batch, broadcast, hot_keys, resolve, strategies
from sojourn.spark.beside import Beside
from sojourn.spark.frames import Tables, known_bytes

OPERATIONS = (
    "id string, submitted_ms long, timeout_ms long, requires array<struct<key string, offset long>>"
)
SIGNALS = "key string, offset long, at_ms long"


both_strategies = pytest.mark.parametrize("strategy", ["broadcast", "shuffle"])


@pytest.fixture
def signals(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("k", 1, 50)], SIGNALS)


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


@both_strategies
def test_the_answer_in_a_few_lines(spark: SparkSession, signals: DataFrame, strategy: str) -> None:
    operations = spark.createDataFrame(
        [("a", 0, 100, [("k", 1)]), ("b", 0, 10, [("k", 1)]), ("c", 60, 100, [("k", 2)])],
        OPERATIONS,
    )
    r = resolve(operations, signals, until_ms=100, strategy=strategy)
    assert r.strategy == strategy
    found = {row["id"]: row.asDict() for row in r.outcomes.collect()}
    assert found == {
        "a": {
            "id": "a",
            "status": "completed",
            "at_ms": 50,
            "by_key": "k",
            "waited_ms": 50,
            "condition_ms": 50,
            "submitted_ms": 0,
            "timeout_ms": 100,
        },
        "b": {
            "id": "b",
            "status": "expired",
            "at_ms": 10,
            "by_key": None,
            "waited_ms": 10,
            "condition_ms": 50,
            "submitted_ms": 0,
            "timeout_ms": 10,
        },
    }
    assert [tuple(row) for row in r.pending.collect()] == [("c", 60, 100, [("k", 2)], 1)]
    assert resolve(operations, signals).pending.columns == r.pending.columns
    assert r.rejected.count() == 0


@both_strategies
def test_extra_columns_of_every_type_pass_through_as_they_are(
    spark: SparkSession, signals: DataFrame, strategy: str
) -> None:
    extras = (
        "a_byte byte, a_bool boolean, a_float float, a_double double, a_decimal decimal(38,10),"
        " a_binary binary, a_date date, a_time timestamp, a_local_time timestamp_ntz,"
        " an_interval interval day to second, a_void void,"
        " a_struct struct<x: int, y: array<string>>, a_map map<string, struct<z: decimal(5,2)>>,"
        " an_array array<array<int>>, kind string, `row` int, `table` string, partition long,"
        " `with a.dot` string"
    )
    moment = datetime.datetime(2024, 2, 29, 12, 30, 0, 123456)
    values: list[tuple[Any, ...]] = [
        (
            7,
            True,
            1.5,
            float("nan"),
            Decimal("1234567890123456789012345678.0123456789"),
            b"\x00\xff",
            datetime.date(1901, 1, 1),
            moment,
            moment,
            datetime.timedelta(days=3, microseconds=1),
            None,
            {"x": None, "y": ["é", None]},
            {"m": {"z": Decimal("1.25")}, "n": None},
            [[1, None], [], None],
            "mine",
            3,
            "theirs",
            2**62,
            "dotted",
        ),
        (None,) * 19,
    ]
    rows = [
        (f"op-{n}", n, 10**9 if n % 3 == 2 else 100, [("k", n % 3)], *values[n % 2])
        for n in range(20)
    ]
    operations = spark.createDataFrame(rows, f"{OPERATIONS}, {extras}")
    # Two of them have one id, and one signal is bad: these take ways of their own.
    operations = operations.union(
        operations.where("id = 'op-7'").withColumn("submitted_ms", sf.lit(10**6))
    )
    signals = signals.union(spark.createDataFrame([(None, 1, 1)], SIGNALS))
    r = resolve(operations, signals, until_ms=10_000, partitions=3, strategy=strategy)
    names = operations.columns[4:]
    with r:
        found = r.outcomes.unionByName(r.pending, allowMissingColumns=True)
        for name in names:
            assert found.schema[name].dataType == operations.schema[name].dataType
        ended = {repr(row["id"]): repr([row[name] for name in names]) for row in found.collect()}
        assert r.pending.count() > 0
        reasons = sorted(row["reason"] for row in r.rejected.collect())
        assert reasons == ["id is a duplicate of an earlier operation", "key is null"]
    given = {repr(row["id"]): repr([row[name] for name in names]) for row in operations.collect()}
    assert ended == given


@both_strategies
def test_partitions_and_their_order_do_not_matter(spark: SparkSession, strategy: str) -> None:
    trace = random_trace(11, 2000, extremes=False, ties_by_arrival=False, until=True)
    tables = trace.tables()
    expected = replay.resolve(*tables, trace.until_ms)
    operations, signals, cancels = (spark.createDataFrame(table) for table in tables)
    for count in (1, 6):
        r = resolve(
            operations.repartition(5),
            signals.repartition(3),
            cancels.repartition(2),
            trace.until_ms,
            strategy=strategy,
            partitions=count,
        )
        with r:
            for name in ("outcomes", "pending", "rejected"):
                found = getattr(r, name).toArrow()
                assert sorted_rows(found) == sorted_rows(getattr(expected, name))
            counted = r.rows.groupBy("kind").count().collect()
    kinds = {row["kind"]: row["count"] for row in counted}
    rejected = sum(row["table"] == "operations" for row in expected.rejected.to_pylist())
    others = kinds["rejected"] - rejected
    assert sum(kinds.values()) - others == len(trace.operations)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_hot_key_is_cut_and_the_answer_stays_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    count = 20_000
    random = np.random.default_rng(1)
    keys = np.where(random.random(2 * count) < share, 0, random.integers(0, 50, 2 * count))
    names = pa.array([f"k{n}" for n in range(50)])
    requires = pa.ListArray.from_arrays(
        pa.array(np.arange(count + 1), pa.int32()),
        pa.StructArray.from_arrays(
            [names.take(pa.array(keys[:count])), pa.array(random.integers(0, 900, count))],
            ["key", "offset"],
        ),
    )
    operations = pa.table(
        {
            "id": [f"op-{n}" for n in range(count)],
            "submitted_ms": random.integers(0, 1000, count),
            "timeout_ms": random.integers(0, 500, count),
            "requires": requires,
        }
    )
    signals = pa.table(
        {
            "key": names.take(pa.array(keys[count:])),
            "offset": random.integers(0, 1000, count),
            "at_ms": random.integers(0, 2000, count),
        }
    )
    monkeypatch.setattr(batch, "_LEAST_BYTES_TO_SAMPLE", 0)
    monkeypatch.setattr(batch, "_SAMPLED_SHARE", 0.2)
    seen: list[hot_keys.HotKeys] = []
    found_by = hot_keys.hot_keys

    def look(sample: pa.Table, partitions: int) -> hot_keys.HotKeys:
        seen.append(found_by(sample, partitions))
        return seen[-1]

    monkeypatch.setattr(hot_keys, "hot_keys", look)
    r = resolve(
        spark.createDataFrame(operations),
        spark.createDataFrame(signals),
        strategy="shuffle",
        partitions=4,
    )
    found = r.outcomes.toArrow()
    assert len(seen[0]) == 1
    assert sorted_rows(found) == sorted_rows(replay.resolve(operations, signals).outcomes)


@both_strategies
def test_no_rows_give_no_rows(spark: SparkSession, signals: DataFrame, strategy: str) -> None:
    nothing = spark.createDataFrame([], OPERATIONS)
    r = resolve(nothing, signals, strategy=strategy)
    assert r.rows.count() == 0
    one = spark.createDataFrame([("a", 0, 1, [("k", 1)])], OPERATIONS)
    r = resolve(one, signals.limit(0), strategy=strategy)
    assert [row["status"] for row in r.outcomes.collect()] == ["expired"]


def test_a_missing_or_wrong_column_is_an_error_at_once_in_the_words_of_replay(
    spark: SparkSession, signals: DataFrame
) -> None:
    good = spark.createDataFrame([], OPERATIONS)
    for bad in (
        "id string, submitted_ms long, timeout_ms long",
        OPERATIONS.replace("id string", "id double"),
        OPERATIONS.replace("timeout_ms long", "timeout_ms timestamp"),
        OPERATIONS.replace("struct<key string, offset long>", "string"),
        OPERATIONS.replace("offset long", "offset timestamp"),
        f"{OPERATIONS}, status string",
        f"{OPERATIONS}, needed double",
    ):
        df = spark.createDataFrame([], bad)
        with pytest.raises(BadTable) as found:
            resolve(df, signals)
        with pytest.raises(BadTable) as expected:
            replay.resolve(df.toArrow(), signals.toArrow())
        assert str(found.value) == str(expected.value)
    with pytest.raises(BadTable, match="signals: there is no column 'at_ms'"):
        resolve(good, signals.drop("at_ms"))
    with pytest.raises(BadTable, match="cancels: there is no column 'id'"):
        resolve(good, signals, signals)


def test_what_is_not_a_dataframe_or_a_streaming_one_is_an_error(
    spark: SparkSession, signals: DataFrame
) -> None:
    streaming: Any = spark.readStream.format("rate").load()
    with pytest.raises(WrongType, match="resolve_stream"):
        resolve(streaming, signals)
    table: Any = signals.toArrow()
    with pytest.raises(WrongType, match=r"operations must be a Spark DataFrame, got Table"):
        resolve(table, signals)


def test_options_out_of_range_are_errors(spark: SparkSession, signals: DataFrame) -> None:
    operations = spark.createDataFrame([], OPERATIONS)
    with pytest.raises(OutOfRange, match="partitions must be an integer from 1"):
        resolve(operations, signals, partitions=0)
    with pytest.raises(OutOfRange, match="until_ms must fit 64 bits"):
        resolve(operations, signals, until_ms=2**63)


def test_numbers_beyond_64_bits_are_rejected_rows(spark: SparkSession, signals: DataFrame) -> None:
    wide = OPERATIONS.replace("submitted_ms long", "submitted_ms decimal(38,0)")
    operations = spark.createDataFrame(
        [("a", Decimal(2**70), 1, [("k", 1)]), ("b", Decimal(3), 1, [("k", 1)])], wide
    )
    r = resolve(operations, signals)
    assert [row["reason"] for row in r.rejected.collect()] == ["submitted_ms is outside 64 bits"]
    assert [row["id"] for row in r.outcomes.collect()] == ["b"]


@both_strategies
def test_of_duplicates_the_first_to_arrive_stays(
    spark: SparkSession, signals: DataFrame, strategy: str
) -> None:
    rows = [("a", 5, n, [("k", 1)]) for n in range(40)]
    operations = spark.createDataFrame(rows, OPERATIONS)
    assert operations.rdd.getNumPartitions() > 1
    r = resolve(operations, signals, strategy=strategy)
    assert [row["waited_ms"] for row in r.outcomes.collect()] == [0]
    assert r.rejected.count() == 39


def test_the_number_of_partitions_follows_the_size_of_the_input(spark: SparkSession) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", 7)
    small = spark.createDataFrame(pa.table({"key": ["k"], "offset": [1], "at_ms": [1]}))
    known = known_bytes(small)
    assert known is not None
    assert known < 10_000
    assert batch.partitions_for(small, known) == 2
    assert batch.partitions_for(small, 1 << 30) == 64
    assert batch.partitions_for(small, None) == 7
    assert known_bytes(spark.sparkContext.parallelize([(1,)]).toDF()) is None


def test_signals_that_are_few_for_the_operations_are_broadcast(
    spark: SparkSession, signals: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    requires = [{"key": "k", "offset": 1}]
    operations = spark.createDataFrame(
        pa.Table.from_pylist(
            [
                {"id": f"op-{n}", "submitted_ms": n, "timeout_ms": 100, "requires": requires}
                for n in range(20)
            ]
        )
    )
    signals = spark.createDataFrame(signals.toArrow())
    assert resolve(operations, signals).strategy == "broadcast"
    assert (
        resolve(operations, signals, signals.selectExpr("key as id", "at_ms")).strategy
        == "broadcast"
    )
    many = functools.reduce(DataFrame.union, [signals] * 100)
    assert resolve(operations, many).strategy == "shuffle"
    # What Spark does not know the size of, or would not be the same when read again.
    unknown = spark.sparkContext.parallelize([("k", 1, 50)]).toDF(["key", "offset", "at_ms"])
    assert resolve(operations, unknown).strategy == "shuffle"
    changing = operations.withColumn("id", sf.uuid())
    assert resolve(changing, signals).strategy == "shuffle"
    assert resolve(operations, signals, strategy="shuffle").strategy == "shuffle"
    # What turns out to be too much: the driver thinks better of it.
    monkeypatch.setattr(broadcast, "LIMITS", broadcast.LIMITS._replace(steps=0))
    r = resolve(operations, signals)
    assert r.strategy == "shuffle"
    assert r.outcomes.count() == 20


def test_more_than_the_driver_may_collect_is_too_many_for_a_broadcast() -> None:
    class Frame:
        def toArrow(self) -> None:
            raise RuntimeError("results ... bigger than spark.driver.maxResultSize (1024.0 MiB)")

    frame: Any = Frame()
    with pytest.raises(broadcast.TooMany, match="maxResultSize"):
        broadcast._collected(frame)


@pytest.mark.parametrize(
    ("sizes", "is_broadcast"),
    [
        ((100 << 20, 100 << 20, 0), True),  # on two cores
        ((100 << 20, 201 << 20, 0), False),
        ((10, 20, 0), True),
        ((10, 10, 11), False),
        ((1 << 40, 128 << 20, 0), True),
        ((1 << 40, 129 << 20, 0), False),
        ((1 << 40, 1, None), False),
        ((None, 1, 0), False),
        ((1 << 40, None, 0), False),
    ],
)
def test_the_choice_follows_the_sizes(
    sizes: tuple[int | None, int | None, int | None], is_broadcast: bool
) -> None:
    tables: Any = Tables(*(cast("Any", SimpleNamespace(known_bytes=size)) for size in sizes))
    assert strategies.suits_broadcast(tables, 2) == is_broadcast


def test_operations_with_one_requirement_each_are_shuffled_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = random_trace(12, 1000, extremes=False, ties_by_arrival=False, until=True)
    operations, signals, cancels = trace.tables()
    first = [
        requires[:1] if requires else requires for requires in operations["requires"].to_pylist()
    ]
    one_each = operations.set_column(
        operations.column_names.index("requires"),
        "requires",
        pa.array(first, operations["requires"].type),
    )
    monkeypatch.setattr(batch, "_LEAST_BYTES_TO_SAMPLE", 0)
    in_one: list[Tables] = []

    def noted(tables: Tables, *more: Any) -> Any:
        in_one.append(tables)
        return shuffled_once(tables, *more)

    shuffled_once = batch._shuffled_once
    monkeypatch.setattr(batch, "_shuffled_once", noted)
    heard, called_off = (spark.createDataFrame(table) for table in (signals, cancels))
    resolve(spark.createDataFrame(operations), heard, called_off, strategy="shuffle")
    assert not in_one
    expected = replay.resolve(one_each, signals, cancels, trace.until_ms)
    with resolve(
        spark.createDataFrame(one_each),
        heard,
        called_off,
        trace.until_ms,
        strategy="shuffle",
        partitions=3,
    ) as r:
        assert in_one
        for name in ("outcomes", "pending", "rejected"):
            assert sorted_rows(getattr(r, name).toArrow()) == sorted_rows(getattr(expected, name))


def test_an_unknown_strategy_is_an_error(spark: SparkSession, signals: DataFrame) -> None:
    operations = spark.createDataFrame([], OPERATIONS)
    with pytest.raises(OutOfRange, match='one of "auto", "broadcast", "shuffle", got \'fast\''):
        resolve(operations, signals, strategy="fast")


def test_spark_connect_has_no_broadcast() -> None:
    remote: Any = object()
    assert strategies.checked_strategy("auto", remote) == "auto"
    with pytest.raises(OutOfRange, match="Spark Connect has no broadcast"):
        strategies.checked_strategy("broadcast", remote)


def test_large_inputs_leave_it_to_spark_to_find_duplicates(
    spark: SparkSession, signals: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "NO_LIMITS", broadcast.NO_LIMITS._replace(hashes_bytes=0))
    rows = [(f"op-{n % 7}", n, 100, [("k", 1)]) for n in range(10)]
    r = resolve(spark.createDataFrame(rows, OPERATIONS), signals, strategy="broadcast")
    assert r.outcomes.count() == 7
    assert r.rejected.count() == 3


def test_ids_are_hashed_beside_the_signals_and_an_error_there_is_raised(
    spark: SparkSession,
) -> None:
    with Beside(spark, lambda: spark.range(1000).count()) as counted:
        assert spark.range(10).count() == 10
    assert counted.result() == 1000

    def fail() -> None:
        raise broadcast.TooMany("ids")

    with Beside(spark, fail) as failed:
        pass
    with pytest.raises(broadcast.TooMany, match="ids"):
        failed.result()


def test_a_block_that_fails_cancels_what_runs_beside_it(spark: SparkSession) -> None:
    def endless() -> object:
        # Nothing of it is known beforehand: that rand() < 0 is never true, say, Spark knows.
        return spark.range(1 << 40).selectExpr("max(xxhash64(id))").first()

    def fail_meanwhile() -> None:
        with beside:
            until(spark.sparkContext.statusTracker().getActiveJobsIds, "a job")
            raise broadcast.TooMany("signals")

    beside = Beside(spark, endless)
    with pytest.raises(broadcast.TooMany):
        fail_meanwhile()
    with pytest.raises(Exception, match="cancelled"):
        beside.result()


def test_a_job_that_starts_after_the_block_has_failed_is_cancelled_too(
    spark: SparkSession,
) -> None:
    cancelled = Semaphore(0)

    class Context:
        def addJobTag(self, tag: str) -> None: ...

        def cancelJobsWithTag(self, tag: str) -> None:
            cancelled.release()

    def start_late() -> bool:
        assert cancelled.acquire(timeout=PATIENCE_S)
        return cancelled.acquire(timeout=PATIENCE_S)  # of the job that starts now

    session: Any = SimpleNamespace(sparkContext=Context())
    beside = Beside(session, start_late)
    with pytest.raises(broadcast.TooMany), beside:
        raise broadcast.TooMany("signals")
    assert beside.result()
