"""How operations end, a rule at a time, on rows small enough to read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sojourn import replay
from sojourn.errors import BadTable, OutOfRange, WrongType
from sojourn.replay import Resolution
from tests.conftest import FreshPython

Row = dict[str, Any]

OPERATIONS = pa.schema(
    [
        ("id", pa.string()),
        ("submitted_ms", pa.int64()),
        ("timeout_ms", pa.int64()),
        ("requires", pa.list_(pa.struct([("key", pa.string()), ("offset", pa.int64())]))),
        ("needed", pa.int32()),
    ]
)
SIGNALS = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())])
CANCELS = pa.schema([("id", pa.string()), ("at_ms", pa.int64())])

NEVER = 2**63 - 1  # the last moment there is


def operation(
    *requires: tuple[str, int], id: str = "it", at: int = 100, timeout: int = 50, needed: Any = None
) -> Row:
    items = [{"key": key, "offset": offset} for key, offset in requires]
    return {
        "id": id, "submitted_ms": at, "timeout_ms": timeout, "requires": items, "needed": needed,
    }  # fmt: skip


def resolve(
    operations: Row | list[Row],
    signals: list[tuple[str, int, int]] = [],  # noqa: B006 - key, offset, at_ms; only read
    cancels: list[tuple[str, int]] = [],  # noqa: B006
    until: int | None = None,
) -> Resolution:
    rows = [operations] if isinstance(operations, dict) else operations
    return replay.resolve(
        pa.Table.from_pylist(rows, OPERATIONS),
        pa.Table.from_pylist([dict(zip(SIGNALS.names, s, strict=True)) for s in signals], SIGNALS),
        pa.Table.from_pylist([dict(zip(CANCELS.names, c, strict=True)) for c in cancels], CANCELS),
        until,
    )


def end(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """status, at_ms, by_key, condition_ms of the only operation."""
    (row,) = resolve(*args, **kwargs).outcomes.to_pylist()
    assert row["waited_ms"] == row["at_ms"] - 100
    return row["status"], row["at_ms"], row["by_key"], row["condition_ms"]


# When a requirement holds.


def test_it_completes_when_its_key_reaches_the_offset() -> None:
    signals = [("k", 6, 110), ("k", 7, 120), ("k", 9, 130)]
    assert end(operation(("k", 7)), signals) == ("completed", 120, "k", 120)


def test_a_larger_offset_counts_for_every_smaller_one() -> None:
    assert end(operation(("k", 7)), [("k", 100, 110)]) == ("completed", 110, "k", 110)


def test_progress_never_goes_back() -> None:
    signals = [("k", 9, 110), ("k", 1, 120)]
    assert end(operation(("k", 7), ("m", 0)), [*signals, ("m", 0, 130)])[1] == 130


def test_what_was_reached_before_the_submission_completes_at_the_submission() -> None:
    assert end(operation(("k", 7)), [("k", 7, 3)]) == ("completed", 100, "k", 100)


def test_the_order_of_the_rows_changes_nothing() -> None:
    signals = [("k", 9, 130), ("k", 7, 120), ("k", 6, 110), ("k", 7, 119)]
    assert end(operation(("k", 7)), signals) == ("completed", 119, "k", 119)


def test_no_signal_is_no_progress_and_below_every_offset() -> None:
    assert end(operation(("k", -(2**63)))) == ("expired", 150, None, None)


def test_keys_are_told_apart_to_the_last_byte() -> None:
    near = ["", "k\x00", "K", "kk", "ḱ", "k" * 17]
    assert end(operation(("k", 0)), [(key, 0, 110) for key in near])[0] == "expired"


# Ties.


def test_a_signal_at_the_deadline_completes() -> None:
    assert end(operation(("k", 0)), [("k", 0, 150)]) == ("completed", 150, "k", 150)


def test_a_signal_after_the_deadline_is_too_late_and_the_condition_is_told() -> None:
    assert end(operation(("k", 0)), [("k", 0, 151)]) == ("expired", 150, None, 151)


def test_without_a_timeout_it_completes_only_at_once() -> None:
    assert end(operation(("k", 0), timeout=0), [("k", 0, 100)])[0] == "completed"
    assert end(operation(("k", 0), timeout=0), [("k", 0, 101)])[0] == "expired"


def test_a_cancel_at_the_moment_of_completion_loses() -> None:
    assert end(operation(("k", 0)), [("k", 0, 120)], [("it", 120)])[0] == "completed"


def test_a_cancel_before_it_wins() -> None:
    expected = ("cancelled", 119, None, 120)
    assert end(operation(("k", 0)), [("k", 0, 120)], [("it", 119)]) == expected


def test_a_cancel_at_the_deadline_wins_and_after_it_loses() -> None:
    assert end(operation(("k", 0)), [], [("it", 150)]) == ("cancelled", 150, None, None)
    assert end(operation(("k", 0)), [], [("it", 151)]) == ("expired", 150, None, None)


def test_a_cancel_at_the_submission_wins_and_before_it_has_no_effect() -> None:
    assert end(operation(("k", 0)), [], [("it", 100)])[:2] == ("cancelled", 100)
    assert end(operation(("k", 0)), [], [("it", 99)])[:2] == ("expired", 150)


def test_of_several_cancels_the_earliest_after_the_submission_counts() -> None:
    cancels = [("it", 140), ("it", 99), ("other", 101), ("it", 130)]
    assert end(operation(("k", 0)), [], cancels)[:2] == ("cancelled", 130)


def test_a_cancel_after_the_deadline_and_before_the_condition_leaves_it_expired() -> None:
    assert end(operation(("k", 0)), [("k", 0, 200)], [("it", 160)])[:2] == ("expired", 150)


# How many are needed.

THREE = [("a", 1, 110), ("b", 1, 120), ("c", 1, 130)]


@pytest.mark.parametrize(
    ("needed", "expected"), [(None, (130, "c")), (3, (130, "c")), (2, (120, "b")), (1, (110, "a"))]
)
def test_all_some_or_any_must_hold(needed: int | None, expected: tuple[int, str]) -> None:
    found = end(operation(("c", 1), ("a", 1), ("b", 1), needed=needed), THREE)
    assert (found[1], found[2]) == expected


def test_those_that_never_hold_do_not_stand_in_the_way_of_a_quorum() -> None:
    asked = operation(("never", 1), ("a", 1), ("b", 1), needed=2)
    assert end(asked, THREE) == ("completed", 120, "b", 120)
    assert end(asked | {"needed": 3}, THREE)[0] == "expired"


def test_among_keys_that_held_together_the_smallest_by_code_points_is_named() -> None:
    """In UTF-16 the astral one would come first."""
    signals = [("\U0001f600", 1, 120), ("\uffff", 1, 120), ("x", 1, 110)]
    assert end(operation(("\U0001f600", 1), ("\uffff", 1)), signals)[2] == "\uffff"


def test_what_held_before_is_not_named() -> None:
    asked = operation(("z", 1), ("a", 1), ("m", 1))
    assert end(asked, [("a", 1, 110), ("m", 1, 120), ("z", 1, 120)])[2] == "m"


def test_all_that_held_before_the_submission_held_together() -> None:
    assert end(operation(("b", 1), ("a", 1), needed=1), [("b", 1, 5), ("a", 1, 90)])[2] == "a"


def test_one_key_may_be_required_twice_and_both_count() -> None:
    signals = [("k", 1, 110), ("k", 5, 140)]
    assert end(operation(("k", 1), ("k", 5), ("x", 1), needed=2), signals)[1] == 140
    assert end(operation(("k", 1), ("k", 1), ("x", 1), needed=2), signals)[1] == 110


@pytest.mark.parametrize("needed", [1, 2, 17, 50, 99, 100])
def test_a_quorum_of_many(needed: int) -> None:
    signals = [(f"k{n}", 0, 101 + n * 37 % 100) for n in range(100)]
    asked = operation(*((key, 0) for key, _, _ in signals), timeout=1000, needed=needed)
    assert end(asked, signals)[1] == 100 + needed


# Up to a stated time.


def test_up_to_a_time_what_has_not_ended_is_pending() -> None:
    asked = operation(("k", 0))
    found = resolve(asked, [("k", 0, 130)], until=129)
    assert len(found.outcomes) == 0
    assert found.pending.to_pylist() == [
        {
            "id": "it",
            "submitted_ms": 100,
            "timeout_ms": 50,
            "requires": [{"key": "k", "offset": 0}],
            "needed": 1,
        }
    ]
    assert resolve(asked, [("k", 0, 130)], until=130).outcomes["status"].to_pylist() == [
        "completed"
    ]


def test_up_to_its_deadline_it_has_expired() -> None:
    assert len(resolve(operation(("k", 0)), until=149).pending) == 1
    assert resolve(operation(("k", 0)), until=150).outcomes["status"].to_pylist() == ["expired"]


def test_a_later_signal_is_not_known_yet() -> None:
    assert end(operation(("k", 0)), [("k", 0, 160)], until=155) == ("expired", 150, None, None)


def test_a_later_cancel_is_not_known_yet() -> None:
    assert len(resolve(operation(("k", 0)), [], [("it", 120)], until=119).pending) == 1
    assert end(operation(("k", 0)), [], [("it", 120)], until=120)[0] == "cancelled"


def test_what_is_submitted_later_is_pending_though_its_condition_holds() -> None:
    assert len(resolve(operation(("k", 0)), [("k", 0, 1)], until=99).pending) == 1


@pytest.mark.parametrize("until", [1.5, "10", 2**63, -(2**63) - 1])
def test_until_must_be_a_whole_number_of_64_bits(until: Any) -> None:
    with pytest.raises((WrongType, OutOfRange), match="until_ms must"):
        resolve(operation(("k", 0)), until=until)


# The ends of 64 bits.


def test_the_last_moment_there_is_is_a_moment() -> None:
    asked = operation(("k", 0), timeout=NEVER - 100)
    assert end(asked, [("k", 0, NEVER)]) == ("completed", NEVER, "k", NEVER)
    assert end(asked, [], [("it", NEVER)]) == ("cancelled", NEVER, None, None)
    assert end(asked) == ("expired", NEVER, None, None)


def test_the_first_moment_and_the_extreme_offsets_are_such() -> None:
    asked = operation(("k", NEVER), ("m", -(2**63)), at=-(2**63), timeout=NEVER)
    found = resolve(asked, [("k", NEVER, -(2**63)), ("m", -(2**63), -5)]).outcomes.to_pylist()
    assert found[0]["at_ms"] == -5
    assert found[0]["waited_ms"] == 2**63 - 5


# Tables in, tables out.


def test_outcomes_come_in_the_order_of_the_rows_with_their_own_columns() -> None:
    rows = [operation(("k", n), id=f"op-{n}") | {"class": f"c{n}", "n": n} for n in (3, 1, 2)]
    found = replay.resolve(pa.Table.from_pylist(rows), SIGNALS.empty_table())
    assert found.outcomes.column_names == [
        "id", "status", "at_ms", "by_key", "waited_ms", "condition_ms",
        "submitted_ms", "timeout_ms", "class", "n",
    ]  # fmt: skip
    assert found.outcomes["id"].to_pylist() == ["op-3", "op-1", "op-2"]
    assert found.outcomes["class"].to_pylist() == ["c3", "c1", "c2"]
    pending = replay.resolve(pa.Table.from_pylist(rows), SIGNALS.empty_table(), until_ms=0).pending
    assert pending.column_names == [
        "id", "submitted_ms", "timeout_ms", "requires", "needed", "class", "n",
    ]  # fmt: skip


def test_of_duplicates_the_earliest_submitted_stays_then_the_first_in_place() -> None:
    rows = [operation(("k", 0), at=at, timeout=timeout) for at, timeout in [(9, 1), (5, 2), (5, 3)]]
    found = resolve(rows)
    assert found.outcomes["at_ms"].to_pylist() == [7]
    assert found.rejected["reason"].to_pylist() == [replay.rows.DUPLICATE] * 2
    assert len(found.rejected) + len(found.outcomes) == len(rows)


def test_a_bad_row_does_not_make_a_duplicate() -> None:
    found = resolve([operation(("k", 0), at=1, timeout=-1), operation(("k", 0))])
    assert len(found.outcomes) == 1
    assert found.rejected["reason"].to_pylist() == ["timeout_ms is negative"]


def test_record_batches_and_streams_of_them_will_do() -> None:
    table = pa.Table.from_pylist([operation(("k", 0), id=str(n)) for n in range(10)], OPERATIONS)
    signals = pa.table({"key": ["k"], "offset": [0], "at_ms": [120]})
    expected = replay.resolve(table, signals).outcomes
    batches = table.to_batches(max_chunksize=3)
    for given in (batches, iter(batches), table.to_reader(max_chunksize=4), [table]):
        assert replay.resolve(given, signals.to_batches()[0]).outcomes.equals(expected)


def test_empty_tables_give_empty_tables() -> None:
    found = resolve([])
    assert (len(found.outcomes), len(found.pending), len(found.rejected)) == (0, 0, 0)
    assert found.outcomes.schema.field("at_ms").type == pa.int64()
    assert repr(found) == "<Resolution outcomes=0 pending=0 rejected=0>"


@pytest.mark.parametrize("given", [None, 5, "ops.parquet", {"id": []}, [], [5]])
def test_what_is_no_table_is_an_error_that_says_so(given: Any) -> None:
    with pytest.raises(WrongType, match="operations must be a pyarrow Table or RecordBatch"):
        replay.resolve(given, SIGNALS.empty_table())


def test_an_extra_column_with_the_name_of_an_outcome_is_an_error() -> None:
    rows = [operation(("k", 0)) | {"status": "new"}]
    with pytest.raises(BadTable, match=r"rename it, e\.g\. to 'operation_status'"):
        replay.resolve(pa.Table.from_pylist(rows), SIGNALS.empty_table())


def test_without_arrow_the_import_says_what_to_install(fresh_python: FreshPython) -> None:
    run = fresh_python("import sys; sys.modules['pyarrow'] = None; import sojourn.replay")
    assert "sojourn.replay needs pyarrow and numpy, and pyarrow is not installed" in run.stderr
    assert "pip install sojourn[replay]" in run.stderr
    assert fresh_python("import sys, sojourn; assert 'pyarrow' not in sys.modules").returncode == 0
