"""What the workers do, without Spark: parcels, fingerprints, hot keys."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sojourn import replay
from sojourn.replay import rows
from sojourn.replay.endings import Endings
from sojourn.replay.local import Index
from sojourn.replay.steps import Steps
from sojourn.replay.string_hashes import hashes
from sojourn.spark import answers as answers_module
from sojourn.spark import hot_keys, parcels, references
from sojourn.spark.broadcast import LIMITS, NO_LIMITS, Limits, Survey, TooMany, suspects
from sojourn.spark.hot_keys import HotKeys
from sojourn.spark.stages import RowsChanged
from tests.rows import oracle
from tests.rows.traces import Trace, random_trace
from tests.spark import stages
from tests.spark.stages import delivered, job_for, mapped, of_kind, run, run_single
from tests.test_one_answer import answer_of_tables, differs

OFFSET_AT = ("offset", "at_ms")
REQUIRES = pa.list_(pa.struct([("key", pa.string()), ("offset", pa.int64())]))


def operations_of(count: int, key: str = "k") -> pa.Table:
    return pa.table(
        {
            "id": [f"op-{n}" for n in range(count)],
            "submitted_ms": list(range(count)),
            "timeout_ms": [1000] * count,
            "requires": pa.array(
                [[{"key": key, "offset": n % 97}] for n in range(count)], REQUIRES
            ),
        }
    )


def signals_of(count: int, key: str = "k") -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table(
        {
            "key": [key] * count,
            "offset": random.integers(0, 100, count),
            "at_ms": random.integers(0, 1000, count),
        }
    )


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def test_a_partition_computed_again_in_another_order_changes_nothing() -> None:
    # Half of the parcels come from a first attempt and half from a second one, after a machine
    # was lost, for which the rows came in another order.
    trace = random_trace(5, 600, extremes=False, ties_by_arrival=False, until=False)
    operations, signals, cancels = trace.tables()
    job = job_for(operations, 4)
    order = np.random.default_rng(1).permutation(len(operations))
    again = operations.take(pa.array(order))
    first, second = (mapped(job.pack_operations, [t]) for t in (operations, again))
    requirements = [b for b in first if b["kind"][0].as_py() == parcels.QUESTIONS]
    others = [b for b in second if b["kind"][0].as_py() != parcels.QUESTIONS]
    packed = requirements + others + mapped(job.pack_signals, [signals])
    found = [batch for piece in delivered(packed) for batch in job.find_moments(piece)]
    found += mapped(job.pack_cancels, [cancels])
    ended = pa.Table.from_batches(
        [batch for piece in delivered(found) for batch in job.end_operations(piece)],
        job.answers.schema,
    )
    expected = replay.resolve(operations, signals, cancels)
    assert sorted_rows(of_kind(ended, "outcome", rows.OUTCOME_COLUMNS)) == sorted_rows(
        expected.outcomes
    )


def test_operations_that_are_not_the_same_when_read_again_are_an_error() -> None:
    job = job_for(operations_of(10), 2)
    one, other = (mapped(job.pack_operations, [operations_of(10, key)]) for key in "ab")
    requirements = [b for b in one if b["kind"][0].as_py() == parcels.QUESTIONS]
    others = [b for b in other if b["kind"][0].as_py() != parcels.QUESTIONS]
    found = [b for p in delivered(requirements + others) for b in job.find_moments(p)]
    piece = delivered(found)[0]
    with pytest.raises(RowsChanged, match="not the same when Spark read them again"):
        list(job.end_operations(piece))


def test_hashes_spread_keys_over_all_partitions() -> None:
    found = hashes(pa.array([f"key-{n}" for n in range(10_000)]))
    for count in (2, 7, 50):
        sizes = np.bincount(references.partitions(found, count), minlength=count)
        assert sizes.min() > 0.6 * 10_000 / count
        assert sizes.max() < 1.4 * 10_000 / count


def test_an_operation_goes_where_its_id_goes() -> None:
    clean = rows.check_operations(operations_of(1000))
    ids = hashes(clean.ids)
    found, checks = references.of_operations(clean, ids, hashes(clean.keys))
    assert (references.partitions(found, 13) == references.partitions(ids, 13)).all()
    assert len(np.unique(found)) == len(np.unique(checks)) == 1000


def test_fingerprints_that_meet_are_told_apart_by_the_check_or_an_error() -> None:
    known = np.array([8, 8, 16], dtype=np.uint64)
    checks = np.array([1, 2, 1], dtype=np.uint32)
    wanted = np.array([8, 8, 16, 8, 24], dtype=np.uint64)
    wanted_checks = np.array([2, 1, 1, 3, 1], dtype=np.uint32)
    found = references.places(known, checks, wanted, wanted_checks)
    assert found.tolist() == [1, 0, 2, -1, -1]
    with pytest.raises(references.FingerprintsMeet):
        references.places(known, checks * 0, wanted, wanted_checks)


def test_a_key_with_all_rows_is_shared_by_all_partitions() -> None:
    operations, signals = operations_of(4000), signals_of(4000)
    sample = pa.table(
        {
            "key": ["k"] * 1000,
            "offset": np.random.default_rng(0).integers(0, 100, 1000),
            "weight": [1.0] * 1000,
        }
    )
    hot = hot_keys.hot_keys(sample, 4)
    assert len(hot) == 1
    job = job_for(operations, 4, None, hot)
    packed = mapped(job.pack_operations, [operations]) + mapped(job.pack_signals, [signals])
    carried = {
        kind: [
            sum(len(p.open()) for _, p in parcels.unpack(piece) if p.kind == kind)
            for piece in delivered(packed)
        ]
        for kind in (parcels.QUESTIONS, parcels.SIGNALS)
    }
    for counts in carried.values():
        assert len(counts) == 4
        assert max(counts) < 0.35 * sum(counts)
    ended = run(job, [operations], [signals])
    expected = replay.resolve(operations, signals)
    assert sorted_rows(of_kind(ended, "outcome", rows.OUTCOME_COLUMNS)) == sorted_rows(
        expected.outcomes
    )


def test_keys_of_a_fair_share_are_not_cut() -> None:
    sample = pa.table(
        {
            "key": [f"k{n % 50}" for n in range(5000)],
            "offset": list(range(5000)),
            "weight": [1.0] * 5000,
        }
    )
    assert len(hot_keys.hot_keys(sample, 8)) == 0


def test_a_hot_key_with_one_offset_stays_whole() -> None:
    sample = pa.table({"key": ["k"] * 1000, "offset": [5] * 1000, "weight": [1.0] * 1000})
    hot = hot_keys.hot_keys(sample, 8)
    word = hashes(pa.array(["k"]))
    here = hot.partitions(np.repeat(word, 3), np.array([5, 5, 5]), 8)
    assert len(set(here.tolist())) == 1


def test_a_sample_counts_for_what_it_stands_for() -> None:
    # One input partition has many rows of key a, of which few are kept; another a few of key b.
    many = pa.table({"key": ["a"] * 50_000, "offset": [1] * 50_000})
    few = pa.table({"key": ["b"] * 900, "offset": [1] * 900})
    kept = pa.concat_tables(
        pa.Table.from_batches(hot_keys.keep_some(table.to_batches())) for table in (many, few)
    )
    assert len(kept) < 2000
    weights = kept.group_by("key").aggregate([("weight", "sum")]).to_pylist()
    assert {row["key"]: round(row["weight_sum"]) for row in weights} == {"a": 50_000, "b": 900}


def test_strings_of_a_partition_may_be_wide_and_come_out_as_the_schema_says() -> None:
    # Past 2 GiB of one column its strings are wide, and its extras come in several chunks.
    operations = operations_of(10).append_column("kind", pa.array([f"kind {n}" for n in range(10)]))
    wanted = rows.check_operations(operations)
    wide = dataclasses.replace(
        wanted,
        ids=wanted.ids.cast(pa.large_string()),
        keys=wanted.keys.cast(pa.large_string()),
        extras=pa.concat_tables([wanted.extras.slice(0, 4), wanted.extras.slice(4)]),
    )
    endings = end_of(wanted)
    answers = job_for(operations, 1).answers
    narrow_rows, wide_rows = (
        pa.Table.from_batches(answers.ended(w, endings), answers.schema) for w in (wanted, wide)
    )
    assert wide_rows.to_pylist() == narrow_rows.to_pylist()
    assert wide_rows["extras"].to_pylist() == [{"kind": f"kind {n}"} for n in range(10)]


def test_a_piece_that_is_too_large_for_narrow_strings_is_cut_in_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut = answers_module._cut

    def cut_few(column: Any, start: int, count: int, kind: pa.DataType) -> pa.Array:
        if count > 3:
            raise pa.ArrowInvalid("offset overflow")
        return cut(column, start, count, kind)

    monkeypatch.setattr(answers_module, "_cut", cut_few)
    operations = operations_of(10)
    wanted = rows.check_operations(operations)
    answers = job_for(operations, 1).answers
    batches = list(answers.ended(wanted, end_of(wanted)))
    assert max(len(batch) for batch in batches) <= 3
    found = pa.Table.from_batches(batches)
    assert found["id"].to_pylist() == wanted.ids.to_pylist()


def end_of(wanted: rows.CleanOperations) -> Endings:
    signals = signals_of(100)
    steps = Steps(signals["key"].combine_chunks(), *(signals[n].to_numpy() for n in OFFSET_AT))
    return Index(steps, None).end(wanted, None)


@pytest.mark.nightly
def test_a_partition_with_more_than_2_gib_of_ids_ends() -> None:
    job = job_for(operations_of(1), 1)
    packed = mapped(job.pack_signals, [signals_of(100)])
    for n in range(0, 2200, 20):
        # The last has the id of the first.
        ids = pa.array([f"{(n + m) % 2199:06}" + "x" * 1_000_000 for m in range(20)])
        packed += mapped(job.pack_operations, [operations_of(20).set_column(0, "id", ids)])
    found = [batch for piece in delivered(packed) for batch in job.find_moments(piece)]
    del packed
    kinds = Counter(
        kind
        for piece in delivered(found)
        for batch in job.end_operations(piece)
        for kind in batch["kind"].to_pylist()
    )
    assert kinds == {"outcome": 2199, "rejected": 1}


@pytest.mark.parametrize("limit", ["steps", "rejected"])
def test_a_task_gives_up_past_a_limit_and_the_driver_knows(limit: str) -> None:
    signals = signals_of(200)
    if limit == "rejected":
        signals = signals.set_column(0, "key", pa.nulls(200, pa.string()))
    survey = Survey(job_for(operations_of(1), 1), LIMITS._replace(**{limit: 3}))
    with pytest.raises(TooMany):
        survey.findings(mapped(survey.find_steps, [signals]))


def test_steps_of_all_tasks_together_are_limited_too() -> None:
    survey = Survey(job_for(operations_of(1), 1), Limits(steps=100))
    found = mapped(survey.find_steps, [signals_of(50, f"k{n}") for n in range(60)])
    assert all(b["kind"][0].as_py() == parcels.STEPS for b in found)
    with pytest.raises(TooMany):
        survey.findings(found)


def test_many_duplicates_are_too_many_for_a_broadcast() -> None:
    few = np.arange(100_000)
    survey = Survey(job_for(operations_of(1), 1), LIMITS)

    def packed(*parts: Any) -> list[pa.RecordBatch]:
        return mapped(survey.pack_hashes, [pa.table({"hash": part}) for part in parts])

    assert suspects(packed(few, few[:9]), LIMITS).tolist() == list(range(9))
    with pytest.raises(TooMany):
        suspects(packed(few, few), LIMITS)
    assert len(suspects(packed(few, few), NO_LIMITS)) == 100_000


def with_one_requirement(trace: Trace) -> Trace:
    """The same operations, but each waits for the first of its keys alone."""
    return dataclasses.replace(
        trace,
        operations=[
            {**row, "requires": row["requires"][:1] if row["requires"] else row["requires"]}
            for row in trace.operations
        ],
    )


@pytest.mark.parametrize("seed", range(12))
def test_with_one_requirement_each_one_shuffle_gives_the_answer_of_the_oracle(seed: int) -> None:
    trace = with_one_requirement(random_trace(seed, 400))
    expected = oracle.resolve(trace.operations, trace.signals, trace.cancels, trace.until_ms)
    found = stages.resolve(trace, answer_of_tables, run_single)
    assert differs(trace, expected, found) is None


def test_several_requirements_where_there_was_one_are_an_error() -> None:
    operations = operations_of(5)
    two = operations.set_column(
        3, "requires", pa.array([[{"key": "k", "offset": 1}] * 2] * 5, REQUIRES)
    )
    with pytest.raises(RowsChanged, match="not the same when Spark read them again"):
        run_single(job_for(operations, 2), [two], [signals_of(10)])


def test_two_keys_with_one_hash_do_not_take_each_others_signals() -> None:
    signals = rows.check_signals(pa.table({"key": ["a", "b"], "offset": [20] * 2, "at_ms": [5, 3]}))
    word = np.array([7, 7], dtype=np.uint64)
    hot = HotKeys({7: np.array([10])})
    told = [batch.to_pylist()[0] for _, batch in hot.later(word, signals, 4)]
    assert sorted((row["key"], row["at_ms"]) for row in told) == [("a", 5), ("b", 3)]
