"""DataFrames with timestamps, intervals, integers and bytes: the answer of `replay` on the same."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sojourn import replay
from sojourn.errors import BadTable
from sojourn.replay import rows
from sojourn.replay.columns import operation_columns, signal_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")

import sojourn.spark as sp

NOON = datetime.datetime(2026, 1, 5, 12, 0, 0, 123_900)
NOON_MS = 1_767_614_400_123
MINUTE = datetime.timedelta(minutes=1)


@pytest.fixture
def tokyo(spark: SparkSession) -> Any:
    """The session's zone is for people to look at; it must not change what a time is."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def operations(spark: SparkSession) -> DataFrame:
    made: list[tuple[Any, ...]] = [
        (
            n,
            NOON,
            (2 * n) * MINUTE if n != 3 else None,
            [(b"paid" if n % 2 else b"\xff", 1)],
            n * MINUTE,
        )
        for n in range(6)
    ]
    rows_ = [*made, (5, NOON + MINUTE, MINUTE, [(b"k", 1)], None)]  # a duplicate
    return spark.createDataFrame(
        rows_,
        "id int, submitted_ms timestamp_ntz, timeout_ms interval day to second,"
        " requires array<struct<key: binary, offset: int>>, waited interval day to second",
    )


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


@pytest.mark.parametrize("strategy", ["broadcast", "shuffle"])
def test_columns_as_they_are_give_the_answer_of_replay(tokyo: SparkSession, strategy: str) -> None:
    asked = operations(tokyo)
    moment = datetime.datetime(2026, 1, 5, 12, 3, tzinfo=datetime.UTC)
    news = pa.table({"key": ["paid", "0xff"], "offset": [1, 1], "at_ms": [moment, moment]})
    signals = tokyo.createDataFrame(news)
    expected = replay.resolve(asked.toArrow(), news, until_ms=NOON_MS + 500_000)
    with sp.resolve(asked, signals, until_ms=NOON_MS + 500_000, strategy=strategy) as found:
        for name in ("outcomes", "pending", "rejected"):
            there = getattr(found, name).toArrow()
            assert sorted_rows(there) == sorted_rows(getattr(expected, name))
        stamped = found.with_timestamps().outcomes
        assert stamped.columns[:5] == ["id", "status", "at_ms", "at", "by_key"]
        told = stamped.selectExpr("unix_millis(at) = at_ms as same").distinct().collect()
        assert [row[0] for row in told] == [True]
    ended = {row["id"]: row for row in expected.outcomes.to_pylist()}
    assert (ended["2"]["status"], ended["2"]["waited_ms"]) == ("completed", 179_877)
    reasons = expected.rejected["reason"].to_pylist()
    assert sorted(reasons) == [rows.DUPLICATE, "timeout_ms is null"]
    with pytest.raises(BadTable, match="a column 'at' of their own"):
        sp.resolve(asked.withColumnRenamed("waited", "at"), signals).with_timestamps()


def test_json_texts_are_read_as_the_columns_say(spark: SparkSession) -> None:
    texts = [
        {"order": 7, "made": "2026-01-05T12:00:00Z", "state": "new", "shop": "x"},
        {"order": "8", "made": 1767614400000, "state": "new", "shop": "y"},
        {"order": 9, "made": "soon", "state": "old", "shop": "z"},
        {"order": 10, "made": "soon", "state": "new", "shop": None},
    ]
    lines = [(json.dumps(text),) for text in texts] + [("{",)]
    frame = spark.createDataFrame(lines, "value string").coalesce(1)
    how = operation_columns(
        id="order", submitted_ms="made", timeout="5s", requires="paid/{order}",
        where={"state": "new"}, keep=["shop"],
    )  # fmt: skip
    parsed = sp.parse_json(frame, "operations", extras="shop string", columns=how)
    clean = rows.check_operations(parsed.toArrow())
    assert clean.ids.to_pylist() == ["7", "8"]
    assert clean.keys.to_pylist() == ["paid/7", "paid/8"]
    assert clean.submitted_ms.tolist() == [1_767_614_400_000] * 2
    assert clean.extras.to_pylist() == [{"shop": "x"}, {"shop": "y"}]
    assert clean.rejected["reason"].to_pylist() == ["submitted_ms is not a time", rows.BROKEN]
    assert clean.rejected["row"].to_pylist()[1] == "{"
    signals = signal_columns(key="paid/{order}", at_s="when")
    assert signals.reads() == ["order", "when", "offset"]
    assert how.reads() == ["order", "made", "state", "needed"]
