"""Rows from files, good and bad, and the answer as folders."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn.errors import BadFile, BadTable, NoSuchFile, SojournError
from sojourn.replay import files, resolve, rows
from tests.rows import oracle
from tests.rows.traces import random_trace

Row = dict[str, Any]


def operation(id: str | int | None = "a", **changes: Any) -> Row:
    row = {"id": id, "submitted_ms": 10, "timeout_ms": 5, "requires": [{"key": "k", "offset": 1}]}
    return row | {"needed": None} | changes


def json_lines(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(texts) + b"\n")
    return path


def parquet(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def rejected(read: files.Read) -> list[tuple[str, str]]:
    return [(row["reason"], row["row"]) for row in read.rejected.to_pylist()]


SIGNALS = pa.table({"key": ["k"], "offset": [1], "at_ms": [12]})


def test_parquet_and_json_lines_give_the_same_answer(tmp_path: Path) -> None:
    trace = random_trace(5, 300, bad=False, extremes=False)
    operations, signals, cancels = trace.tables()
    direct = resolve(operations, signals, cancels, trace.until_ms)
    tables = {"operations": operations, "signals": signals, "cancels": cancels}
    for name, table in tables.items():
        parquet(tmp_path / f"{name}.parquet", table)
        json_lines(tmp_path / f"{name}.jsonl", *table.to_pylist())
        # Some rows as Parquet, some as JSON lines, some of these compressed.
        parquet(tmp_path / name / "more" / "a.parquet", table.slice(0, 100))
        json_lines(tmp_path / name / "b.json", *table.slice(100, 100).to_pylist())
        lines = "\n".join(json.dumps(row) for row in table.slice(200).to_pylist())
        (tmp_path / name / "c.json.gz").write_bytes(gzip.compress(lines.encode()))
        (tmp_path / name / "_SUCCESS").touch()
        (tmp_path / name / ".b.json.crc").write_bytes(b"crc")
    for end in (".parquet", ".jsonl", ""):
        ops, sent, off = (tmp_path / f"{name}{end}" for name in tables)
        found = files.resolve_files(ops, sent, off, trace.until_ms)
        assert_same_rows(found.outcomes, direct.outcomes)
        assert_same_rows(found.pending, direct.pending)
        assert len(found.rejected) == 0


def assert_same_rows(found: pa.Table, expected: pa.Table) -> None:
    def by_id(table: pa.Table) -> list[Row]:
        rows: list[Row] = table.to_pylist()
        return sorted(rows, key=lambda row: row["id"])

    assert by_id(found) == by_id(expected)


def test_counts_add_up_whatever_the_lines_are(tmp_path: Path) -> None:
    trace = random_trace(7, 300)
    operations = json_lines(tmp_path / "ops.jsonl", *trace.operations, b"{", b"", b"[]", b"\xff")
    signals = json_lines(tmp_path / "signals.jsonl", *trace.signals, b"null")
    cancels = json_lines(tmp_path / "cancels.jsonl", *trace.cancels, b'{"id": "a", "at_ms": 1')
    found = files.resolve_files(operations, signals, cancels, trace.until_ms)
    answer = oracle.resolve(trace.operations, trace.signals, trace.cancels, trace.until_ms)
    assert len(found.outcomes) == len(answer.outcomes)
    assert len(found.pending) == len(answer.pending)
    tables = found.rejected["table"].to_pylist()
    lost = tables.count("operations")
    assert len(found.outcomes) + len(found.pending) + lost == len(trace.operations) + 3
    assert len(tables) == len(answer.rejected) + 5
    reasons = {(row["table"], row["reason"]) for row in found.rejected.to_pylist()}
    assert reasons == {(table, reason) for table, reason, _ in answer.rejected} | {
        (table, files.NOT_JSON) for table in ("operations", "signals", "cancels")
    } | {("operations", files.NOT_UNICODE)}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": "a"', files.NOT_JSON),
        (b'{"id": "a"} {"id": "b"}', files.NOT_JSON),
        (b"[1, 2]", files.NOT_JSON),
        (b"17", files.NOT_JSON),
        (b'{"id": NaN}', files.NOT_JSON),
        (b"[" * 100_000, files.NOT_JSON),
        (b'{"id": "\xff"}', files.NOT_UNICODE),
        (b'{"id": "\\ud800"}', files.NOT_UNICODE),
        (operation() | {"id": 7.5}, "id is not a string"),
        (operation() | {"id": True}, "id is not a string"),
        (operation(submitted_ms=True), "submitted_ms is not a time"),
        (operation(submitted_ms=[10]), "submitted_ms is not a time"),
        (operation(timeout_ms={}), "timeout_ms is not a duration"),
        (operation(submitted_ms=2**63), "submitted_ms is outside 64 bits"),
        (operation(timeout_ms=-(10**30)), "timeout_ms is outside 64 bits"),
        (operation(requires="k"), "requires is not a list of objects"),
        (operation(requires=["k"]), "requires is not a list of objects"),
        (operation(requires=[{"key": 1.5, "offset": 1}]), "a required key is not a string"),
        (operation(requires=[{"key": "k", "offset": 2**64}]), rows.REQUIRED_OFFSET_OUTSIDE),
        (operation(requires=[{"key": "k", "offset": "x"}]), "a required offset is not an integer"),
        (operation(requires=[{"key": "k", "offset": 1.0}]), "a required offset is not an integer"),
        (operation(needed=10**40), "needed is above the number of requirements"),
        (operation(needed=-(10**40)), "needed is below 1"),
        (operation(needed=1.5), "needed is not an integer"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_row_is_rejected_as_it_is_and_the_rest_go_on(
    tmp_path: Path, line: Any, reason: str
) -> None:
    file = json_lines(tmp_path / "ops.jsonl", operation("before"), line, operation("after"))
    read = files.read(file, "operations")
    text = line if isinstance(line, bytes) else json.dumps(line).encode()
    assert rejected(read) == [(reason, text.decode("utf-8", "replace"))]
    assert read.table["id"].to_pylist() == ["before", "after"]


def test_numbers_and_times_may_be_text_in_json(tmp_path: Path) -> None:
    when = "2026-01-05T12:00:00Z"
    requires = [{"key": 4, "offset": "7"}]
    lines = [
        operation("a", submitted_ms=when),
        operation(5, submitted_ms="10", timeout_ms=5.9, requires=requires, needed="1"),
    ]
    both = files.read(json_lines(tmp_path / "ops.jsonl", *lines), "operations")
    assert rejected(both) == []
    assert both.table["submitted_ms"].to_pylist() == [1_767_614_400_000, 10]
    assert both.table["timeout_ms"].to_pylist() == [5, 5]
    assert both.table.to_pylist()[1] == {
        "id": "5",
        "submitted_ms": 10,
        "timeout_ms": 5,
        "requires": [{"key": "4", "offset": 7}],
        "needed": 1,
    }


def test_a_row_over_two_lines_is_two_broken_lines(tmp_path: Path) -> None:
    file = json_lines(tmp_path / "s.jsonl", b'{"key": "a", "offset": 1,', b'"at_ms": 5}')
    read = files.read(file, "signals")
    assert [reason for reason, _ in rejected(read)] == [files.NOT_JSON] * 2
    assert len(read.table) == 0


def test_extra_columns_stay_what_they_are(tmp_path: Path) -> None:
    """Arrow alone would make a time of the string."""
    when = "2024-01-02 03:04:05"
    for number, broken in enumerate(([], [b"{"])):  # read at once, and line by line
        lines = [operation("a", when=when, size=1), operation("b", size=2.5, mixed=[1])]
        file = json_lines(tmp_path / f"{number}.jsonl", *lines, *broken)
        table = files.read(file, "operations").table
        assert table["when"].to_pylist() == [when, None]
        assert table["size"].to_pylist() == [1, 2.5]
        assert table["mixed"].to_pylist() == [None, [1]]
    mixed = [operation("a", mixed=1), operation("b", mixed="x"), operation("c", mixed={"y": 2})]
    table = files.read(json_lines(tmp_path / "mixed.jsonl", *mixed), "operations").table
    assert table["mixed"].to_pylist() == ["1", "x", '{"y": 2}']


def test_folders_named_for_a_value_become_a_column(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([operation()])
    parquet(tmp_path / "out" / "region=north%20west" / "a.parquet", table)
    parquet(tmp_path / "out" / "region=__HIVE_DEFAULT_PARTITION__" / "b.parquet", table)
    table = files.read(tmp_path / "out", "operations").table
    assert sorted(table["region"].to_pylist(), key=str) == [None, "north west"]


def test_a_pattern_takes_the_files_that_match(tmp_path: Path) -> None:
    for n in range(3):
        parquet(tmp_path / f"day-{n}.parquet", SIGNALS)
    parquet(tmp_path / "other.parquet", SIGNALS)
    assert len(files.read(tmp_path / "day-*.parquet", "signals").table) == 3


def test_a_pattern_takes_folders_and_what_their_names_say(tmp_path: Path) -> None:
    for n, place in enumerate(("day=1/a", "day=1/more/b", "day=2/c", "_old/day=3/d", "x/y/z/e")):
        table = pa.Table.from_pylist([operation(str(n))])
        parquet(tmp_path / f"{place}.parquet", table)

    def found(pattern: str) -> dict[str, Any]:
        table = files.read(f"{tmp_path}/{pattern}", "operations").table
        days = table["day"].to_pylist() if "day" in table.column_names else [None] * len(table)
        return dict(zip(table["id"].to_pylist(), days, strict=True))

    assert found("day=*") == {"0": "1", "1": "1", "2": "2"}
    assert found("day=*/*.parquet") == {"0": "1", "2": "2"}
    assert found("day=[!2]") == {"0": "1", "1": "1"}
    assert found("**/?.parquet") == {"0": "1", "1": "1", "2": "2", "4": None}
    assert found("*/*/**/e.parquet") == {"4": None}
    assert found("_old/**") == {"3": "3"}
    with pytest.raises(NoSuchFile):
        found("day=9*")


def test_files_of_different_widths_make_one_table(tmp_path: Path) -> None:
    narrow = SIGNALS.set_column(1, "offset", pa.array([1], pa.int16()))
    parquet(tmp_path / "s" / "a.parquet", narrow)
    parquet(tmp_path / "s" / "b.parquet", SIGNALS)
    assert files.read(tmp_path / "s", "signals").table["offset"].to_pylist() == [1, 1]


def test_an_empty_file_of_lines_has_no_rows(tmp_path: Path) -> None:
    for text in (b"", b"\n\n  \n", b"\xef\xbb\xbf"):
        (tmp_path / "empty.jsonl").write_bytes(text)
        read = files.read(tmp_path / "empty.jsonl", "operations")
        assert (len(read.table), len(read.rejected)) == (0, 0)
        assert len(resolve(read.table, SIGNALS).outcomes) == 0


@pytest.mark.parametrize("name", ["nowhere.parquet", "nothing-*.json", "empty folder"])
def test_what_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty folder").mkdir()
    (tmp_path / "empty folder" / "_SUCCESS").touch()
    with pytest.raises(FileNotFoundError, match="signals: the") as caught:
        files.read(tmp_path / name, "signals")
    assert isinstance(caught.value, NoSuchFile)
    assert name in str(caught.value)


@pytest.mark.parametrize("size", [0, 3, 100, -1, -20])
def test_a_truncated_parquet_file_is_named(tmp_path: Path, size: int) -> None:
    file = parquet(tmp_path / "s" / "whole.parquet", SIGNALS)
    (tmp_path / "s" / "cut.parquet").write_bytes(file.read_bytes()[:size])
    with pytest.raises(BadFile, match=r"cut\.parquet is not a Parquet file, or not a whole one"):
        files.read(tmp_path / "s", "signals")


def test_a_truncated_gzip_file_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps({"key": "k" * 1000}).encode())
    for n, data in enumerate((whole[:-5], b"no gzip at all")):
        file = tmp_path / f"{n}.json.gz"
        file.write_bytes(data)
        with pytest.raises(BadFile, match=r"\d\.json\.gz is not a whole gzip file"):
            files.read(file, "signals")


def test_a_missing_column_names_the_file_and_the_column(tmp_path: Path) -> None:
    parquet(tmp_path / "s" / "a.parquet", SIGNALS)
    bad = parquet(tmp_path / "s" / "b.parquet", SIGNALS.drop_columns("at_ms"))
    with pytest.raises(
        BadTable, match=r"there is no column 'at_ms', only 'key', 'offset'"
    ) as caught:
        files.read(tmp_path / "s", "signals")
    assert str(bad) in str(caught.value)
    lines = json_lines(tmp_path / "s.jsonl", {"key": "a", "offset": 1}, {"key": "b", "offset": 2})
    with pytest.raises(BadTable, match="there is no column 'at_ms'"):
        files.read(lines, "signals")


def test_a_column_that_is_null_in_every_line_is_no_missing_column(tmp_path: Path) -> None:
    file = json_lines(tmp_path / "s.jsonl", {"key": None, "offset": 1, "at_ms": 2})
    assert rejected(files.read(file, "signals")) == [
        (rows.KEY_NULL, '{"key": null, "offset": 1, "at_ms": 2}')
    ]


def test_a_column_of_the_wrong_type_names_the_file_and_the_type(tmp_path: Path) -> None:
    wrong = SIGNALS.set_column(2, "at_ms", pa.array([True]))
    file = parquet(tmp_path / "s.parquet", wrong)
    with pytest.raises(BadTable, match="'at_ms' must be timestamps, or numbers") as caught:
        files.read(file, "signals")
    assert str(file) in str(caught.value)


def test_only_three_tables_have_a_name(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="one of operations, signals, cancels, got 'orders'"):
        files.read(tmp_path, "orders")


def test_the_answer_is_written_whole_and_never_over_another_unasked(tmp_path: Path) -> None:
    operations = pa.Table.from_pylist(
        [operation(), operation("b", timeout_ms=100), operation(None)]
    )
    found = resolve(operations, SIGNALS.slice(0, 0), until_ms=20)
    out = tmp_path / "new" / "out"
    files.write(found, out)
    assert sorted(path.name for path in out.iterdir()) == [
        "_sojourn_files", "outcomes", "pending", "rejected",
    ]  # fmt: skip
    for part in files.PARTS:
        assert pq.read_table(out / part).equals(getattr(found, part))
    (out / "report.html").touch()
    with pytest.raises(BadFile, match="outcomes is there already"):
        files.write(found, out)
    empty = resolve(operations.slice(0, 0), SIGNALS)
    files.write(empty, out, overwrite=True)
    assert len(pq.read_table(out / "outcomes")) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "_sojourn_files", "outcomes", "pending", "rejected", "report.html",
    ]  # fmt: skip


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = resolve(pa.Table.from_pylist([operation()]), SIGNALS)
    with pytest.raises(SojournError, match=r"cannot write to .*file"):
        files.write(found, tmp_path / "file" / "out")
