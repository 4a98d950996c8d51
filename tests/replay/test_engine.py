"""The incremental engine: what it takes, what it gives, what it keeps and what it lets go of."""

from __future__ import annotations

import struct
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from sojourn.errors import BadTable, OutOfRange, SojournError, WrongType
from sojourn.replay import Engine, resolve
from sojourn.replay.journal import BadSnapshot
from sojourn.replay.progress import Progress
from sojourn.replay.schemas import REQUIREMENTS, SIGNALS, SUBMISSIONS
from sojourn.replay.waiting import Waiting

Row = dict[str, Any]
LATE = "late: its time is at or before the time already reached"
DUPLICATE = "id is a duplicate of an earlier operation"


def operations(*rows: tuple[str, int, int, list[tuple[str, int]]], **columns: Any) -> pa.Table:
    ids, submitted_ms, timeout_ms, requires = zip(*rows, strict=True)
    items = [[{"key": key, "offset": offset} for key, offset in needs] for needs in requires]
    own = {"id": ids, "submitted_ms": submitted_ms, "timeout_ms": timeout_ms, "requires": items}
    return pa.table({**own, **columns})


def signals(*rows: tuple[str, int, int]) -> pa.Table:
    names = ("key", "offset", "at_ms")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def cancels(*rows: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": id, "at_ms": at_ms} for id, at_ms in rows])


def brief(outcomes: pa.Table) -> list[tuple[str, str, int, str | None]]:
    return [(r["id"], r["status"], r["at_ms"], r["by_key"]) for r in outcomes.to_pylist()]


# What comes out, and when.


def test_an_operation_ends_when_time_reaches_its_end_and_not_before() -> None:
    engine = Engine()
    engine.submit(operations(("a", 10, 50, [("k", 1)])))
    engine.signal(signals(("k", 1, 30)))
    assert brief(engine.advance(29).outcomes) == []
    assert len(engine) == 1
    assert brief(engine.advance(30).outcomes) == [("a", "completed", 30, "k")]
    assert len(engine) == 0


def test_an_earlier_signal_that_arrives_later_betters_the_end() -> None:
    engine = Engine()
    engine.submit(operations(("a", 10, 50, [("k", 1)])))
    engine.signal(signals(("k", 5, 40)))
    engine.advance(20)
    engine.signal(signals(("k", 1, 25)))
    assert brief(engine.advance(100).outcomes) == [("a", "completed", 25, "k")]


def test_a_cancel_may_come_before_its_operation() -> None:
    engine = Engine()
    engine.cancel(cancels(("a", 20), ("a", 5)))
    engine.advance(9)
    engine.submit(operations(("a", 10, 50, [("k", 1)])))
    assert brief(engine.advance(100).outcomes) == [("a", "cancelled", 20, None)]


def test_outcomes_come_in_the_order_of_time_with_the_columns_of_the_user() -> None:
    engine = Engine()
    engine.submit(
        operations(
            ("a", 0, 30, [("k", 1)]),
            ("b", 0, 10, [("k", 1)]),
            ("c", 0, 20, [("k", 1)]),
            kind=["slow", None, "fast"],
            more=[{"x": 1}, {"x": 2}, None],
        )
    )
    outcomes = engine.advance(100).outcomes
    assert outcomes.column_names == [
        *("id", "status", "at_ms", "by_key", "waited_ms", "submitted_ms", "timeout_ms"),
        *("kind", "more"),
    ]
    assert outcomes.select(["id", "waited_ms", "kind", "more"]).to_pylist() == [
        {"id": "b", "waited_ms": 10, "kind": None, "more": {"x": 2}},
        {"id": "c", "waited_ms": 20, "kind": "fast", "more": None},
        {"id": "a", "waited_ms": 30, "kind": "slow", "more": {"x": 1}},
    ]


def test_columns_of_the_user_may_differ_from_table_to_table() -> None:
    engine = Engine()
    engine.submit(operations(("a", 0, 10, [("k", 1)]), kind=["slow"]))
    engine.submit(operations(("b", 0, 20, [("k", 1)]), weight=[7]))
    rows = engine.advance(50).outcomes.select(["id", "kind", "weight"]).to_pylist()
    assert rows == [
        {"id": "a", "kind": "slow", "weight": None},
        {"id": "b", "kind": None, "weight": 7},
    ]


def test_pending_tells_what_waits_in_the_order_it_came_in() -> None:
    engine = Engine()
    engine.submit(operations(("z", 5, 100, [("k", 1)]), ("y", 5, 1, [("k", 1)]), kind=["s", "t"]))
    engine.submit(operations(("x", 7, 100, [("k", 1)]), kind=["u"]))
    engine.advance(6)
    waiting = engine.pending()
    assert waiting.drop_columns(["requires", "needed"]).to_pylist() == [
        {"id": "z", "submitted_ms": 5, "timeout_ms": 100, "kind": "s"},
        {"id": "x", "submitted_ms": 7, "timeout_ms": 100, "kind": "u"},
    ]
    assert waiting["requires"].to_pylist() == [[{"key": "k", "offset": 1}]] * 2
    assert len(Engine().pending()) == 0


@pytest.mark.parametrize("name", ["remember_ms", "forget_keys_after_ms"])
@pytest.mark.parametrize("value", [-1, 2**63, "5", 1.5, True, []])
def test_options_that_make_no_sense_are_refused(name: str, value: Any) -> None:
    with pytest.raises(SojournError, match=f"{name} must be"):
        Engine(**{name: value})


def test_next_ms_is_never_after_the_next_end() -> None:
    engine = Engine()
    assert engine.next_ms is None
    engine.submit(operations(("a", 10, 5000, [("k", 1)]), ("b", 10, 700, [("k", 1)])))
    steps = 0
    while len(engine) == 2 and engine.next_ms is not None:
        assert engine.next_ms <= 710
        engine.advance(max(engine.next_ms, engine.now_ms or 0))
        steps += 1
        assert steps < 10
    assert engine.now_ms == 710


# What is rejected.


def test_late_rows_are_rejected_with_the_reason_and_change_nothing() -> None:
    engine = Engine()
    engine.submit(operations(("a", 10, 50, [("k", 1)])))
    engine.advance(20)
    engine.submit(operations(("b", 20, 5, [("k", 1)]), ("c", 21, 5, [("k", 1)])))
    engine.signal(signals(("k", 1, 20)))
    engine.cancel(cancels(("a", 15)))
    step = engine.advance(100)
    found = [(row["table"], row["reason"]) for row in step.rejected.to_pylist()]
    assert found == [("operations", LATE), ("signals", LATE), ("cancels", LATE)]
    assert '"id": "b"' in step.rejected.column("row")[0].as_py()
    assert brief(step.outcomes) == [("c", "expired", 26, None), ("a", "expired", 60, None)]


def test_before_the_first_advance_nothing_is_late() -> None:
    engine = Engine()
    engine.submit(operations(("a", -(2**63), 0, [("k", 1)])))
    engine.signal(signals(("k", 1, -(2**63))))
    step = engine.advance(-(2**63))
    assert len(step.rejected) == 0
    assert brief(step.outcomes) == [("a", "completed", -(2**63), "k")]


def test_rejected_rows_are_told_once() -> None:
    engine = Engine()
    engine.signal(signals(("k", 1, 5)).append_column("extra", pa.array(["x"])).slice(0, 0))
    engine.submit(operations(("a", 10, -1, [("k", 1)])))
    assert engine.advance(1).rejected.column("reason").to_pylist() == ["timeout_ms is negative"]
    assert len(engine.advance(2).rejected) == 0


def test_of_two_with_one_id_the_earlier_submitted_stays_whichever_came_first() -> None:
    for first, second in ((40, 10), (10, 40)):
        engine = Engine()
        engine.submit(operations(("a", first, 5, [("k", 1)]), mark=[first]))
        engine.submit(operations(("a", second, 5, [("k", 1)]), mark=[second]))
        step = engine.advance(100)
        assert brief(step.outcomes) == [("a", "expired", 15, None)]
        assert step.outcomes.column("mark").to_pylist() == [10]
        (rejected,) = step.rejected.to_pylist()
        assert rejected["reason"] == DUPLICATE
        assert '"mark": 40' in rejected["row"]


def test_an_id_may_be_used_again_only_after_it_was_remembered_long_enough() -> None:
    engine = Engine(remember_ms=100)
    engine.submit(operations(("a", 0, 10, [("k", 1)])))
    engine.advance(20)
    engine.submit(operations(("a", 110, 10, [("k", 1)])))
    assert engine.advance(21).rejected.column("reason").to_pylist() == [DUPLICATE]
    engine.submit(operations(("a", 111, 10, [("k", 1)])))
    assert brief(engine.advance(200).outcomes) == [("a", "expired", 121, None)]


# What cannot be done.


def test_time_does_not_go_back() -> None:
    engine = Engine()
    engine.advance(10)
    engine.advance(10)
    with pytest.raises(OutOfRange, match=r"now_ms must be ≥ 10, .* got 9"):
        engine.advance(9)
    progress, waiting = Progress(), Waiting()
    progress.apply(None, None, 10)
    waiting.apply(None, None, None, 10)
    with pytest.raises(OutOfRange, match="now_ms must be ≥ 10, got 9"):
        progress.apply(None, None, 9)
    with pytest.raises(OutOfRange, match="now_ms must be ≥ 10, got 9"):
        waiting.apply(None, None, None, 9)


@pytest.mark.parametrize("now_ms", [1.5, "7", None])
def test_a_time_is_an_integer(now_ms: Any) -> None:
    with pytest.raises(WrongType, match="now_ms must be an integer number of milliseconds"):
        Engine().advance(now_ms)


def test_a_time_fits_64_bits() -> None:
    with pytest.raises(OutOfRange, match="now_ms must fit 64 bits"):
        Engine().advance(2**63)


def test_a_bad_table_changes_nothing() -> None:
    engine = Engine()
    engine.submit(operations(("a", 0, 10, [("k", 1)]), kind=["slow"]))
    before = engine.snapshot()
    with pytest.raises(BadTable, match="no column 'submitted_ms'"):
        engine.submit(pa.table({"id": ["b"]}))
    with pytest.raises(BadTable, match="another type than in an earlier table"):
        engine.submit(operations(("b", 0, 10, [("k", 1)]), kind=[5]))
    odd = pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["x"]))
    with pytest.raises(BadTable, match="rows of the column 'odd' cannot be kept"):
        engine.submit(operations(("b", 0, 10, [("k", 1)]), odd=odd))
    with pytest.raises(BadTable, match="at_ms"):
        engine.signal(pa.table({"key": ["k"], "offset": [1]}))
    assert engine.snapshot() == before


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view()])
def test_text_of_every_width_is_taken(kind: pa.DataType) -> None:
    item = pa.struct([("key", kind), ("offset", pa.int64())])
    table = pa.table(
        {
            "id": pa.array(["a", "a"], pa.string()).cast(kind),
            "submitted_ms": [0, 5],
            "timeout_ms": [10, 10],
            "requires": pa.array([[{"key": "k", "offset": 1}]] * 2, pa.list_(item)),
            "kind": pa.array(["slow", None], pa.string()).cast(kind),
        }
    )
    engine = Engine()
    engine.submit(table)
    step = engine.advance(5)
    assert len(step.rejected) == 1
    engine = Engine.restore(engine.snapshot())
    assert engine.advance(50).outcomes.column("kind").to_pylist() == ["slow"]


# Snapshots.


def busy_engine() -> Engine:
    engine = Engine()
    engine.submit(operations(("a", 10, 50, [("k", 1)]), ("b", 10, 5, [("k", 9)]), kind=["x", "y"]))
    engine.signal(signals(("k", 1, 70), ("k", 3, 90)))
    engine.cancel(cancels(("a", 80), ("later", 95)))
    engine.advance(20)
    engine.submit(operations(("c", 5, 50, [("k", 1)]), kind=["late"]))
    return engine


def test_a_restored_engine_goes_on_as_the_other_would() -> None:
    one = busy_engine()
    other = Engine.restore(one.snapshot())
    assert (len(other), other.now_ms, other.next_ms) == (len(one), one.now_ms, one.next_ms)
    assert other.pending().equals(one.pending())
    more = operations(("later", 92, 50, [("k", 9)]), ("b", 30, 5, [("k", 9)]), kind=["x", "y"])
    steps = []
    for engine in (one, other):
        engine.submit(more)
        steps.append(engine.advance(500))
    assert steps[0].outcomes.equals(steps[1].outcomes)
    assert steps[0].rejected.equals(steps[1].rejected)
    assert len(steps[0].rejected) == 2
    assert brief(steps[0].outcomes) == [
        ("a", "expired", 60, None),
        ("later", "cancelled", 95, None),
    ]


def test_a_snapshot_may_be_taken_before_anything_happened() -> None:
    engine = Engine.restore(Engine(remember_ms=5).snapshot())
    assert (engine.now_ms, engine.next_ms, len(engine)) == (None, None, 0)


def test_a_snapshot_that_was_cut_anywhere_is_refused() -> None:
    data = busy_engine().snapshot()
    for size in range(len(data)):
        with pytest.raises(BadSnapshot):
            Engine.restore(data[:size])
    with pytest.raises(BadSnapshot, match="it was cut"):
        Engine.restore(data + b"\x00")


def test_a_snapshot_with_a_bit_changed_is_refused() -> None:
    data = bytearray(busy_engine().snapshot())
    for place in range(len(data)):
        data[place] ^= 16
        with pytest.raises(BadSnapshot):
            Engine.restore(bytes(data))
        data[place] ^= 16
    Engine.restore(bytes(data))


def test_bytes_of_another_kind_or_version_are_refused_with_the_reason() -> None:
    data = Progress().snapshot()
    with pytest.raises(BadSnapshot, match="restore it with its own class"):
        Waiting.restore(data)
    with pytest.raises(BadSnapshot, match="that start with b'garbage "):
        Progress.restore(b"garbage " * 20)
    with pytest.raises(BadSnapshot, match="too few"):
        Progress.restore(b"")
    other = data[:12] + struct.pack("<H", 999) + data[14:]
    with pytest.raises(BadSnapshot, match="found version 999; read it with the release"):
        Progress.restore(other)
    with pytest.raises(BadSnapshot):
        Progress().replay(Waiting.entry(None, None, None, 5))


@pytest.mark.parametrize("data", [None, 3, "snapshot", ["snapshot"]])
def test_what_is_not_bytes_at_all_is_refused(data: Any) -> None:
    says = f"expected the bytes of a sojourn .*, got {type(data).__name__}; use the bytes"
    for kind in (Engine, Progress, Waiting):
        with pytest.raises(WrongType, match=says):
            kind.restore(data)


# Nothing leaks.


def steady_sizes(engine: Engine, steps: int, keys: int) -> list[int]:
    """Run with as many waiting at any time; return the sizes of the snapshots on the way."""
    sizes = []
    for step in range(steps):
        now_ms = 100 * step
        rows = [
            (f"{step:06}-{n:02}", now_ms + 1 + n, 350, [(f"k{(step + n) % keys}", step * 10 + n)])
            for n in range(40)
        ]
        engine.submit(operations(*rows))
        engine.signal(
            signals(*((f"k{(step + n) % keys}", step * 10, now_ms + 50 + n) for n in range(20)))
        )
        engine.cancel(cancels(*((f"{step:06}-{n:02}", now_ms + 60) for n in range(0, 40, 7))))
        engine.advance(now_ms)
        if step >= 20 and step % 5 == 0:
            sizes.append(len(engine.snapshot()))
    return sizes


def test_a_long_steady_run_has_a_flat_size() -> None:
    sizes = steady_sizes(Engine(remember_ms=200), steps=150, keys=10)
    assert max(sizes) < 1.2 * min(sizes), sizes


def test_when_everything_has_ended_only_keys_are_left() -> None:
    progress = Progress()
    waiting = Waiting(remember_ms=0)
    engine = Engine(remember_ms=0)
    empty = len(engine.snapshot())
    steady_sizes(engine, steps=10, keys=3)
    engine.advance(10_000)
    engine.advance(20_000)
    assert len(engine) == 0
    assert len(engine.snapshot()) < empty + 200  # three keys and what they have reached
    needs = [("a", 1, 0, "k", 5, 10, 20), ("a", 1, 1, "other", 5, 10, 20)]
    rows = [dict(zip(REQUIREMENTS.names, need, strict=True)) for need in needs]
    progress.apply(pa.RecordBatch.from_pylist(rows, REQUIREMENTS), None, 5)
    assert (len(progress), progress.keys) == (2, 2)
    progress.apply(None, None, 20)
    assert (len(progress), progress.keys) == (0, 0)
    assert len(waiting.snapshot()) == len(Waiting(remember_ms=0).snapshot())


def test_keys_are_remembered_for_ever_unless_asked_to_forget() -> None:
    signal = pa.RecordBatch.from_pylist([{"key": "k", "offset": 5, "at_ms": 10}], SIGNALS)
    for_ever, forgetful = Progress(), Progress(forget_keys_after_ms=1000)
    for side in (for_ever, forgetful):
        side.apply(None, signal, 10)
        side.apply(None, None, 900)
        assert side.keys == 1
        side.apply(None, None, 2000)
    assert (for_ever.keys, forgetful.keys) == (1, 0)


def test_a_key_that_somebody_waits_for_is_not_forgotten() -> None:
    engine = Engine(forget_keys_after_ms=100)
    engine.signal(signals(("k", 5, 10)))
    engine.submit(operations(("a", 10, 10_000, [("k", 6)])))
    engine.advance(5000)
    engine = Engine.restore(engine.snapshot())
    engine.submit(operations(("b", 5001, 10, [("k", 5)])))
    assert brief(engine.advance(5002).outcomes) == [("b", "completed", 5001, "k")]
    engine.advance(10_100)
    engine.advance(10_300)
    engine.submit(operations(("c", 10_301, 10, [("k", 5)])))
    assert brief(engine.advance(11_000).outcomes) == [("c", "expired", 10_311, None)]


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_in_which_order_rows_come_makes_no_difference_to_what_is_forgotten(
    order: tuple[int, ...],
) -> None:
    engine = Engine(forget_keys_after_ms=100)
    calls = [
        lambda: engine.signal(signals(("k", 5, 10))),
        lambda: engine.signal(signals(("k", 6, 5000))),
        lambda: engine.submit(operations(("a", 20, 30, [("k", 5)]))),
        lambda: engine.submit(operations(("b", 4000, 2000, [("k", 5)]))),
    ]
    for call in order:
        calls[call]()
    outcomes = brief(engine.advance(6000).outcomes)
    assert outcomes == [("a", "completed", 20, "k"), ("b", "completed", 5000, "k")]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_the_key_side_is_told_in_pieces_if_it_is_much(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for most in (2**30, 100):
        monkeypatch.setattr("sojourn.replay.engine._MUCH", most)
        engine = Engine()
        for n in range(4):
            engine.submit(operations((f"{n}", 10 + n, 50, [(f"k{n}", 1)])))
            news = signals((f"k{n}", 1, 20 + n))
            engine.signal(news.set_column(0, "key", news["key"].cast(kind)) if n % 2 else news)
        assert brief(engine.advance(99).outcomes) == [
            (f"{n}", "completed", 20 + n, f"k{n}") for n in range(4)
        ]


# The sides alone.


def test_candidates_of_operations_that_do_not_wait_here_are_passed_over() -> None:
    waiting = Waiting()
    row = ("a", 7, 10, 60, 1, 2, None)
    held = pa.RecordBatch.from_pylist([dict(zip(SUBMISSIONS.names, row, strict=True))], SUBMISSIONS)
    candidate = {"index": 0, "key": "k", "moment_ms": 20}
    strangers = [{"id": "a", "tag": 8, **candidate}, {"id": "b", "tag": 7, **candidate}]
    waiting.apply(held, pa.RecordBatch.from_pylist(strangers), None, 5)
    outcomes, _ = waiting.apply(None, None, None, 100)
    assert outcomes.column("status").to_pylist() == ["expired"]


def test_an_operation_with_very_many_requirements_ends_by_the_one_that_was_needed() -> None:
    count = 5000
    requires = [(f"k{n:04}", 1) for n in range(count)]
    table = operations(("a", 0, 100_000, requires), needed=pa.array([2500], pa.int32()))
    news = signals(*((f"k{n:04}", 1, 7919 * n % count + 1) for n in range(count)))
    engine = Engine()
    engine.submit(table)
    for piece in range(0, count, 1000):
        engine.signal(news.slice(piece, 1000))
    expected = resolve(table, news).outcomes.drop_columns("condition_ms")
    assert engine.advance(100_000).outcomes.to_pylist() == expected.to_pylist()
