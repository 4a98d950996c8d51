"""Streams on Spark: folders in, folders out; late, bad and quiet; errors that say what to do."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import sojourn.spark as sp
from sojourn.errors import BadTable, OutOfRange, SojournError, WrongType
from sojourn.spark import driver_files, sinks
from sojourn.spark.driver_files import DriverFiles
from sojourn.spark.folders import Folder

if TYPE_CHECKING:
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
    wrong = {"id": "wrong", **OPERATION, "submitted_ms": "soon"}
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
    seen: list[sp.StreamBatch] = []
    out = sp.resolve_stream(
        *read(session, tmp_path, "shop string"), delay_ms=100, shards=4, idle="event"
    )
    query = out.write(
        str(tmp_path / "out"), str(tmp_path / "checkpoint"), trigger=None, on_batch=seen.append
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
        ("operations", unreadable): 1,
        ("operations", "submitted_ms is not a time"): 1,
        ("operations", "id is null"): 1,
        ("operations", LATE): 1,
        ("signals", unreadable): 1,
        ("signals", LATE): 1,
    }
    assert {row["row"] for row in rejected if row["reason"] == unreadable} == {broken, "[1]"}
    assert sum((Counter(batch.counts) for batch in seen), Counter()) == {
        "completed": 1,
        "expired": 1,
        "cancelled": 1,
        "rejected": 6,
    }
    last = seen[-1]
    assert (last.keys, last.ids, last.operations, last.time_ms) == (1, 3, 0, 8900)
    assert query.lastProgress is not None
    observed = query.lastProgress.observedMetrics["sojourn"]
    assert (observed["keys"], observed["ids"], observed["time_ms"]) == (1, 3, 8900)
    assert [p.name for p in (tmp_path / "out" / "_complete").glob("[0-9]*")] == [str(last.number)]
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
        on_batch=lambda batch: seen.update(batch.counts),
    )
    try:
        give_up_s = time.monotonic() + 600
        while not seen["expired"] and query.isActive and time.monotonic() < give_up_s:
            time.sleep(0.05)  # until the wall clock has moved: that is what is tested
        assert query.isActive, query.exception()
        # The time of a batch is not in its code, which would have to be compiled for each.
        assert re.findall(r"\d{16,}L", code_of(session, query)) == []
    finally:
        query.stop()
    assert [(row["id"], row["at_ms"]) for row in told(tmp_path, "outcomes")] == [("a", 1050)]


def code_of(session: Any, query: Any) -> str:
    """Return the code that Spark has made of the last batch."""
    debug = session._jvm.org.apache.spark.sql.execution.debug
    package = getattr(getattr(debug, "package$"), "MODULE$")
    code = str(package.codegenString(query._jsq.streamingQuery().lastExecution().executedPlan()))
    assert "Generated code" in code
    return code


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
    for wrong in (
        {"shards": 0},
        {"delay_ms": -1},
        {"idle": "never"},
        {"snapshot_every": 0},
        {"idle_after_ms": -1},
        {"ahead_ms": -1},
        {"forget_keys_after_ms": 2**63},
    ):
        with pytest.raises(OutOfRange, match=next(iter(wrong))):
            sp.resolve_stream(operations, signals, **wrong)
    with pytest.raises(OutOfRange, match='follow must be "slowest" or "fastest"'):
        sp.resolve_stream(operations, signals, follow="latest")
    with pytest.warns(UserWarning, match=r"spark\.sql\.shuffle\.partitions is 2 for 1 shard"):
        sp.resolve_stream(operations, signals, shards=1)


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


def test_spark_connect_is_refused_before_anything_is_written() -> None:
    class Session:
        pass

    class Frame:
        isStreaming = True
        sparkSession = Session()

    Session.__module__ = "pyspark.sql.connect.session"
    frame: Any = Frame()
    with pytest.raises(SojournError, match="streams do not run over Spark Connect"):
        sp.resolve_stream(frame, frame)
    with pytest.raises(SojournError, match="streams do not run over Spark Connect"):
        sp.stream_settings(frame.sparkSession)


def test_settings_that_were_made_are_left_alone(session: SparkSession) -> None:
    """Those that are missing are set; tasks are chosen from the number of shards and cores."""
    fresh = session.newSession()
    partitions, retain = "spark.sql.shuffle.partitions", "spark.sql.streaming.minBatchesToRetain"
    for name in sp.session.STREAM_SETTINGS:
        fresh.conf.unset(name)
    fresh.conf.unset(partitions)
    fresh.conf.set(retain, "77")
    done = sp.stream_settings(fresh, shards=1)
    assert (fresh.conf.get(retain), fresh.conf.get(partitions)) == ("77", "1")
    assert set(done) == {partitions, *sp.session.STREAM_SETTINGS} - {retain}
    assert sp.stream_settings(fresh, shards=32) == {}
    fresh.conf.unset(partitions)
    sp.stream_settings(fresh, shards=32)
    assert fresh.conf.get(partitions) == str(session.sparkContext.defaultParallelism)


def test_a_local_session_waits_neither_for_processes_nor_for_packets(
    session: SparkSession,
) -> None:
    assert session.sparkContext.getConf().get(sp.session.UNIX_SOCKETS) == "true"
    name = sp.session.FILE_MANAGER
    assert session.conf.get(name) == sp.session.LOCAL_FILE_MANAGER
    assert name not in sp.session.STREAM_SETTINGS  # on HDFS Spark's own choice renames better


COLUMNS = (
    "t string, b binary, l long, i int, s short, y byte, f float, d double, o boolean, "
    "m decimal(10, 2), n decimal(30, 5), day date, at timestamp, "
    "list array<struct<key: string, offset: long>>, map map<string, date>"
)


@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MICROS"])
def test_the_driver_writes_the_same_columns_as_spark(
    session: SparkSession, tmp_path: Path, times: str
) -> None:
    fresh = session.newSession()
    fresh.conf.set("spark.sql.parquet.outputTimestampType", times)
    at = datetime(2026, 1, 5, 12, 0, 0, 123456, tzinfo=UTC)
    cents = [Decimal("1.25"), Decimal("-2.00001")]
    row = ("é", b"\xff", 2**40, 1, 2, 3, 1.5, 2.5, True, *cents, at.date(), at)
    nothing = (None,) * 15
    rows = fresh.createDataFrame([(*row, [("k", 1)], {"a": at.date()}), nothing], COLUMNS)
    rows.coalesce(1).write.parquet(str(tmp_path / "spark"))
    files = DriverFiles.of(fresh, rows.schema)
    assert files is not None
    (tmp_path / "driver.parquet").write_bytes(files.file(rows.toArrow()))
    [by_spark] = (tmp_path / "spark").glob("*.parquet")
    by_driver = tmp_path / "driver.parquet"
    theirs, ours = (pq.read_table(path) for path in (by_spark, by_driver))
    assert ours.schema.remove_metadata() == theirs.schema.remove_metadata()
    assert ours.to_pylist() == theirs.to_pylist()
    read = [fresh.read.parquet(str(path)) for path in (by_spark, by_driver)]
    assert read[0].schema == read[1].schema
    assert read[0].collect() == read[1].collect()


def test_what_arrow_would_write_otherwise_is_left_to_spark(session: SparkSession) -> None:
    for column in ("timestamp_ntz", "interval day to second", "array<variant>"):
        columns = session.createDataFrame([], f"a string, b {column}").schema
        assert DriverFiles.of(session, columns) is None
    plain = session.createDataFrame([], "a string").schema
    fresh = session.newSession()
    assert DriverFiles.of(fresh, plain) == DriverFiles("snappy", old_timestamps=True)
    fresh.conf.set("spark.sql.parquet.compression.codec", "lz4_raw")
    assert DriverFiles.of(fresh, plain) is None


class CopiesThenDeletes(Folder):
    """A folder on a store that has no rename: each file is copied, then the old ones deleted.

    The driver can be killed after so many copies.
    """

    copies_left = -1

    def move(self, place: str, to: str) -> None:
        old, new = Path(self._path, place), Path(self._path, to)
        files = [path for path in old.rglob("*") if path.is_file()] if old.is_dir() else [old]
        for path in sorted(files, key=lambda path: (path.name[0] in "._", path.name)):
            if type(self).copies_left == 0:
                raise RuntimeError("killed")
            type(self).copies_left -= 1
            copy = new / path.relative_to(old) if old.is_dir() else new
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        shutil.rmtree(old) if old.is_dir() else old.unlink()


def test_a_kill_while_files_are_copied_to_their_place_loses_none(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": f"a{n}", **OPERATION, "timeout_ms": 0} for n in range(40)]
    lines(tmp_path / "operations", "0", *rows)
    lines(tmp_path / "signals", "0", {"key": "k", "offset": 1, "at_ms": 9000})
    lines(tmp_path / "cancels", "0")
    monkeypatch.setattr(sinks, "Folder", CopiesThenDeletes)
    monkeypatch.setattr(driver_files, "MOST_BYTES", -1)  # Spark writes several files
    copied = []
    for copies in (2, 1, -1):  # the note of whose folder it is takes one; then parts of the batch
        monkeypatch.setattr(CopiesThenDeletes, "copies_left", copies)
        out = sp.resolve_stream(*read(session, tmp_path), delay_ms=100, shards=4, idle="event")
        query = out.write(str(tmp_path / "out"), str(tmp_path / "c"), trigger=None)
        if copies < 0:
            query.awaitTermination()
        else:
            with pytest.raises(StreamingQueryException, match="killed"):
                query.awaitTermination()
        copied.append(len(list((tmp_path / "out" / "outcomes").rglob("*.parquet"))))
    assert copied[:2] == [1, 1]
    assert copied[2] > 1
    ids = [row["id"] for row in told(tmp_path, "outcomes")]
    assert sorted(ids) == sorted(f"a{n}" for n in range(40))


def test_a_kill_while_the_first_offsets_are_written_does_not_spoil_the_checkpoint(
    session: SparkSession, tmp_path: Path
) -> None:
    lines(tmp_path / "operations", "0", {"id": "a", **OPERATION, "timeout_ms": 0})
    lines(tmp_path / "signals", "0", {"key": "k", "offset": 1, "at_ms": 9000})
    lines(tmp_path / "cancels", "0")
    offsets = tmp_path / "c" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.3f27ad75-204f-4311-9d92-953e600bd9e1.tmp").touch()
    out = sp.resolve_stream(*read(session, tmp_path), delay_ms=100, shards=4, idle="event")
    out.write(str(tmp_path / "out"), str(tmp_path / "c"), trigger=None).awaitTermination()
    assert [row["id"] for row in told(tmp_path, "outcomes")] == ["a"]


def test_the_handle_has_outcomes_and_rejected_rows_as_streams_of_their_own(
    session: SparkSession, tmp_path: Path
) -> None:
    for name in ("operations", "signals", "cancels"):
        (tmp_path / name).mkdir()
    out = sp.resolve_stream(*read(session, tmp_path, "shop string"), shards=4)
    ours = ["id", "status", "at_ms", "by_key", "waited_ms"]
    assert out.outcomes.isStreaming
    assert [name for name in out.outcomes.columns if name in ours] == ours
    assert out.outcomes.columns[-1] == "shop"
    assert out.rejected.columns == ["table", "reason", "row"]
    assert out.rows.columns == [*out.outcomes.columns, *out.rejected.columns]
    with pytest.raises(WrongType, match="write_stream takes what resolve_stream gave"):
        sp.write_stream(out.rows, "out", "checkpoint")  # type: ignore[arg-type]
