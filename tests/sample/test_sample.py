"""A sample is a trace that a shop could have left behind: the same for the same seed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sojourn import sample
from sojourn.errors import OutOfRange

TRACE = sample.make(20_000, seed=3)


def test_the_same_seed_gives_the_same_rows_and_another_seed_gives_others() -> None:
    again, other = sample.make(20_000, seed=3), sample.make(20_000, seed=4)
    assert again.operations.equals(TRACE.operations)
    assert again.signals.equals(TRACE.signals)
    assert again.cancels.equals(TRACE.cancels)
    assert not other.operations.equals(TRACE.operations)
    assert not other.signals.equals(TRACE.signals)


def test_all_good_operations_are_there_once_and_some_were_sent_twice() -> None:
    ids = TRACE.operations["id"].drop_null()
    good = ids.filter(pc.invert(pc.match_substring(ids, "spoilt")))
    assert pc.count_distinct(good).as_py() == 20_000
    assert 0 < len(good) - 20_000 < 100


def test_every_class_asks_for_what_it_is_said_to_need() -> None:
    table = TRACE.operations.filter(pc.field("timeout_ms") > 0)
    shapes = {
        "order": (2, None),
        "shipment": (3, 2),
        "express": (2, 1),
        "refund": (1, None),
    }
    for row in table.slice(0, 5_000).to_pylist():
        if row["id"] and "spoilt" not in row["id"]:
            assert (len(row["requires"]), row["needed"]) == shapes[row["class"]]
    assert set(table["class"].to_pylist()) == set(shapes)


def test_every_kind_of_broken_row_is_among_them() -> None:
    rows = TRACE.operations.to_pylist()
    assert any(row["id"] is None for row in rows)
    assert any(row["submitted_ms"] is None for row in rows)
    assert any(row["timeout_ms"] is None for row in rows)
    assert any(row["timeout_ms"] == -1 for row in rows)
    assert any(row["timeout_ms"] == 2**63 - 1 for row in rows)
    assert any(row["requires"] is None for row in rows)
    assert any(row["requires"] == [] for row in rows)
    assert any(one["key"] is None for row in rows for one in row["requires"] or ())
    assert any(one["offset"] is None for row in rows for one in row["requires"] or ())
    assert any(row["needed"] == 0 for row in rows)
    assert any((row["needed"] or 0) > len(row["requires"] or ()) for row in rows)
    for table in (TRACE.signals, TRACE.cancels):
        assert all(column.null_count for column in table.columns)


def test_stock_is_a_hot_key_whose_offsets_rise() -> None:
    keys = pc.value_counts(pc.struct_field(pc.list_flatten(TRACE.operations["requires"]), "key"))
    counts = {row["values"]: row["counts"] for row in keys.to_pylist()}
    assert counts["stock-0000"] > 20_000 * 0.05
    stock = TRACE.signals.filter(pc.field("key") == "stock-0000")
    assert pc.count_distinct(stock["offset"]).as_py() > 10


def test_rows_come_in_order_of_arrival_and_few_are_late() -> None:
    for table, arrived_ms, time in (
        (TRACE.operations, TRACE.operations_arrived_ms, "submitted_ms"),
        (TRACE.signals, TRACE.signals_arrived_ms, "at_ms"),
        (TRACE.cancels, TRACE.cancels_arrived_ms, "at_ms"),
    ):
        assert (np.diff(arrived_ms) >= 0).all()
        valid = table[time].is_valid().to_numpy()
        delay_ms = arrived_ms[valid] - table[time].drop_null().to_numpy()
        assert delay_ms.min() >= 0
        assert 0 <= (delay_ms > 60_000).mean() < 0.01
    assert (
        TRACE.signals_arrived_ms - TRACE.signals["at_ms"].fill_null(0).to_numpy() > 60_000
    ).any()


def test_the_days_have_a_shape() -> None:
    submitted_ms = TRACE.operations["submitted_ms"].drop_null().to_numpy()
    hours = (submitted_ms - sample.START_MS) // 3_600_000 % 24
    by_hour = np.bincount(hours, minlength=24)
    assert by_hour[20] > 4 * by_hour[4]
    assert by_hour[12] > 3 * by_hour[4]


def test_files_hold_every_row_once_and_the_nth_files_arrived_together(tmp_path: Path) -> None:
    sample.write(TRACE, tmp_path, files=4)
    for name, table in (
        ("operations", TRACE.operations),
        ("signals", TRACE.signals),
        ("cancels", TRACE.cancels),
    ):
        paths = sorted((tmp_path / name).iterdir())
        assert [path.name for path in paths] == [f"part-0000{n}.parquet" for n in range(4)]
        pieces = [pq.read_table(path) for path in paths]
        assert pa.concat_tables(pieces).equals(table)
        times = [path.stat().st_mtime for path in paths]
        assert times == sorted(set(times))


def test_json_lines_say_the_same_as_parquet(tmp_path: Path) -> None:
    small = sample.make(300, seed=1)
    sample.write(small, tmp_path, format="json", files=2)
    for name, table in (("operations", small.operations), ("cancels", small.cancels)):
        lines = [
            json.loads(line)
            for path in sorted((tmp_path / name).iterdir())
            for line in path.read_text().splitlines()
        ]
        assert lines == table.to_pylist()


def test_a_folder_that_holds_files_is_left_alone(tmp_path: Path) -> None:
    small = sample.make(50, seed=1)
    sample.write(small, tmp_path)
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet"))
    with pytest.raises(FileExistsError, match="holds files already"):
        sample.write(small, tmp_path)
    assert before == sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("operations", [1, 2, 19, 100])
def test_very_small_traces_can_be_made(operations: int, tmp_path: Path) -> None:
    trace = sample.make(operations, seed=operations, days=1)
    ids = trace.operations["id"].drop_null()
    good = ids.filter(pc.invert(pc.match_substring(ids, "spoilt")))
    assert pc.count_distinct(good).as_py() == operations
    sample.write(trace, tmp_path)


@pytest.mark.parametrize("arguments", [{"operations": 0}, {"days": 0}, {"operations": -3}])
def test_what_cannot_be_made_is_said(arguments: dict[str, int]) -> None:
    with pytest.raises(OutOfRange, match="must be an integer"):
        sample.make(**arguments)
