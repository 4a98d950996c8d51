"""An orders table and an events table as people have them become our three, on both engines."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sojourn import replay
from sojourn.errors import BadTable, SojournError
from sojourn.replay.columns import Columns, cancel_columns, operation_columns, signal_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
NOON_MS = 1_767_614_400_000

ORDERS = pa.table(
    {
        "order_id": pa.array([17, 18, 19, None]),
        "created_at": pa.array([NOON, NOON, NOON, NOON]),
        "due_at": pa.array([NOON + 30 * MINUTE, NOON + 10 * MINUTE, None, NOON]),
        "limit_s": pa.array([1800, 600, 60, 60]),
        "state": pa.array(["open", "open", "draft", "open"]),
        "status": pa.array(["a", "b", "c", "d"]),
        "token": pa.array([b"\xff\x01", b"text", None, b""]),
        "with a.dot": pa.array([True, False, None, True]),
    }
)
EVENTS = pa.table(
    {
        "order_id": pa.array([17, 18, 18, 19, None]),
        "type": pa.array(["paid", "packed", "cancelled", "paid", "paid"]),
        "happened_at": pa.array([NOON + n * MINUTE for n in (12, 3, 5, 1, 2)]),
    }
)

Apply = Callable[[Columns, pa.Table], pa.Table]


def in_process(columns: Columns, table: pa.Table) -> pa.Table:
    return columns.apply(table)


@pytest.fixture(params=["in process", "on spark"])
def apply(request: pytest.FixtureRequest) -> Apply:
    if request.param == "in process":
        return in_process
    spark: SparkSession = request.getfixturevalue("spark")
    from sojourn.spark.columns import apply_columns

    def on_spark(columns: Columns, table: pa.Table) -> pa.Table:
        # One partition, so that rows come in their order.
        return apply_columns(columns, spark.createDataFrame(table).coalesce(1)).toArrow()

    return on_spark


def test_orders_become_operations(apply: Apply) -> None:
    columns = operation_columns(
        id="order_id",
        submitted_ms="created_at",
        timeout="30min",
        requires=["paid/{order_id}", ("packed/{order_id}/{token}", 3)],
        needed=1,
        order_status="status",
        where={"state": "open"},
    )
    table = apply(columns, ORDERS)
    assert table.column_names == [
        *("id", "submitted_ms", "needed", "order_status", "timeout_ms", "requires"),
        *("due_at", "limit_s", "state", "token", "with a.dot"),
    ]
    assert table["requires"].to_pylist() == [
        [{"key": "paid/17", "offset": 1}, {"key": "packed/17/0xff01", "offset": 3}],
        [{"key": "paid/18", "offset": 1}, {"key": "packed/18/text", "offset": 3}],
        [{"key": None, "offset": 1}, {"key": None, "offset": 3}],
    ]
    clean = replay.rows.check_operations(table)
    assert clean.ids.to_pylist() == ["17", "18"]
    assert clean.timeout_ms.tolist() == [1_800_000] * 2
    assert clean.submitted_ms.tolist() == [NOON_MS] * 2
    assert clean.rejected["reason"].to_pylist() == ["id is null"]


@pytest.mark.parametrize(
    ("how", "timeouts"),
    [
        ({"deadline_ms": "due_at"}, [1_800_000, 600_000]),
        ({"timeout_s": "limit_s"}, [1_800_000, 600_000, 60_000]),
        ({"timeout": datetime.timedelta(seconds=9)}, [9_000] * 3),
        ({"timeout": 7}, [7] * 3),
    ],
    ids=["deadline", "seconds", "timedelta", "milliseconds"],
)
def test_a_timeout_comes_from_a_column_a_deadline_or_one_for_all(
    apply: Apply, how: dict[str, Any], timeouts: list[int]
) -> None:
    columns = operation_columns(
        id="order_id", submitted_ms="created_at", requires="k", keep=["state"], **how
    )
    table = apply(columns, ORDERS)
    assert replay.rows.extra_names(table.column_names) == ["state"]
    assert replay.rows.check_operations(table).timeout_ms.tolist() == timeouts


def test_events_become_signals_and_cancels(apply: Apply) -> None:
    paid = signal_columns(
        key="{type}/{order_id}", at_ms="happened_at", where={"type": ["paid", "packed"]}
    )
    table = apply(paid, EVENTS)
    assert table["key"].to_pylist() == ["paid/17", "packed/18", "paid/19", None]
    assert table["offset"].to_pylist() == [1] * 4
    assert "happened_at" not in table.column_names
    off = cancel_columns(id="order_id", at_ms="happened_at", where={"type": "cancelled"})
    (row,) = apply(off, EVENTS).to_pylist()
    assert row["id"] == 18
    not_null = signal_columns(key="{order_id}", at_ms="due_at", where={"due_at": None})
    assert len(apply(not_null, ORDERS)) == 3
    numbers = signal_columns(key="k", at_ms="happened_at", where={"order_id": [17, 18]})
    with pytest.raises(BadTable, match="there is no column 'k' for key"):
        apply(numbers, EVENTS)
    flags = signal_columns(key="{order_id}", at_ms="due_at", where={"with a.dot": True})
    assert apply(flags, ORDERS)["key"].to_pylist() == ["17", None]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (signal_columns(key="{kind}/{order_id}", at_ms="happened_at"), "no column 'kind'"),
        (signal_columns(key="paid/{order_id", at_ms="happened_at"), "is no template"),
        (
            signal_columns(key="paid/{order_id!r}", at_ms="happened_at"),
            "nothing else in the braces",
        ),
        (signal_columns(key="{happened_at}", at_ms="happened_at"), "'happened_at' must be text"),
        (signal_columns(key="{type}", at_ms="at"), "there is no column 'at' for at_ms, only"),
        (signal_columns(key="{type}", where={"kind": "x"}), "there is no column 'kind' for where"),
    ],
    ids=["column", "brace", "conversion", "type", "plain", "where"],
)
def test_what_cannot_be_is_told_alike_on_both_engines(
    apply: Apply, columns: Columns, said: str
) -> None:
    with pytest.raises(SojournError, match=said):
        apply(columns, EVENTS)


def test_a_mapped_column_takes_the_place_of_one_of_that_name(apply: Apply) -> None:
    table = pa.table({"id": ["row-1"], "order": ["o"], "at_ms": [1], "when_s": [2], "at_s": [9]})
    found = apply(cancel_columns(id="order", at_s="when_s"), table)
    assert found.to_pylist() == [{"id": "o", "at_s": 2}]


@pytest.mark.parametrize("how", [{"at": "x"}, {"key": 1.5}, {"key": True}, {"id": "x"}])
def test_what_signals_do_not_have_is_refused(how: dict[str, Any]) -> None:
    with pytest.raises(SojournError, match="signals"):
        signal_columns(**how)


def test_a_timeout_that_is_no_duration_is_refused() -> None:
    with pytest.raises(SojournError, match="for a column write timeout_ms='its name'"):
        operation_columns(timeout="limit")


def test_the_answer_of_tables_as_they_are() -> None:
    answer = replay.resolve(
        replay.as_operations(
            ORDERS, id="order_id", submitted_ms="created_at", timeout="30min",
            requires=["paid/{order_id}"], keep=["state"], where={"order_id": None},
        ),
        replay.as_signals(EVENTS, key="{type}/{order_id}", at_ms="happened_at",
                          where={"order_id": None}),
        replay.as_cancels(EVENTS, id="order_id", at_ms="happened_at", where={"type": "cancelled"}),
    )  # fmt: skip
    ended = {row["id"]: (row["status"], row["waited_ms"]) for row in answer.outcomes.to_pylist()}
    assert ended == {
        "17": ("completed", 720_000),
        "18": ("cancelled", 300_000),
        "19": ("completed", 60_000),
    }
    assert len(answer.rejected) == 0
