"""The report's numbers are those that counting one by one gives."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_rows import Row, outcome, random_rows, stays, table

from sojourn import report
from sojourn.errors import OutOfRange
from sojourn.report.advisor import LADDER_MS, OVERALL, REST, Advice, Verdict
from sojourn.report.bins import BINS, Histogram, bin_of, shift_of, start_of
from sojourn.report.keys import LongestKeys
from sojourn.report.ranks import LARGEST, MEDIAN, P99, P999, Quantile, Search
from sojourn.report.stays import STATUSES
from sojourn.report.tally import run

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
    for quantile in (MEDIAN, P99, P999, LARGEST, Quantile(1, 100)):
        search = Search(histogram, quantile)
        while not search.over:
            for array in arrays:
                search.add(array)
            search.end_round()
        assert search.found is not None
        assert search.found.value == naive_quantile(values, quantile)
        assert search.found.up_to == sum(value <= search.found.value for value in values)


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
        (one.key, one.count, one.median_ms, one.p99_ms, one.total_ms) for one in longest.found
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
    assert [one.key for one in longest.found] == ["hot-0", "hot-1", "hot-2"]
    assert len(passes) <= 5  # buckets, keys, quantiles; not the 8 rounds that all keys would take


# The advisor.


def naive_advice(rows: list[Row]) -> dict[str, Any]:
    waits = [
        row["condition_ms"] - (row["at_ms"] - row["waited_ms"])
        for row in rows
        if row["condition_ms"] is not None
    ]
    expired = Counter(row["waited_ms"] for row in rows if row["status"] == "expired")
    present = min(expired, key=lambda ms: (-expired[ms], ms)) if expired else None
    never = [row for row in rows if row["condition_ms"] is None]
    return {
        "waits": waits,
        "present": present,
        "timeouts": len(expired),
        "never": sum(row["status"] == "expired" for row in never),
        "left_out": sum(row["status"] == "cancelled" for row in never),
        "too_late": sum(
            row["status"] == "expired" and row["condition_ms"] is not None for row in rows
        ),
    }


def overall(rows: list[Row]) -> Advice:
    advice = report.count(stays(rows)).advice
    assert advice is not None
    assert len(advice) == 1
    return advice[0]


def check_advice(advice: Advice, rows: list[Row]) -> None:
    naive = naive_advice(rows)
    waits = naive["waits"]

    def longer(timeout_ms: int) -> int:
        return sum(wait > timeout_ms for wait in waits)

    assert advice.operations == len(rows)
    assert advice.counted == len(waits)
    assert (advice.never, advice.left_out) == (naive["never"], naive["left_out"])
    assert advice.too_late == naive["too_late"]
    if naive["present"] is None:
        assert advice.present is None
    else:
        assert advice.present is not None
        assert advice.present.timeout_ms == naive["present"]
        assert advice.present.timeouts == naive["timeouts"]
        assert advice.present.would_expire == longer(naive["present"])
    if waits:
        assert advice.for_99 is not None
        assert advice.for_999 is not None
        for found, share in (
            (advice.for_99, Fraction(99, 100)),
            (advice.for_999, Fraction(999, 1000)),
        ):
            allowed = (1 - share) * len(waits)
            assert longer(found.value) <= allowed
            assert found.value == 0 or longer(found.value - 1) > allowed
            assert found.up_to == len(waits) - longer(found.value)
    else:
        assert advice.for_99 is None
        assert advice.for_999 is None
    assert advice.ladder == [(timeout_ms, longer(timeout_ms)) for timeout_ms in LADDER_MS]
    assert advice.curve == [(timeout_ms, longer(timeout_ms)) for timeout_ms, _ in advice.curve]
    assert not waits or advice.curve[-1][1] == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_advisor_counts_exactly_overall_and_by_class(seed: int) -> None:
    rows = random_rows(seed)
    numbers = report.count(stays(rows, class_column="class"))
    assert numbers.advice is not None
    assert numbers.advice[0].name == OVERALL
    check_advice(numbers.advice[0], rows)
    by_class = {one.name: one for one in numbers.advice[1:]}
    assert set(by_class) == {row["class"] or "(none)" for row in rows}
    for name, advice in by_class.items():
        check_advice(advice, [row for row in rows if (row["class"] or "(none)") == name])


def test_many_classes_are_put_together_beyond_the_largest() -> None:
    rng = random.Random(1)
    rows = [
        outcome(
            n, "completed", 0, rng.randrange(10**6), kind=f"class-{int(rng.random() ** 3 * 30)}"
        )
        for n in range(2_000)
    ]
    numbers = report.count(stays(rows, class_column="class"))
    assert numbers.advice is not None
    assert len(numbers.advice) == 13
    assert numbers.advice[-1].name == REST
    shown = {one.name for one in numbers.advice[1:-1]}
    check_advice(numbers.advice[-1], [row for row in rows if row["class"] not in shown])
    for advice in numbers.advice[1:-1]:
        check_advice(advice, [row for row in rows if row["class"] == advice.name])


def test_a_condition_that_holds_at_the_timeout_completes() -> None:
    rows = [outcome(n, "completed", 0, 1_000) for n in range(100)]
    advice = overall(rows)
    assert advice.for_99 is not None
    assert advice.for_99.value == 1_000
    assert dict(advice.ladder)[1_000] == 0


def test_cancelled_operations_count_if_their_condition_held_and_are_left_out_if_not() -> None:
    rows = [
        outcome(1, "cancelled", 0, 10, 70_000),
        outcome(2, "cancelled", 0, 10, None),
        outcome(3, "completed", 0, 500),
    ]
    advice = overall(rows)
    assert (advice.counted, advice.left_out, advice.never) == (2, 1, 0)
    assert dict(advice.ladder)[60_000] == 1


def test_operations_that_never_could_complete_are_told_apart() -> None:
    rows = [outcome(1, "expired", 0, 1_000, None), outcome(2, "expired", 0, 1_000, 3_000)]
    advice = overall(rows)
    assert (advice.counted, advice.never, advice.too_late) == (1, 1, 1)
    assert advice.present is not None
    assert advice.present.would_expire == 1


@pytest.mark.parametrize(
    ("timeout_ms", "verdict"),
    [
        (100, Verdict.TIGHT),
        (989, Verdict.TIGHT),
        (990, Verdict.FITS),
        (1_997, Verdict.FITS),
        (1_998, Verdict.LONG),
    ],
)
def test_the_verdict_compares_the_present_timeout_with_what_is_needed(
    timeout_ms: int, verdict: Verdict
) -> None:
    rows = [
        outcome(n, "completed", 0, n)
        if n <= timeout_ms
        else outcome(n, "expired", 0, timeout_ms, n)
        for n in range(1, 1_001)
    ]
    rows.append(outcome(0, "expired", 0, timeout_ms, None))
    advice = overall(rows)
    assert advice.for_99 is not None
    assert advice.for_999 is not None
    assert (advice.for_99.value, advice.for_999.value) == (990, 999)
    assert advice.verdict is verdict


def test_the_commonest_timeout_is_the_present_one_and_it_is_said_that_there_are_others() -> None:
    rows = [outcome(n, "expired", 0, 1_000 if n < 3 else 2_000, 9_000) for n in range(5)]
    advice = overall(rows)
    assert advice.present is not None
    assert (advice.present.timeout_ms, advice.present.expired) == (1_000, 3)
    assert advice.present.timeouts == 2
    assert advice.verdict is Verdict.MIXED


def test_waits_from_the_first_of_all_times_to_the_last_are_exact() -> None:
    rows = [outcome(1, "expired", -(2**63), 10, 2**64 - 1), outcome(2, "expired", 0, 2**62, None)]
    advice = overall(rows)
    assert advice.longest is not None
    assert advice.longest.value == 2**64 - 1
    assert "would expire" in report.page(report.count(stays(rows)))


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


def test_outcomes_of_a_stream_have_no_advice() -> None:
    numbers = report.count(
        report.Stays.of_tables(table(random_rows(1)).drop_columns(["condition_ms"]))
    )
    assert numbers.advice is None
    assert "sojourn replay" in report.page(numbers)


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
