"""Streams on Spark: folders in, folders out; late, bad and quiet; errors that say what to do."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import sojourn.spark as sp
from sojourn.errors import BadTable, OutOfRange, SojournError, WrongType

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

OPERATION = {"submitted_ms": 1000, "timeout_ms": 50, "requires": [{"key": "k", "offset": 1}]}
LATE = "late: its time is at or before the time already reached"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    sp.stream_settings(spark)
    return spark


def lines(folder: Path, name: str, *rows: Any) -> None:
    """A file of JSON lines that appears whole; text goes as it is."""
    folder.mkdir(exist_ok=True, parents=True)
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / f".{name}").write_text("\n".join(texts) + "\n")
    os.utime(folder / f".{name}", (1_000_000_000 + int(name),) * 2)  # files are taken in this order
    (folder / f".{name}").rename(folder / name)


def read(spark: SparkSession, folder: Path, extras: str = "") -> list[DataFrame]:
    return [
        sp.read_files(
            spark,
            "json",
            str(folder / name),
            name,
            extras=extras if name == "operations" else "",
            files_per_batch=1,
        )
        for name in ("operations", "signals", "cancels")
    ]


def told(folder: Path, name: str) -> list[dict[str, Any]]:
    return list(pq.read_table(folder / "out" / name).drop_columns(["batch"]).to_pylist())


def test_files_in_files_out_late_and_bad_rows_rejected_and_counts_add_up(
    session: SparkSession, tmp_path: Path
) -> None:
    broken = '{"id": "broken", "submitted_ms": 10'
    wrong = '{"id": "wrong", "submitted_ms": "soon"}'
    lines(
        tmp_path / "operations",
        "0",
        {"id": "paid", "shop": "north", **OPERATION},
        {"id": "forgotten", **OPERATION, "requires": [{"key": "k", "offset": 9}]},
        {"id": "called off", **OPERATION, "timeout_ms": 5000},
        broken,
        "",
        wrong,
        {"id": None, **OPERATION},
    )
    lines(tmp_path / "signals", "0", {"key": "k", "offset": 5, "at_ms": 1020}, "[1]")
    lines(tmp_path / "cancels", "0", {"id": "called off", "at_ms": 1010})
    lines(tmp_path / "signals", "1", {"key": "k", "offset": 5, "at_ms": 9000})
    lines(tmp_path / "operations", "2", {"id": "late", **OPERATION, "submitted_ms": 8900})
    lines(tmp_path / "signals", "2", {"key": "k", "offset": 9, "at_ms": 1040})
    for name in ("operations", "cancels"):
        lines(tmp_path / name, "1")
    lines(tmp_path / "cancels", "2")
    seen: list[tuple[int, dict[str, int]]] = []
    out = sp.resolve_stream(
        *read(session, tmp_path, "shop string"), delay_ms=100, shards=4, idle="event"
    )
    query = sp.write_stream(
        out,
        str(tmp_path / "out"),
        str(tmp_path / "checkpoint"),
        trigger=None,
        on_batch=lambda number, counts: seen.append((number, counts)),
    )
    query.awaitTermination()

    outcomes = {row.pop("id"): row for row in told(tmp_path, "outcomes")}
    assert outcomes == {
        "paid": ended("completed", 1020, "k", "north"),
        "forgotten": ended("expired", 1050, None, None),
        "called off": ended("cancelled", 1010, None, None, timeout_ms=5000),
    }
    rejected = told(tmp_path, "rejected")
    reasons = Counter((row["table"], row["reason"]) for row in rejected)
    unreadable = "it is not JSON, or not of the columns' types"
    assert reasons == {
        ("operations", unreadable): 2,
        ("operations", "id is null"): 1,
        ("operations", LATE): 1,
        ("signals", unreadable): 1,
        ("signals", LATE): 1,
    }
    assert {row["row"] for row in rejected if row["reason"] == unreadable} == {broken, wrong, "[1]"}
    assert sum((Counter(counts) for _, counts in seen), Counter()) == {
        "completed": 1,
        "expired": 1,
        "cancelled": 1,
        "rejected": 6,
    }
    # What Spark reads is what was written, too.
    assert session.read.parquet(str(tmp_path / "out" / "outcomes")).count() == 3


def ended(
    status: str, at_ms: int, by_key: str | None, shop: str | None, timeout_ms: int = 50
) -> dict[str, Any]:
    submitted_ms = 1000
    return {
        "status": status,
        "at_ms": at_ms,
        "by_key": by_key,
        "waited_ms": at_ms - submitted_ms,
        "submitted_ms": submitted_ms,
        "timeout_ms": timeout_ms,
        "shop": shop,
    }


def test_a_quiet_source_lets_operations_expire_by_the_wall_clock(
    session: SparkSession, tmp_path: Path
) -> None:
    lines(tmp_path / "operations", "0", {"id": "a", **OPERATION})
    for name in ("signals", "cancels"):
        (tmp_path / name).mkdir()
    seen: Counter[str] = Counter()
    out = sp.resolve_stream(*read(session, tmp_path), delay_ms=100, shards=4, idle="wall")
    query = sp.write_stream(
        out,
        str(tmp_path / "out"),
        str(tmp_path / "checkpoint"),
        trigger="200 milliseconds",
        on_batch=lambda _, counts: seen.update(counts),
    )
    try:
        give_up_s = time.monotonic() + 600
        while not seen["expired"] and query.isActive and time.monotonic() < give_up_s:
            time.sleep(0.05)  # until the wall clock has moved: that is what is tested
        assert query.isActive, query.exception()
    finally:
        query.stop()
    assert [(row["id"], row["at_ms"]) for row in told(tmp_path, "outcomes")] == [("a", 1050)]


def test_a_truncated_parquet_file_stops_the_query_with_its_name(
    session: SparkSession, tmp_path: Path
) -> None:
    for name in ("signals", "cancels"):
        lines(tmp_path / name, "0")
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"id": ["a"]}), whole)
    (tmp_path / "operations").mkdir()
    (tmp_path / "operations" / "cut.parquet").write_bytes(whole.read_bytes()[:-20])
    operations = session.readStream.schema(
        "id string, submitted_ms long, timeout_ms long, "
        "requires array<struct<key: string, offset: long>>, needed int"
    ).parquet(str(tmp_path / "operations"))
    out = sp.resolve_stream(operations, read(session, tmp_path)[1], shards=4, idle="event")
    query = sp.write_stream(out, str(tmp_path / "out"), str(tmp_path / "c"), trigger=None)
    with pytest.raises(StreamingQueryException, match=r"cut\.parquet"):
        query.awaitTermination()


def test_a_folder_of_another_query_is_left_alone(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out" / "outcomes").mkdir(parents=True)
    for name in ("operations", "signals", "cancels"):
        lines(tmp_path / name, "0")
    out = sp.resolve_stream(*read(session, tmp_path), shards=4, idle="event")
    query = sp.write_stream(out, str(tmp_path / "out"), str(tmp_path / "c"), trigger=None)
    with pytest.raises(StreamingQueryException, match="that no stream has written"):
        query.awaitTermination()


def test_texts_are_read_against_the_columns_of_their_table(session: SparkSession) -> None:
    good = json.dumps({"id": "a", **OPERATION, "amount": 5, "unknown": 1})
    texts = session.createDataFrame(
        [(good.encode(),), (b"nonsense",), (b'{"id": "\xff"}',), (b" ",), (None,)], "value binary"
    )
    rows = sp.parse_json(texts, "operations", extras="amount long").collect()
    assert [(row["id"], row["amount"], row["_corrupt_record"]) for row in rows] == [
        ("a", 5, None),
        (None, None, "nonsense"),
        ("\ufffd", None, '{"id": "\ufffd"}'),
    ]


def test_outcomes_become_messages_of_json(session: SparkSession) -> None:
    out = session.createDataFrame(
        [("a", "expired", 5, None), (None, "rejected", None, "{}")],
        "id string, status string, at_ms long, row string",
    )
    found = [(row["key"], json.loads(row["value"])) for row in sp.to_kafka(out).collect()]
    assert found == [
        ("a", {"id": "a", "status": "expired", "at_ms": 5}),
        (None, {"status": "rejected", "row": "{}"}),
    ]


def test_without_the_connector_kafka_is_an_error_that_says_how_to_get_it(
    session: SparkSession,
) -> None:
    with pytest.raises(SojournError, match=r"spark\.jars\.packages.*spark-sql-kafka"):
        sp.from_kafka(session, "localhost:1", "orders", "operations")


def test_what_cannot_be_streamed_is_said_before_it_starts(
    session: SparkSession, tmp_path: Path
) -> None:
    for name in ("operations", "signals", "cancels"):
        (tmp_path / name).mkdir()
    operations, signals, cancels = read(session, tmp_path)
    batch = session.range(1)
    with pytest.raises(WrongType, match="operations must be a streaming DataFrame"):
        sp.resolve_stream(batch, signals)
    with pytest.raises(BadTable, match="signals: there is no column 'key'"):
        sp.resolve_stream(operations, cancels)
    with pytest.raises(BadTable, match="'status' would pass through"):
        sp.resolve_stream(operations.withColumnRenamed("needed", "status"), signals)
    with pytest.raises(BadTable, match="'reason' would pass through"):
        sp.resolve_stream(operations.withColumnRenamed("needed", "reason"), signals)
    for wrong in ({"shards": 0}, {"delay_ms": -1}, {"idle": "never"}, {"snapshot_every": 0}):
        with pytest.raises(OutOfRange, match=next(iter(wrong))):
            sp.resolve_stream(operations, signals, **wrong)
    with pytest.warns(UserWarning, match=r"spark\.sql\.shuffle\.partitions is 4 for 2 shards"):
        sp.resolve_stream(operations, signals, shards=2)


def test_a_session_without_rocksdb_is_told_what_to_set(
    session: SparkSession, tmp_path: Path
) -> None:
    for name in ("operations", "signals", "cancels"):
        (tmp_path / name).mkdir()
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = session.conf.get(provider)
    session.conf.unset(provider)
    try:
        with pytest.raises(SojournError, match=r"stream_settings\(spark\)"):
            sp.resolve_stream(*read(session, tmp_path))
    finally:
        session.conf.set(provider, before or "")
