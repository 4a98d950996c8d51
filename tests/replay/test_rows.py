"""Columns of every type that will do, and the errors for those that will not."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sojourn.errors import BadTable
from sojourn.replay import rows

ITEM = pa.struct([("key", pa.string()), ("offset", pa.int64())])
GOOD = pa.table(
    {
        "id": ["a", "b"],
        "submitted_ms": [1, 2],
        "timeout_ms": [3, 4],
        "requires": pa.array(
            [[{"key": "k", "offset": 1}, {"key": "m", "offset": 2}], [{"key": "n", "offset": 3}]],
            pa.list_(ITEM),
        ),
    }
)
SIGNALS = pa.table({"key": ["a", "b", None], "offset": [1, 2, 3], "at_ms": [4, 5, 6]})


def with_column(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def text_of(array: pa.Array) -> list[str]:
    texts: list[str] = array.to_pylist()
    return texts


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
    ids=str,
)
def test_every_kind_of_string_will_do(kind: pa.DataType) -> None:
    clean = rows.check_signals(with_column(SIGNALS, "key", SIGNALS["key"].cast(kind)))
    assert text_of(clean.names) == ["a", "b"]
    assert clean.names.type == pa.string()
    (bad,) = clean.rejected.to_pylist()
    assert bad == {
        "table": "signals",
        "reason": "key is null",
        "row": '{"key": null, "offset": 3, "at_ms": 6}',
    }


@pytest.mark.parametrize(
    "kind",
    [
        *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
        pa.decimal128(10, 0),
        pa.decimal128(38, 0),
        pa.decimal256(76, 0),
        pa.dictionary(pa.int8(), pa.int64()),
    ],
    ids=str,
)
def test_every_kind_of_integer_will_do(kind: pa.DataType) -> None:
    at = pa.chunked_array([pa.array([7], kind), pa.array([None, 9], kind)])
    clean = rows.check_signals(with_column(SIGNALS, "at_ms", at))
    assert clean.at_ms.tolist() == [7]
    assert clean.at_ms.dtype == np.int64
    assert clean.rejected["reason"].to_pylist() == ["at_ms is null", "key is null"]


def test_numbers_outside_64_bits_are_rejected_and_those_at_its_ends_are_not() -> None:
    least, most = -(2**63), 2**63 - 1
    at = pa.array([most, most + 1, 2**64 - 1], pa.uint64())
    keys = pa.array(["a", "b", "c"])
    table = pa.table({"key": keys, "offset": [1, 2, 3], "at_ms": at})
    assert rows.check_signals(table).at_ms.tolist() == [most]
    wide = pa.array([Decimal(n) for n in (least, least - 1, most)], pa.decimal128(38, 0))
    clean = rows.check_signals(pa.table({"key": keys, "offset": wide, "at_ms": [1, 2, 3]}))
    assert clean.offsets.tolist() == [least, most]
    assert clean.rejected["reason"].to_pylist() == ["offset is outside 64 bits"]
    assert json.loads(clean.rejected["row"][0].as_py())["offset"] == least - 1


def test_a_missing_column_is_an_error_that_tells_those_there_are() -> None:
    with pytest.raises(
        BadTable,
        match="cancels: there is no column 'at_ms', only 'id', 'when'; it takes id, at_ms",
    ):
        rows.check_cancels(pa.table({"id": ["a"], "when": [1]}))
    with pytest.raises(BadTable, match="only no columns at all"):
        rows.check_cancels(pa.table({}))


def test_a_column_that_is_there_twice_is_an_error() -> None:
    with pytest.raises(BadTable, match="there are 2 columns 'id'"):
        rows.check_cancels(pa.table([["a"], ["b"], [1]], names=["id", "id", "at_ms"]))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([["k"], ["m"]]),
        pa.array([[{"key": "k"}], []]),
        pa.array([[{"key": "k", "at": 1}], []]),
        pa.array([{"key": "k", "offset": 1}, None]),
    ],
    ids=lambda column: str(column.type),
)
def test_requirements_of_another_shape_are_an_error(column: pa.Array) -> None:
    with pytest.raises(BadTable, match="'requires' must be lists of structs with the fields key"):
        rows.check_operations(with_column(GOOD, "requires", column))


def test_the_parts_of_a_requirement_must_have_the_right_type() -> None:
    for item, what in (
        ({"key": 1.5, "offset": 1}, "its field 'key', must be text, integers or bytes"),
        ({"key": "k", "offset": 1.5}, "its field 'offset', must be integers"),
    ):
        with pytest.raises(BadTable, match=what):
            rows.check_operations(with_column(GOOD, "requires", pa.array([[item], [item]])))


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(ITEM),
        pa.large_list(ITEM),
        pa.list_view(ITEM),
        pa.list_(pa.struct([("offset", pa.int16()), ("key", pa.large_string()), ("z", pa.int8())])),
        pa.list_(pa.struct([("key", pa.string_view()), ("offset", pa.decimal128(38, 0))])),
    ],
    ids=str,
)
def test_every_kind_of_list_will_do(kind: pa.DataType) -> None:
    values = [None, [], *GOOD["requires"].to_pylist()]
    table = pa.table(
        {
            "id": list("abcd"),
            "submitted_ms": [0] * 4,
            "timeout_ms": [0] * 4,
            "requires": pa.array(values, kind),
        }
    )
    for given in (table, table.slice(1, 3), table.to_batches(max_chunksize=1)):
        clean = rows.check_operations(given)
        assert clean.starts.tolist() == [0, 2, 3]
        assert text_of(clean.keys) == ["k", "m", "n"]
        assert clean.offsets.tolist() == [1, 2, 3]
        assert clean.needed.tolist() == [2, 1]
        assert set(clean.rejected["reason"].to_pylist()) == {"requires is null or empty"}


def test_a_list_of_fixed_size_will_do() -> None:
    fixed = pa.array([[{"key": "k", "offset": 1}], None], pa.list_(ITEM, 1))
    clean = rows.check_operations(with_column(GOOD, "requires", fixed))
    assert text_of(clean.keys) == ["k"]
    assert len(clean.rejected) == 1


def test_columns_that_are_null_throughout_need_no_type() -> None:
    """As Arrow infers it from Python values."""
    for name in ("id", "submitted_ms", "timeout_ms", "requires"):
        clean = rows.check_operations(with_column(GOOD, name, pa.nulls(2)))
        assert len(clean) == 0
        assert len(clean.rejected) == 2
    for requires, reason in (
        ([[], []], "requires is null or empty"),
        ([[None], [None, None]], "a required key is null"),
    ):
        clean = rows.check_operations(with_column(GOOD, "requires", pa.array(requires)))
        assert clean.rejected["reason"].to_pylist() == [reason] * 2
    assert rows.check_operations(GOOD.append_column("needed", pa.nulls(2))).needed.tolist() == [
        2,
        1,
    ]


def test_a_slice_of_a_table_is_only_the_slice() -> None:
    clean = rows.check_operations(GOOD.slice(1))
    assert text_of(clean.ids) == ["b"]
    assert text_of(clean.keys) == ["n"]
    assert clean.numbers.tolist() == [0]


def test_the_row_of_a_rejected_one_is_json_whatever_is_in_it() -> None:
    odd = pa.table(
        {
            "id": [None],
            "at_ms": [1],
            "price": [Decimal("1.50")],
            "day": pa.array([0], pa.date32()),
            "blob": [b"\xff"],
            "nan": [float("nan")],
            "text": ["\U0001f600"],
            "broken": pa.array([b"\xff"]).view(pa.binary()).cast(pa.string(), safe=False),
            "view": pa.array(["v"], pa.string_view()),
        }
    )
    (text,) = rows.check_cancels(odd).rejected["row"].to_pylist()
    assert "\U0001f600" in text
    row = json.loads(text)
    assert row["price"] == "1.50"
    assert row["day"] == "1970-01-01"
    assert row["nan"] == "nan"
    assert row["view"] == "v"
    assert row["blob"] == "0xff"
    assert row["broken"] == str(b"\xff")


def test_of_equal_ids_the_earliest_stays_and_among_equals_the_first() -> None:
    ids = pa.array(["a", "b", "a", "c", "b", "a", "é" * 20, "é" * 20])
    first = rows.first_of_duplicates(ids, np.array([5, 1, 3, 1, 1, 3, 2, 1]))
    assert first.tolist() == [False, True, True, True, False, False, False, True]
    assert rows.first_of_duplicates(pa.array([], pa.string()), np.array([], np.int64)).size == 0


LEAST, MOST = -(2**63), 2**63 - 1


def operation(**columns: Any) -> pa.Table:
    """Return one operation with two requirements, and these columns in place of its own."""
    requires = pa.array([[{"key": "k", "offset": 1}, {"key": "m", "offset": 2}]], pa.list_(ITEM))
    own: dict[str, Any] = {"id": ["a"], "submitted_ms": [1], "timeout_ms": [3]}
    own = {**own, "requires": requires, **{name: [value] for name, value in columns.items()}}
    if "deadline_ms" in columns:
        del own["timeout_ms"]
    return pa.table(own)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"id": None}, "id is null"),
        ({"submitted_ms": None}, "submitted_ms is null"),
        ({"submitted_ms": "noon"}, "submitted_ms is not a time"),
        ({"timeout_ms": "5 moons"}, "timeout_ms is not a duration"),
        ({"timeout_ms": -1}, "timeout_ms is negative"),
        ({"timeout_ms": LEAST}, "timeout_ms is negative"),
        ({"timeout_ms": 0}, None),
        ({"requires": []}, "requires is null or empty"),
        ({"requires": "5"}, "requires is not a list of objects"),
        ({"requires": [{"key": None, "offset": 1}] * 2}, "a required key is null"),
        ({"requires": [{"key": "k", "offset": None}]}, "a required offset is null"),
        (
            {"requires": [{"key": "k", "offset": "1"}, {"key": "k", "offset": "x"}]},
            "a required offset is not an integer",
        ),
        (
            {"requires": [{"key": "k", "offset": str(2**63)}]},
            "a required offset is outside 64 bits",
        ),
        ({"needed": "two"}, "needed is not an integer"),
        ({"needed": -1}, "needed is below 1"),
        ({"needed": 0}, "needed is below 1"),
        ({"needed": 1}, None),
        ({"needed": 2}, None),
        ({"needed": None}, None),
        ({"needed": 3}, "needed is above the number of requirements"),
        ({"submitted_ms": MOST, "timeout_ms": 0}, None),
        ({"submitted_ms": MOST - 5, "timeout_ms": 5}, None),
        ({"submitted_ms": MOST - 5, "timeout_ms": 6}, rows.DEADLINE_OUTSIDE),
        ({"submitted_ms": LEAST, "timeout_ms": MOST}, None),
        ({"deadline_ms": None}, "deadline_ms is null"),
        ({"deadline_ms": 0}, "the deadline is before the submission"),
        ({"deadline_ms": 1}, None),
        ({"submitted_ms": -1, "deadline_ms": MOST}, rows.DEADLINE_TOO_FAR),
        ({"submitted_ms": 0, "deadline_ms": MOST}, None),
        ({"submitted_ms": LEAST, "deadline_ms": MOST}, rows.DEADLINE_TOO_FAR),
    ],
)
def test_an_operation_that_means_nothing_is_rejected_with_the_reason(
    columns: dict[str, Any], reason: str | None
) -> None:
    clean = rows.check_operations(operation(**columns))
    assert clean.rejected["reason"].to_pylist() == ([] if reason is None else [reason])
    assert len(clean) == (reason is None)


def test_of_several_reasons_the_first_is_told() -> None:
    columns = {"id": None, "submitted_ms": "noon", "timeout_ms": -1, "needed": 0}
    table = pa.concat_tables([operation(**(columns | {"id": id})) for id in ("a", "b")])
    clean = rows.check_operations(table)
    assert clean.rejected["reason"].to_pylist() == ["submitted_ms is not a time"] * 2


def test_without_a_timeout_or_a_deadline_the_timeout_is_missing() -> None:
    with pytest.raises(BadTable, match="there is no column 'timeout_ms'"):
        rows.check_operations(GOOD.drop_columns("timeout_ms"))


def test_events_are_counted_cut_at_a_time_and_given_in_their_schema() -> None:
    table = pa.table({"key": ["a", None, "c"], "offset": [1, 2, 3], "at_ms": [4, 5, 6]})
    clean = rows.check_signals(table)
    assert (len(clean), clean.numbers.tolist()) == (2, [0, 2])
    assert len(clean.until(None)) == 2
    assert clean.until(6).at_ms.tolist() == [4, 6]
    assert clean.until(5).at_ms.tolist() == [4]
    assert clean.until(4).batch(rows.TABLES[rows.SIGNALS]).to_pylist() == [
        {"key": "a", "offset": 1, "at_ms": 4}
    ]
    cancels = rows.check_cancels(pa.table({"id": ["a", None], "at_ms": [4, 5]}))
    assert cancels.batch(rows.TABLES[rows.CANCELS]).to_pylist() == [{"id": "a", "at_ms": 4}]
    assert cancels.rejected["reason"].to_pylist() == ["id is null"]


def test_operations_can_be_given_as_they_came() -> None:
    clean = rows.check_operations(GOOD)
    assert clean.table().select(GOOD.column_names).to_pylist() == GOOD.to_pylist()
    assert clean.table(None).to_pylist() == clean.table().to_pylist()
    assert clean.table().column("needed").to_pylist() == [2, 1]
    tags = np.array([7, 8])
    submitted = clean.submissions(tags).to_pylist()
    assert [(row["deadline_ms"], row["payload"]) for row in submitted] == [(4, None), (6, None)]
    payload = pa.array([b"x", b"y"])
    assert clean.submissions(tags, payload).column("payload").equals(payload)


def test_the_row_of_a_rejected_one_has_numbers_where_numbers_belong() -> None:
    """Though CSV and JSON may have them as text; ids and keys stay what they are."""
    table = pa.table(
        {
            "id": ["7"],
            "submitted_ms": ["8"],
            "timeout_ms": ["-9"],
            "needed": ["soon"],
            "requires": [[{"key": "10", "offset": "11"}, None]],
        }
    )
    (text,) = rows.check_operations(table).rejected["row"].to_pylist()
    assert json.loads(text) == {
        "id": "7",
        "submitted_ms": 8,
        "timeout_ms": -9,
        "needed": "soon",
        "requires": [{"key": "10", "offset": 11}, None],
    }


def test_the_row_of_a_rejected_one_tells_times_in_one_form() -> None:
    table = pa.table(
        {
            "id": pa.nulls(1, pa.string()),
            "at_ms": [5],
            "fine": pa.array([1_500_000_001], pa.timestamp("ns")),
            "zoned": pa.array([1_500_000], pa.timestamp("us", "Asia/Tokyo")),
            "beyond": pa.array([2**62], pa.timestamp("s")),
            "whole": pa.array([Decimal("5.00")]),
            "ratio": [1.5],
            "nested": [[{"x": b"y"}]],
            "yes": [True],
        }
    )
    (text,) = rows.check_cancels(table).rejected["row"].to_pylist()
    assert json.loads(text) == {
        "id": None,
        "at_ms": 5,
        "fine": "1970-01-01T00:00:01.500000",
        "zoned": "1970-01-01T00:00:01.500000+00:00",
        "beyond": 2**62,
        "whole": 5,
        "ratio": 1.5,
        "nested": [{"x": "y"}],
        "yes": True,
    }


def test_rows_that_could_not_be_read_have_their_own_reason_if_one_is_known() -> None:
    lines = ["{", None, "[", None]
    reasons = ["it is cut", "not asked for", None, None]
    table = pa.table({"id": ["a", "b", "c", None], "at_ms": [1, 2, 3, 4]})
    table = table.append_column("_corrupt_record", pa.array(lines))
    for known, expected in (
        (False, [rows.BROKEN, rows.BROKEN, "id is null"]),
        (True, ["it is cut", rows.BROKEN, "id is null"]),
    ):
        if known:
            table = table.append_column("_corrupt_reason", pa.array(reasons))
        clean = rows.check_cancels(table)
        assert text_of(clean.names) == ["b"]
        assert clean.rejected["reason"].to_pylist() == expected
        assert clean.rejected["row"].to_pylist() == ["{", "[", '{"id": null, "at_ms": 4}']
