"""The report's numbers are those that counting one by one gives."""

from __future__ import annotations

import json
import math
import os
import random
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import report
from sojourn.errors import OutOfRange
from sojourn.report.bins import BINS, Histogram, bin_of, shift_of, start_of
from sojourn.report.keys import LongestKeys
from sojourn.report.ranks import LARGEST, MEDIAN, P99, Quantile, Search
from sojourn.report.stays import STATUSES
from sojourn.report.tally import run
from tests.report.rows import outcome, random_rows, stays, table

SEEDS = range(12)
MINUTE_MS = 60_000


def naive_quantile(values: list[int], quantile: Quantile) -> int:
    """The smallest value such that at least the share of all are not above it."""
    wanted = Fraction(quantile.of, quantile.out_of)
    return min(v for v in values if Fraction(sum(w <= v for w in values), len(values)) >= wanted)


# Bins and ranks.


def test_bins_cover_all_64_bits_without_gaps() -> None:
    edges = [start_of(number) for number in range(BINS + 1)]
    assert edges[0] == 0
    assert edges[-1] == 2**64
    assert all(edges[number + 1] - edges[number] == 1 << shift_of(number) for number in range(BINS))
    starts = np.array(edges[:-1], np.uint64)
    assert (bin_of(starts) == np.arange(BINS)).all()
    ends = np.array([edge - 1 for edge in edges[1:]], np.uint64)
    assert (bin_of(ends) == np.arange(BINS)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_are_exact(seed: int) -> None:
    rng = random.Random(seed)
    most = rng.choice([1, 50, 1_000, 2**24, 2**45, 2**64 - 1])
    values = [rng.randint(0, most) for _ in range(rng.choice([1, 2, 99, 100, 101, 300]))]
    arrays = [np.array(values[start::3], np.uint64) for start in range(3)]
    histogram = Histogram()
    for array in arrays:
        histogram.add(array)
    for quantile in (MEDIAN, P99, LARGEST, Quantile(1, 100), Quantile(999, 1000)):
        search = Search(histogram, quantile)
        while not search.over:
            for array in arrays:
                search.add(array)
            search.end_round()
        assert search.value == naive_quantile(values, quantile)


# Totals, bars, time.


@pytest.mark.parametrize("seed", SEEDS)
def test_totals_are_exact(seed: int) -> None:
    rows = random_rows(seed)
    summary = report.summarise(stays(rows))
    for waits in summary.waits:
        mine = [row["waited_ms"] for row in rows if row["status"] == waits.status]
        assert waits.count == len(mine)
        if mine:
            assert waits.median_ms == naive_quantile(mine, MEDIAN)
            assert waits.p99_ms == naive_quantile(mine, P99)
            assert waits.longest_ms == max(mine)
        else:
            assert (waits.median_ms, waits.p99_ms, waits.longest_ms) == (None, None, None)
    assert summary.ended == len(rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_bars_count_every_wait_once(seed: int) -> None:
    rows = random_rows(seed)
    for bar in report.count(stays(rows)).bars:
        for status, number in zip(STATUSES, bar.counts, strict=True):
            assert number == sum(
                row["status"] == status and bar.from_ms <= row["waited_ms"] < bar.to_ms
                for row in rows
            )
    assert sum(sum(bar.counts) for bar in report.count(stays(rows)).bars) == len(rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_waits_at_each_moment_is_exact(seed: int) -> None:
    rows = random_rows(seed)
    timeline = report.count(stays(rows)).timeline
    assert timeline is not None
    for number, at_ms in enumerate(timeline.steps):
        assert timeline.waiting[number] == sum(
            row["at_ms"] - row["waited_ms"] <= at_ms < row["at_ms"] for row in rows
        )
        before_ms = at_ms - timeline.step_ms if number else -math.inf
        assert timeline.expired[number] == sum(
            row["status"] == "expired" and before_ms < row["at_ms"] <= at_ms for row in rows
        )
    assert timeline.outside == sum(row["at_ms"] > timeline.steps[-1] for row in rows)


def test_pending_operations_are_waiting_to_the_end() -> None:
    rows = [outcome(1, "completed", 0, 1_000)]
    pending = pa.table({"id": ["a", "b"], "submitted_ms": [500, 5_000_000], "timeout_ms": [9, 9]})
    numbers = report.count(report.Stays.of_tables(table(rows), pending))
    assert numbers.timeline is not None
    assert numbers.timeline.waiting[-1] == 1
    assert numbers.summary.pending == 2


def test_a_stray_operation_does_not_press_the_rest_into_a_line() -> None:
    rows = [outcome(n, "completed", 1_000 * n, 5_000) for n in range(5_000)]
    rows.append(outcome(5_000, "expired", 0, 2**61))
    timeline = report.count(stays(rows)).timeline
    assert timeline is not None
    assert timeline.step_ms <= 10 * MINUTE_MS
    assert timeline.outside >= 1
    assert max(timeline.waiting) == 6


# Keys.


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("buckets", "rows_at_once"), [(1 << 18, 2_000_000), (8, 20), (1, 1)])
def test_the_longest_keys_are_exact_however_few_fit(
    seed: int, buckets: int, rows_at_once: int
) -> None:
    rows = random_rows(seed)
    waits = defaultdict(list)
    for row in rows:
        if row["by_key"] is not None:
            waits[row["by_key"]].append(row["waited_ms"])
    ranking = sorted(waits, key=lambda key: (-sum(waits[key]), key))
    expected = [
        (
            key,
            len(waits[key]),
            naive_quantile(waits[key], MEDIAN),
            naive_quantile(waits[key], P99),
            sum(waits[key]),
        )
        for key in ranking[:5]
        if sum(waits[key])
    ]
    longest = LongestKeys(5, buckets=buckets, rows_at_once=rows_at_once)
    run(stays(rows), [longest])
    assert expected == [
        (one.key, one.count, one.median_ms, one.p99_ms, one.total_ms) for one in longest.result
    ]


def test_one_pass_is_enough_where_few_keys_have_waited_longest() -> None:
    rows = [outcome(n, "completed", 0, 1, key=f"cold-{n}") for n in range(3_000)]
    rows += [outcome(n, "completed", 0, 10_000, key=f"hot-{n % 3}") for n in range(3_000, 3_300)]
    passes: list[int] = []
    source = stays(rows)
    batches = source.batches

    def counted(columns: set[str]) -> Any:
        passes.append(1)
        return batches(columns)

    source.batches = counted  # type: ignore[method-assign]
    longest = LongestKeys(3, buckets=1 << 12, rows_at_once=400)
    run(source, [longest])
    assert [one.key for one in longest.result] == ["hot-0", "hot-1", "hot-2"]
    assert len(passes) <= 5  # buckets, keys, quantiles; not the 8 rounds that all keys would take


# Where the outcomes come from.


def test_a_folder_says_the_same_as_tables(tmp_path: Path) -> None:
    rows = random_rows(3)
    rejected = pa.table(
        {"table": ["signals", "signals"], "reason": ["key is null"] * 2, "row": ["{}"] * 2}
    )
    pending = pa.table({"id": ["p"], "submitted_ms": [5], "timeout_ms": [5]})
    for name, pieces in (
        ("outcomes", [table(rows[:300]), table(rows[300:])]),
        ("pending", [pending]),
        ("rejected", [rejected]),
    ):
        (tmp_path / name).mkdir()
        for number, piece in enumerate(pieces):
            pq.write_table(piece, tmp_path / name / f"part-{number}.parquet")
        (tmp_path / name / "_SUCCESS").touch()
        (tmp_path / name / ".part-0.parquet.crc").write_bytes(b"crc")
    from_folder = report.count(report.Stays.of_folder(tmp_path, class_column="class"))
    from_tables = report.count(
        report.Stays.of_tables(table(rows), pending, rejected, class_column="class")
    )
    assert from_folder.summary == from_tables.summary
    assert from_folder.advice == from_tables.advice
    assert from_folder.keys == from_tables.keys
    assert from_folder.summary.rejected == {("signals", "key is null"): 2}
    assert from_folder.summary.pending == 1


def test_json_lines_that_leave_out_nulls_and_empty_files_say_the_same(tmp_path: Path) -> None:
    rows = random_rows(5)
    folder = tmp_path / "outcomes"
    for number, piece in enumerate(([], rows[:1], rows[1:])):
        (folder / f"batch={number}").mkdir(parents=True)
        lines = [
            json.dumps({name: value for name, value in row.items() if value is not None})
            for row in piece
        ]
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"batch={number}" / "part-0.json").write_text(text, encoding="utf-8")
    (tmp_path / "rejected").mkdir()
    (tmp_path / "_staging").mkdir()
    numbers = report.count(report.Stays.of_folder(tmp_path, class_column="class"))
    expected = report.count(stays(rows, class_column="class"))
    assert numbers.keys == expected.keys
    assert numbers.advice == expected.advice
    assert numbers.summary.waits == expected.summary.waits
    assert numbers.summary.rejected == {}


def test_json_without_a_final_newline_is_read(tmp_path: Path) -> None:
    rows = [outcome(1, "completed", 0, 5), outcome(2, "expired", 0, 9)]
    for number, row in enumerate(rows):
        folder = tmp_path / "outcomes" / f"batch={number}"
        folder.mkdir(parents=True)
        (folder / "part-0.json").write_text(json.dumps(row), encoding="utf-8")
    numbers = report.count(report.Stays.of_folder(tmp_path))
    assert numbers.summary.waits == report.count(stays(rows)).summary.waits


def test_a_line_that_is_no_json_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    good = json.dumps(outcome(1, "completed", 0, 5))
    (tmp_path / "part-0.json").write_text(f"{good}\nnot really\n", encoding="utf-8")
    with pytest.raises(report.BadOutcomes, match=r"cannot read .*part-0.json: the line is not"):
        report.count(report.Stays.of_folder(tmp_path))


def test_a_stream_that_began_before_outcomes_had_timeouts_is_read(tmp_path: Path) -> None:
    rows = random_rows(3)
    pieces = [table(rows[:300]).drop_columns(["submitted_ms", "timeout_ms"]), table(rows[300:])]
    for number, piece in enumerate(pieces):
        folder = tmp_path / "outcomes" / f"batch={number}"
        folder.mkdir(parents=True)
        pq.write_table(piece.drop_columns(["condition_ms"]), folder / "part-0.parquet")
        os.utime(folder / "part-0.parquet", (number, number))
    numbers = report.count(report.Stays.of_folder(tmp_path))
    assert numbers.summary.ended == len(rows)
    assert numbers.advice is not None
    assert numbers.advice[0].cut_off >= 300 - sum(r["status"] == "cancelled" for r in rows[:300])


def test_empty_json_files_of_pending_and_rejected_rows_are_none(tmp_path: Path) -> None:
    row = {
        name: value for name, value in outcome(1, "completed", 0, 5).items() if value is not None
    }
    for name, text in (("outcomes", json.dumps(row) + "\n"), ("pending", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-0.json").write_text(text, encoding="utf-8")
    summary = report.count(report.Stays.of_folder(tmp_path)).summary
    assert (summary.ended, summary.pending) == (1, 0)


@pytest.mark.parametrize("column", ["status", "at_ms", "by_key", "waited_ms"])
def test_a_missing_column_is_named(column: str) -> None:
    with pytest.raises(report.BadOutcomes, match=f"must have a column {column}"):
        report.Stays.of_tables(table([]).drop_columns([column]))


def test_a_class_column_that_is_not_there_is_an_error_that_lists_those_that_are() -> None:
    with pytest.raises(OutOfRange, match=r"no column 'kind'.*waited_ms"):
        stays([], class_column="kind")


def test_a_class_column_with_a_value_for_each_row_is_an_error() -> None:
    rows = [outcome(n, "completed", 0, 1, kind=f"{n}") for n in range(1_500)]
    with pytest.raises(OutOfRange, match="more than 1000 different values"):
        report.count(stays(rows, class_column="class"))


def test_strange_contents_are_said(tmp_path: Path) -> None:
    with pytest.raises(report.BadOutcomes, match="status must be one of"):
        report.count(stays([outcome(1, "lost", 0, 1)]))
    row = outcome(1, "expired", 0, 1) | {"waited_ms": None}
    with pytest.raises(report.BadOutcomes, match="waited_ms must not have nulls"):
        report.count(stays([row]))
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        report.Stays.of_folder(tmp_path / "nowhere")
    with pytest.raises(report.BadOutcomes, match="there are no files"):
        report.Stays.of_folder(tmp_path)
    (tmp_path / "part.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(report.BadOutcomes, match="cannot read"):
        report.Stays.of_folder(tmp_path)
