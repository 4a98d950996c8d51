"""The stages of a stream, without Spark: one answer whatever crashes, late rows, quiet, extras."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from sojourn.errors import UnitWarning
from tests.rows import oracle
from tests.rows.traces import Trace, random_trace
from tests.spark.stream_harness import Row, Stream
from tests.spark.stream_traces import arrivals
from tests.test_one_answer import differs

OPERATIONS = pa.schema(
    [
        ("id", pa.string()),
        ("submitted_ms", pa.int64()),
        ("timeout_ms", pa.int64()),
        ("requires", pa.list_(pa.struct([("key", pa.string()), ("offset", pa.int64())]))),
        ("needed", pa.int32()),
        ("shop", pa.string()),
    ]
)
SIGNALS = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())])
LATE = "late: its time is at or before the time already reached"
CANCELS = pa.schema([("id", pa.string()), ("at_ms", pa.int64())])


def operations(*rows: Row) -> dict[str, pa.Table]:
    standard = {"requires": [{"key": "k", "offset": 1}], "needed": None, "shop": None}
    return {"operations": pa.Table.from_pylist([standard | row for row in rows], OPERATIONS)}


def operation(id: str, submitted_ms: int, timeout_ms: int, **more: Any) -> dict[str, pa.Table]:
    row = {"id": id, "submitted_ms": submitted_ms, "timeout_ms": timeout_ms}
    return operations(row | more)


def signal(at_ms: int, key: str = "k", offset: int = 1) -> dict[str, pa.Table]:
    row = {"key": key, "offset": offset, "at_ms": at_ms}
    return {"signals": pa.Table.from_pylist([row], SIGNALS)}


def cancel(id: str, at_ms: int) -> dict[str, pa.Table]:
    return {"cancels": pa.Table.from_pylist([{"id": id, "at_ms": at_ms}], CANCELS)}


def ended(rows: list[Row]) -> list[tuple[str, str, int]]:
    return [(r["id"], r["status"], r["at_ms"]) for r in rows if r["status"] != "rejected"]


def rejected(rows: list[Row]) -> list[tuple[str, str, Row]]:
    return [
        (r["table"], r["reason"], json.loads(r["row"])) for r in rows if r["status"] == "rejected"
    ]


def streamed(trace: Trace, seed: int, crashes: bool) -> tuple[list[Row], Stream]:
    stream = Stream(
        trace.tables()[0].schema, seed=seed, shards=1 + seed % 5, delay_ms=150, snapshot_every=2
    )
    for n, batch in enumerate(arrivals(trace, 8, 150, seed)):
        halves = {
            name: [table.slice(0, len(table) // 2), table.slice(len(table) // 2)]
            for name, table in batch.items()
        }
        stream.run(halves, crashes=(seed + n) % 3 if crashes else 0)
        if n % 3 == 2 and crashes:
            stream.restart()
    return stream.out, stream


@pytest.mark.parametrize("crashes", [False, True], ids=["smooth", "crashing"])
def test_the_stages_give_the_answer_of_the_oracle(crashes: bool) -> None:
    for seed in range(4):
        trace = random_trace(seed, 300, extremes=False, ties_by_arrival=False, until=False)
        rows, _ = streamed(trace, seed, crashes)
        expected = oracle.resolve(trace.operations, trace.signals, trace.cancels)
        told = ("table", "reason", "row")
        outcomes = [
            {k: v for k, v in row.items() if k not in told}
            for row in rows
            if row["status"] != "rejected"
        ]
        found = oracle.Answer(outcomes, [], rejected(rows))
        difference = differs(trace, expected, found, tells_condition=False)
        assert difference is None, f"seed {seed}, crashes {crashes}\n{difference}"


def test_a_row_at_the_time_already_reached_is_late_and_one_after_it_is_not() -> None:
    stream = Stream(OPERATIONS, delay_ms=100)
    stream.run(signal(1100, "other"))
    rows = stream.run(
        operation("late", 1000, 50, shop="x") | signal(1000) | cancel("in time", 1000)
    )
    as_it_came = {
        "id": "late",
        "submitted_ms": 1000,
        "timeout_ms": 50,
        "requires": [{"key": "k", "offset": 1}],
        "needed": None,
        "shop": "x",
    }
    assert sorted(rejected(rows), key=str) == [
        ("cancels", LATE, {"id": "in time", "at_ms": 1000}),
        ("operations", LATE, as_it_came),
        ("signals", LATE, {"key": "k", "offset": 1, "at_ms": 1000}),
    ]
    rows = stream.run(operation("in time", 1001, 50) | signal(1001) | cancel("late", 1001))
    assert not rejected(rows)
    assert ended(stream.run(signal(9000, "other"))) == [("in time", "completed", 1001)]


def test_late_rows_change_nothing() -> None:
    stream = Stream(OPERATIONS, delay_ms=100)
    stream.run(operation("a", 1000, 500))
    stream.run(signal(1400, "other"))
    rows = stream.run(signal(1200) | operation("a", 900, 10))
    assert {reason for _, reason, _ in rejected(rows)} == {LATE}
    assert ended(stream.run(signal(9000, "other"))) == [("a", "expired", 1500)]


def test_quiet_sources_let_the_wall_clock_end_operations() -> None:
    stream = Stream(OPERATIONS, delay_ms=100, idle="wall")
    stream.run(operation("a", 1000, 30) | signal(1050, "other"), wall_ms=50_000)
    # Time stands at 950 and the wall clock takes over when nothing has come for 100 ms.
    assert not stream.run({}, wall_ms=50_100, beats=True)
    assert not stream.run({}, wall_ms=50_179, beats=True)  # 1029
    assert ended(stream.run({}, wall_ms=50_180, beats=True)) == [("a", "expired", 1030)]


def test_with_events_alone_a_quiet_source_ends_nothing() -> None:
    stream = Stream(OPERATIONS, delay_ms=100, idle="event")
    stream.run(operation("a", 1000, 30) | signal(1050, "other"), wall_ms=50_000)
    assert not stream.run({}, wall_ms=10**9)


def test_rows_that_waited_while_the_stream_was_down_are_not_late() -> None:
    stream = Stream(OPERATIONS, delay_ms=100, idle="wall")
    stream.run(operation("a", 1000, 500), wall_ms=50_000)
    stream.restart()
    an_hour_later_ms = 50_000 + 3_600_000
    rows = stream.run(signal(1200), wall_ms=an_hour_later_ms, beats=True)
    assert not rows
    rows = stream.run(signal(2000, "other"), wall_ms=an_hour_later_ms + 1, beats=True)
    assert ended(rows) == [("a", "completed", 1200)]


def test_time_that_ran_with_the_wall_does_not_go_back() -> None:
    stream = Stream(OPERATIONS, delay_ms=100, idle="wall")
    stream.run(signal(1100, "other"), wall_ms=0)
    stream.run({}, wall_ms=400, beats=True)  # 1000, and 300 on the wall
    rows = stream.run(signal(1300) | operation("b", 1301, 10), wall_ms=500, beats=True)
    assert [(table, reason) for table, reason, _ in rejected(rows)] == [("signals", LATE)]
    stream.run({}, wall_ms=100, beats=True)  # a wall clock that was set back
    assert not rejected(stream.run(operation("c", 1302, 10), wall_ms=101, beats=True))


def test_a_row_from_the_future_is_rejected_and_spoils_nothing_but_itself() -> None:
    stream = Stream(OPERATIONS, delay_ms=100, idle="wall", ahead_ms=500)
    now_ms = 1_700_000_000_000
    microseconds = now_ms * 1000
    stream.run(operation("a", now_ms, 300) | signal(now_ms, "other"), wall_ms=now_ms)
    bad = operation("b", microseconds, 50) | signal(now_ms + 521) | cancel("a", now_ms + 521)
    with pytest.warns(UnitWarning, match="looks like microseconds"):
        rows = stream.run(bad, wall_ms=now_ms + 20)
    why = "from the future: its time is more than 500 ms after it arrived"
    assert sorted((table, reason) for table, reason, _ in rejected(rows)) == [
        ("cancels", why),
        ("operations", why),
        ("signals", why),
    ]
    assert next(row for table, _, row in rejected(rows) if table == "operations")["id"] == "b"
    assert stream.held["time_ms"] is None  # as cancels have not come, and not been idle for long
    rows = stream.run(signal(now_ms + 130) | cancel("x", now_ms + 520), wall_ms=now_ms + 20)
    assert not rejected(rows)  # 500 ms ahead is allowed
    assert stream.held["time_ms"] == now_ms - 100
    rows = stream.run(operation("c", now_ms + 900, 5) | signal(now_ms + 900), now_ms + 900)
    assert ended(rows) == [("a", "completed", now_ms + 130)]


def test_one_source_s_backlog_makes_nobody_late() -> None:
    stream = Stream(OPERATIONS, delay_ms=100, idle="wall", sources=("operations", "signals"))
    for n in range(5):
        # Signals are read as they come, operations an hour behind.
        rows = operation(f"a{n}", 1000 * n, 400) | signal(3_600_000 + 1000 * n, "other")
        assert not rejected(stream.run(rows, wall_ms=4_000_000 + 10 * n))
    assert ended(stream.out) == [(f"a{n}", "expired", 1000 * n + 400) for n in range(4)]


def test_what_is_held_is_reported_with_every_batch() -> None:
    stream = Stream(OPERATIONS, delay_ms=100, remember_ms=500, shards=3)
    several = [{"id": n, "submitted_ms": 1000, "timeout_ms": 50} for n in ("a", "b", "c")]
    stream.run(operations(*several) | signal(1010, "other", 5))
    assert stream.held == {"keys": 2, "ids": 3, "operations": 3, "time_ms": 910}
    stream.run(cancel("x", 1200))  # its operation may come yet
    assert stream.held == {"keys": 1, "ids": 4, "operations": 0, "time_ms": 1100}
    stream.run(cancel("y", 3000))
    assert stream.held == {"keys": 0, "ids": 1, "operations": 0, "time_ms": 2900}


def test_a_key_without_news_or_anybody_waiting_is_forgotten() -> None:
    stream = Stream(OPERATIONS, delay_ms=10, forget_keys_after_ms=1000)
    stream.run(signal(1000))
    stream.run(operation("kept", 2000, 5))  # 1000 ms later, it is still known
    stream.run(signal(2900, "other"))
    stream.run(operation("waits", 3000, 4000, requires=[{"key": "k", "offset": 2}]))
    stream.run(signal(7900, "other"))  # that long somebody waited for it: until 7000
    stream.run(operation("kept too", 8000, 5))
    stream.run(operation("forgotten", 9001, 5))
    stream.run(signal(20_000, "other"))
    assert ended(stream.out) == [
        ("kept", "completed", 2000),
        ("waits", "expired", 7000),
        ("kept too", "completed", 8000),
        ("forgotten", "expired", 9006),
    ]
    assert stream.held["keys"] == 1


def test_when_keys_are_swept_out_makes_no_difference() -> None:
    answers = set()
    for gaps in ((), (1500,), (1500, 2100, 2400)):
        stream = Stream(OPERATIONS, delay_ms=10, forget_keys_after_ms=1000, shards=1)
        stream.run(signal(1000))
        for at_ms in gaps:  # batches in which old keys may be swept out
            stream.run(signal(at_ms, "other"))
        stream.run(signal(2500, offset=0))  # k had reached 1, too long ago
        stream.run(operation("a", 2510, 50))
        stream.run(signal(9000, "other"))
        answers.add(tuple(ended(stream.out)))
    assert answers == {(("a", "expired", 2560),)}


def test_shards_without_rows_forget_as_well() -> None:
    stream = Stream(OPERATIONS, delay_ms=10, remember_ms=1000, shards=8)
    ids = [{"id": str(n), "submitted_ms": 1000, "timeout_ms": 5} for n in range(50)]
    required = [{"requires": [{"key": f"k{n}", "offset": 1}]} for n in range(50)]
    both = zip(ids, required, strict=True)
    stream.run(operations(*(one | other for one, other in both)))
    fifty = [{"key": f"k{n}", "offset": 1, "at_ms": 1001} for n in range(50)]
    stream.run({"signals": pa.Table.from_pylist(fifty, SIGNALS)})
    assert (stream.held["keys"], stream.held["ids"]) == (50, 50)
    for at_ms in (2000, 2100, 2500, 2600, 3000):
        stream.run(signal(at_ms, "other"))
    assert stream.held == {"keys": 1, "ids": 0, "operations": 0, "time_ms": 2990}


def test_a_batch_that_runs_again_gives_the_same_rows() -> None:
    once, again = (Stream(OPERATIONS, seed=3, delay_ms=100, idle="wall") for _ in range(2))
    batches = [
        (operation("a", 1000, 30) | signal(1050, "other"), 50_000),
        (signal(1020), 50_090),
        ({}, 50_300),
        (operation("b", 1400, 10, requires=[{"key": "k", "offset": 2}]), 50_301),
        ({}, 50_800),
    ]
    for tables, wall_ms in batches:
        rows = once.run(tables, wall_ms, beats=True)
        assert rows == again.run(tables, wall_ms, crashes=5, beats=True)
    assert ended(once.out) == [("a", "completed", 1020), ("b", "expired", 1410)]


def test_a_second_operation_under_an_id_is_rejected_as_it_came() -> None:
    stream = Stream(OPERATIONS, delay_ms=100, remember_ms=1000)
    stream.run(operation("a", 1000, 30))
    rows = stream.run(operation("a", 1005, 99, needed=1, shop="ü"))
    assert rejected(rows) == [
        (
            "operations",
            "id is a duplicate of an earlier operation",
            {
                "id": "a",
                "submitted_ms": 1005,
                "timeout_ms": 99,
                "requires": [{"key": "k", "offset": 1}],
                "needed": 1,
                "shop": "ü",
            },
        )
    ]


def test_times_before_1970_and_small_ones_are_as_good_as_any() -> None:
    stream = Stream(OPERATIONS, delay_ms=100)
    stream.run(operation("a", -5000, 30))
    assert ended(stream.run(signal(-4000, "other"))) == [("a", "expired", -4970)]


def test_counts_add_up() -> None:
    trace = random_trace(5, 400, extremes=False, ties_by_arrival=False, until=False)
    rows, _ = streamed(trace, 5, crashes=True)
    status = Counter(row["status"] for row in rows)
    told = Counter(row["table"] for row in rows)
    assert status["completed"] + status["expired"] + status["cancelled"] == told[None]
    assert told[None] + told["operations"] == len(trace.operations)


def test_every_way_to_an_engine_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caches hold, fall behind and go astray in these tests, or they would test nothing."""
    from sojourn.spark.ledger import Ledger

    ways: Counter[str] = Counter()
    found = Ledger.obtained

    def counting(self: Ledger, *args: Any) -> Any:
        way, *rest = found(self, *args)
        ways[way] += 1
        return way, *rest

    monkeypatch.setattr(Ledger, "obtained", counting)
    trace = random_trace(7, 400, extremes=False, ties_by_arrival=False, until=False)
    for seed in range(3):
        streamed(trace, seed, crashes=True)
    assert min(ways[way] for way in ("new", "cached", "behind", "rebuilt")) >= 3
