"""Times, durations and names in the forms that people's tables have them in."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from sojourn import replay
from sojourn.errors import BadTable, UnitWarning
from sojourn.replay import rows

ITEM = pa.struct([("key", pa.string()), ("offset", pa.int64())])
NOON = datetime(2026, 1, 5, 12, 0, 0, 123_900, tzinfo=UTC)
NOON_MS = 1_767_614_400_123
NAIVE = NOON.replace(tzinfo=None)


def cancels(at: Any, column: str = "at_ms") -> pa.Table:
    return pa.table({"id": pa.array([str(n) for n in range(len(at))]), column: at})


def operations(**columns: Any) -> pa.Table:
    many = len(next(iter(columns.values())))
    known: dict[str, Any] = {"id": [f"op-{n}" for n in range(many)], "submitted_ms": [0] * many}
    known["requires"] = pa.array([[{"key": "k", "offset": 1}]] * many, pa.list_(ITEM))
    return pa.table(known | columns)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([NOON], pa.timestamp("us", "UTC")),
        pa.array([NOON], pa.timestamp("ns", "Asia/Tokyo")),
        pa.array([NAIVE], pa.timestamp("us")),
        pa.array([NOON.astimezone(timezone(timedelta(hours=5)))]),
        pa.array([NOON]).dictionary_encode(),
        pa.array(["2026-01-05T12:00:00.123900Z"]),
        pa.array(["2026-01-05T14:00:00.123900+02:00"]),
        pa.array(["2026-01-05 12:00:00.1239"]),
        pa.array([" 2026-01-05T12:00:00.123900123Z "]),
        pa.array([str(NOON_MS)], pa.large_string()),
        pa.array([float(NOON_MS)]),
    ],
    ids=lambda column: f"{column.type} {column[0]}",
)
def test_a_time_is_the_same_millisecond_in_every_form(column: pa.Array) -> None:
    assert rows.check_cancels(cancels(column)).at_ms.tolist() == [NOON_MS]


def test_times_of_each_unit_before_1970_are_rounded_down_too() -> None:
    before = pa.array([-1], pa.timestamp("us"))
    assert rows.check_cancels(cancels(before)).at_ms.tolist() == [-1]
    assert rows.check_cancels(cancels(pa.array([date(1969, 12, 31)]))).at_ms.tolist() == [
        -86_400_000
    ]


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("s", 1_767_614_400),
        ("s", 1_767_614_400.123),
        ("s", Decimal("1767614400.1239")),
        ("us", 1_767_614_400_123_900),
        ("ns", 1_767_614_400_123_900_000),
        ("s", "1767614400"),
    ],
)
def test_numbers_are_in_the_unit_that_the_name_ends_with(unit: str, value: Any) -> None:
    (found,) = rows.check_cancels(cancels(pa.array([value]), f"at_{unit}")).at_ms.tolist()
    assert found in (NOON_MS, NOON_MS - 123)


def test_a_time_too_large_for_milliseconds_is_rejected_and_the_others_go_on() -> None:
    seconds = pa.array([2**62, -(2**62), 7], pa.timestamp("s"))
    clean = rows.check_cancels(cancels(seconds))
    assert clean.at_ms.tolist() == [7_000]
    assert clean.rejected["reason"].to_pylist() == ["at_ms is outside 64 bits"] * 2
    numbers = rows.check_cancels(cancels(pa.array([1e300, float("nan"), 5.9])))
    assert numbers.at_ms.tolist() == [5]
    assert numbers.rejected["reason"].to_pylist() == ["at_ms is outside 64 bits", "at_ms is null"]


def test_text_that_is_no_time_is_rejected_by_itself() -> None:
    texts = pa.array(["soon", "2026-01-05", "", None, "0x10", "12", str(2**63)])
    clean = rows.check_cancels(cancels(texts))
    assert clean.at_ms.tolist() == [1_767_571_200_000, 12]
    assert clean.rejected["reason"].to_pylist() == [
        "at_ms is not a time",
        "at_ms is null",
        "at_ms is null",
        "at_ms is not a time",
        "at_ms is outside 64 bits",
    ]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1_800_000]),
        pa.array([timedelta(minutes=30)]),
        pa.array([1_800], pa.duration("s")),
        pa.array(["30min"]),
        pa.array(["1800 s"]),
        pa.array([1_800_000.0]),
    ],
    ids=lambda column: f"{column.type} {column[0]}",
)
def test_a_timeout_is_a_duration_in_any_form(column: pa.Array) -> None:
    assert rows.check_operations(operations(timeout_ms=column)).timeout_ms.tolist() == [1_800_000]


def test_a_deadline_stands_for_a_timeout() -> None:
    table = operations(submitted_ms=[10, 20, 30, -(2**63)], deadline_ms=[15, 19, None, 2**63 - 1])
    clean = rows.check_operations(table)
    assert clean.timeout_ms.tolist() == [5]
    assert clean.rejected["reason"].to_pylist() == [
        rows.DEADLINE_BEFORE,
        "deadline_ms is null",
        rows.DEADLINE_TOO_FAR,
    ]
    assert clean.extras.column_names == []
    stamps = operations(
        submitted_ms=pa.array([NOON]), deadline_s=pa.array([NOON + timedelta(seconds=9)])
    )
    assert rows.check_operations(stamps).timeout_ms.tolist() == [9_000]


def test_a_deadline_beside_a_timeout_is_a_column_of_the_users() -> None:
    clean = rows.check_operations(operations(timeout_ms=[5], deadline_ms=["friday"], at_s=[1]))
    assert clean.extras.column_names == ["deadline_ms", "at_s"]


@pytest.mark.parametrize(
    ("name", "column", "wanted"),
    [
        ("timeout_ms", pa.array([True]), "'timeout_ms' must be durations, or numbers"),
        ("timeout_ms", pa.array([NOON]), "a point in time goes into deadline_ms"),
        ("submitted_ms", pa.array([timedelta(1)]), "'submitted_ms' must be timestamps, or numbers"),
        ("submitted_ms", pa.array([[1]]), "'submitted_ms' must be timestamps, or numbers"),
        ("id", pa.array([1.5]), "'id' must be text, integers or bytes, found double"),
    ],
    ids=lambda value: None if isinstance(value, pa.Array) else value,
)
def test_what_is_no_time_at_all_is_an_error(name: str, column: pa.Array, wanted: str) -> None:
    with pytest.raises(BadTable, match=wanted):
        rows.check_operations(operations(**({"timeout_ms": [1]} | {name: column})))


def test_ids_and_keys_may_be_integers_and_bytes() -> None:
    uuid = UUID("8c59eb80-8f7c-4b5b-9ad4-2b8d6a0f1c22")
    for column, text in (
        (pa.array([17]), "17"),
        (pa.array([Decimal(17)]), "17"),
        (pa.array([b"seventeen"]), "seventeen"),
        (pa.array([b"\xff\x00"]), "0xff00"),
        (pa.array([uuid.bytes], pa.binary(16)), f"0x{uuid.hex}"),
        (pa.array([uuid.bytes], pa.uuid()), f"0x{uuid.hex}"),
        (pa.array([b"\xff"]).dictionary_encode(), "0xff"),
    ):
        clean = rows.check_cancels(pa.table({"id": column, "at_ms": [1]}))
        assert clean.names.to_pylist() == [text]
    item = pa.struct([("key", pa.int64()), ("offset", pa.int64())])
    table = operations(
        timeout_ms=[1], requires=pa.array([[{"key": 4, "offset": 1}]], pa.list_(item))
    )
    assert rows.check_operations(table).keys.to_pylist() == ["4"]


def test_requirements_may_be_json_text() -> None:
    texts = ['[{"key": "k", "offset": 2}]', "[]", "k", '[{"key": 3, "offset": "7"}]',
             '[{"key": "k", "offset": 1.5}]', "[null]", '["k"]', None]  # fmt: skip
    clean = rows.check_operations(operations(timeout_ms=[1] * len(texts), requires=pa.array(texts)))
    assert clean.keys.to_pylist() == ["k", "3"]
    assert clean.offsets.tolist() == [2, 7]
    assert clean.rejected["reason"].to_pylist() == [
        rows.REQUIRES_EMPTY,
        rows.REQUIRES_UNREADABLE,
        "a required offset is not an integer",
        rows.REQUIRED_KEY_NULL,
        rows.REQUIRES_UNREADABLE,
        rows.REQUIRES_EMPTY,
    ]


# Numbers that look like another unit.


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([1_767_614_400] * 3, "seconds"),
        ([1_767_614_400_123] * 9 + [1_767_614_400], "seconds"),
        ([1_767_614_400_123_000] * 2 + [1_767_614_400_123], "microseconds"),
        ([1_767_614_400_123_000_000], "nanoseconds"),
    ],
)
def test_numbers_in_another_unit_are_warned_of_with_a_row(values: list[int], word: str) -> None:
    odd = next(value for value in values if not 10**12 <= value < 10**13)
    with pytest.warns(UnitWarning, match=rf"cancels: 'at_ms' looks like {word} in .* rows") as all_:
        rows.check_cancels(cancels(values))
    (warning,) = all_
    assert f'"at_ms": {odd}' in str(warning.message)


@pytest.mark.parametrize(
    "values", [[0, 5, 10**8], [1_767_614_400_123], [10**6] * 5 + [2 * 10**9], [-(2**63), 2**63 - 1]]
)
def test_milliseconds_of_any_epoch_are_not_warned_of(values: list[int]) -> None:
    rows.check_cancels(cancels(values))


def test_timestamps_and_columns_that_say_their_unit_are_not_warned_of() -> None:
    rows.check_cancels(cancels(pa.array([1_767_614_400], pa.timestamp("s"))))
    rows.check_cancels(cancels([1_767_614_400], "at_s"))


# All of it together.


def test_a_table_of_timestamps_gives_the_answer_of_its_milliseconds() -> None:
    asked = [
        {
            "id": 7,
            "submitted_ms": NOON,
            "timeout_ms": timedelta(minutes=30),
            "requires": [{"key": b"paid/7", "offset": 1}],
        }
    ]
    paid = [{"key": "paid/7", "offset": 1, "at_ms": NOON + timedelta(minutes=12)}]
    (row,) = replay.resolve(asked, paid).outcomes.to_pylist()
    assert (row["id"], row["status"], row["waited_ms"]) == ("7", "completed", 720_000)
    assert row["at_ms"] == NOON_MS + 720_000
    waiting = replay.resolve(asked, paid, until_ms=NOON + timedelta(minutes=1))
    assert len(waiting.pending) == 1


def test_results_are_timestamps_too_if_asked_for() -> None:
    asked = operations(submitted_ms=[NOON_MS] * 2, timeout_ms=[5, 50])
    news = [{"key": "k", "offset": 0, "at_ms": 1}]
    answer = replay.resolve(asked, news, until_ms=NOON_MS + 7)
    stamped = answer.with_timestamps()
    (ended,) = stamped.outcomes.to_pylist()
    moment = datetime(2026, 1, 5, 12, 0, 0, 123_000, tzinfo=UTC)
    assert ended["at"] == moment + timedelta(milliseconds=5)
    assert ended["condition_at"] is None
    assert ended["at_ms"] == NOON_MS + 5
    assert stamped.pending["submitted_at"].to_pylist() == [moment]
    taken = replay.resolve(asked.append_column("at", pa.array([1, 2])), news)
    with pytest.raises(BadTable, match="a column 'at' of their own"):
        taken.with_timestamps()


def test_what_is_pending_can_be_fed_back() -> None:
    asked = operations(timeout_ms=[100, 5], shop=["north", "south"])
    first = replay.resolve(asked, [{"key": "other", "offset": 1, "at_ms": 1}], until_ms=50)
    assert first.pending["id"].to_pylist() == ["op-0"]
    later = replay.resolve(first.pending, [{"key": "k", "offset": 1, "at_ms": 60}])
    (row,) = later.outcomes.to_pylist()
    assert (row["id"], row["status"], row["at_ms"], row["shop"]) == (
        "op-0",
        "completed",
        60,
        "north",
    )
    engine = replay.Engine()
    engine.submit(asked)
    engine.advance(datetime.fromtimestamp(0.05, UTC))
    assert engine.pending().equals(first.pending)


def test_a_reader_or_a_generator_is_read_once_also_where_rows_are_rejected() -> None:
    doubled = operations(timeout_ms=[5, 6], id=["a", "a"])
    news = pa.table({"key": ["k"], "offset": [1], "at_ms": [3]})
    whole = replay.resolve(doubled, news)
    assert len(whole.rejected) == 1
    for given in (
        doubled.to_reader(),
        (batch for batch in doubled.to_batches()),
        doubled.to_pylist(),
    ):
        found = replay.resolve(given, news)
        assert found.outcomes.equals(whole.outcomes)
        assert found.rejected.equals(whole.rejected)


def test_rows_that_a_reader_could_not_read_are_rejected_with_their_text() -> None:
    """As Spark's readers have them."""
    table = cancels([1, None]).append_column(rows.CORRUPT, pa.array([None, '{"id": '], pa.string()))
    clean = rows.check_cancels(table)
    assert clean.names.to_pylist() == ["0"]
    assert clean.rejected.to_pylist() == [
        {"table": "cancels", "reason": rows.BROKEN, "row": '{"id": '}
    ]
    why = table.append_column(rows.CORRUPT_REASON, pa.array([None, "the line is torn"]))
    assert rows.check_cancels(why).rejected["reason"].to_pylist() == ["the line is torn"]
    late = rows.reject(why, "cancels", rows.check_cancels(why).numbers, "late")
    assert json.loads(late["row"][0].as_py()) == {"id": "0", "at_ms": 1}


def test_tables_that_were_swapped_are_recognised() -> None:
    with pytest.raises(BadTable, match="the columns of signals: are the two tables swapped"):
        rows.check_operations(pa.table({"key": ["k"], "offset": [1], "at_ms": [1]}))
    with pytest.raises(BadTable, match="the columns of operations: are the two tables swapped"):
        rows.check_signals(operations(timeout_ms=[1]))
