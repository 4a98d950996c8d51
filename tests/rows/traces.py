"""Random traces of operations, signals and cancels, each from a seed.

Times, offsets and keys come from small ranges, so that everything meets everything: ties at the
deadline, cancels at the moment of completion, progress before submission, several keys at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

Row = dict[str, Any]
T = TypeVar("T")

# In the order of code points; in UTF-16 the last two would change places.
ODD_KEYS = ["", "A", "a", "a\x00b", "aa", "é", "\ue000", "\uffff", "\U00010000", "\U0001f600"]
# Around the lengths at which a comparison by words of 8 bytes changes its ways.
LONG_KEYS = ["k" * n + end for n in (6, 7, 8, 14, 15, 16, 30, 100) for end in ("", "x", "é")]

LEAST, MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Trace:
    """Rows as a user has them, good and bad."""

    name: str
    operations: list[Row]
    signals: list[Row]
    cancels: list[Row]
    until_ms: int | None = None

    def tables(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The rows as Arrow tables; a column with numbers beyond 64 bits is one of decimals."""
        number = _number_type(r["submitted_ms"] for r in self.operations)
        timeout = _number_type(r["timeout_ms"] for r in self.operations)
        needed = _number_type(r["needed"] for r in self.operations)
        required = _number_type(
            item["offset"] for r in self.operations for item in r["requires"] or () if item
        )
        offset = _number_type(r["offset"] for r in self.signals)
        at = _number_type(r["at_ms"] for r in self.signals)
        cancelled = _number_type(r["at_ms"] for r in self.cancels)
        requires = pa.list_(pa.struct([("key", pa.string()), ("offset", required)]))
        text = pa.string()
        return (
            pa.Table.from_pylist(
                self.operations,
                pa.schema(
                    [
                        ("id", text),
                        ("submitted_ms", number),
                        ("timeout_ms", timeout),
                        ("requires", requires),
                        ("needed", needed),
                        ("kind", text),
                        ("weight", pa.int64()),
                    ]
                ),
            ),
            pa.Table.from_pylist(
                self.signals, pa.schema([("key", text), ("offset", offset), ("at_ms", at)])
            ),
            pa.Table.from_pylist(self.cancels, pa.schema([("id", text), ("at_ms", cancelled)])),
        )

    def about(self, id: str) -> Trace:
        """What bears on one operation, to look at when its outcome is wrong."""
        operations = [row for row in self.operations if row["id"] == id]
        keys = {
            item["key"] for row in operations for item in row["requires"] or () if item is not None
        }
        return replace(
            self,
            operations=operations,
            signals=[row for row in self.signals if row["key"] in keys],
            cancels=[row for row in self.cancels if row["id"] == id],
        )


def random_trace(
    seed: int,
    operations: int = 300,
    *,
    span_ms: int = 1000,
    bad: bool = True,
    extremes: bool = True,
    ties_by_arrival: bool = True,
    until: bool | None = None,
) -> Trace:
    """Make a trace of about as many operations and signals.

    `bad`: rows of every kind that is rejected, duplicates among them. `extremes`: times and
    offsets at the ends of 64 bits, and bad ones beyond. `ties_by_arrival`: duplicates submitted
    at the same moment, of which the one that arrives first stays; off, for engines to which rows
    come in no order. `until`: whether to stop at a time, left to chance by default.
    """
    rng = random.Random(seed)
    draw = rng.random  # an index from it takes a third of the time that `choice` takes
    keys = [*ODD_KEYS, *LONG_KEYS, *(f"order-{n}" for n in range(max(5, operations // 20)))]
    hot = rng.choice(keys)

    def one_of(choices: Sequence[T]) -> T:
        return choices[int(draw() * len(choices))]

    def below(end: int) -> int:
        return int(draw() * end)

    def key() -> str:
        return hot if draw() < 0.4 else one_of(keys)

    def moment() -> int:
        return below(span_ms)

    signals: list[Row] = []
    orderly = {name for name in keys if draw() < 0.5}  # their offsets rise with time
    for _ in range(operations):
        name, at_ms = key(), moment()
        offset = at_ms * 20 // span_ms if name in orderly else below(20)
        signals.append({"key": name, "offset": offset, "at_ms": at_ms})

    rows: list[Row] = []
    cancels: list[Row] = []
    for n in range(operations):
        count = one_of((1, 1, 2, 2, 3, 5, 8))
        requires = [{"key": key(), "offset": below(23) - 1} for _ in range(count)]
        submitted_ms = moment()
        timeout_ms = one_of((0, 1, below(span_ms), below(span_ms // 10)))
        some_signal_ms = one_of(signals)["at_ms"]
        if draw() < 0.2 and some_signal_ms >= submitted_ms:
            timeout_ms = some_signal_ms - submitted_ms
        row = {
            "id": f"{one_of(ODD_KEYS)}-{n}" if draw() < 0.3 else f"op-{n}",
            "submitted_ms": submitted_ms,
            "timeout_ms": timeout_ms,
            "requires": requires,
            "needed": one_of((None, 1, count, below(count) + 1)),
            "kind": one_of((None, "", "slow", "fast", "\U0001f600")),
            "weight": one_of((None, n)),
        }
        rows.append(row)
        for _ in range(one_of((0, 0, 0, 1, 2))):
            edges = (submitted_ms, submitted_ms - 1, submitted_ms + timeout_ms, some_signal_ms)
            at_ms = one_of((*edges, moment(), moment()))
            cancels.append({"id": row["id"], "at_ms": at_ms})
    cancels.append({"id": "nobody", "at_ms": moment()})

    if extremes:
        rows += _extreme_operations(rng, keys, len(rows))
        for _ in range(4):
            signals.append({"key": key(), "offset": MOST, "at_ms": moment()})
            signals.append({"key": key(), "offset": LEAST, "at_ms": moment()})
            signals.append({"key": key(), "offset": rng.randrange(20), "at_ms": MOST})
            signals.append({"key": f"early-{rng.randrange(3)}", "offset": 5, "at_ms": LEAST})
        cancels += [{"id": row["id"], "at_ms": MOST} for row in rows[-4:]]
        cancels += [{"id": row["id"], "at_ms": LEAST} for row in rows[-4:]]
    if bad:
        rows += _duplicates(rng, rows, ties_by_arrival)
        rows += _bad_operations(rng, rows, extremes)
        signals += _bad_signals(signals[0], extremes)
        cancels += _bad_cancels(extremes)
    for table in (rows, signals, cancels):
        rng.shuffle(table)
    stops = rng.random() < 0.4 if until is None else until
    return Trace(
        f"seed {seed}, {operations} operations", rows, signals, cancels, moment() if stops else None
    )


def _extreme_operations(rng: random.Random, keys: list[str], taken: int) -> list[Row]:
    rows = []
    for n, (submitted_ms, timeout_ms) in enumerate(
        [(LEAST, 0), (LEAST, MOST), (LEAST, 5), (0, MOST), (MOST, 0), (MOST - 5, 5), (-1, MOST)] * 2
    ):
        names = [rng.choice([*keys, "early-0", "early-1"]) for _ in range(rng.randint(1, 3))]
        offsets = (LEAST, MOST, 5, 0)
        rows.append(
            {
                "id": f"extreme-{taken + n}",
                "submitted_ms": submitted_ms,
                "timeout_ms": timeout_ms,
                "requires": [{"key": name, "offset": rng.choice(offsets)} for name in names],
                "needed": rng.choice((None, 1)),
                "kind": "extreme",
                "weight": rng.choice((LEAST, MOST)),
            }
        )
    return rows


def _duplicates(rng: random.Random, rows: list[Row], ties: bool) -> list[Row]:
    """Rows with an id there is already, submitted before, after or with the other."""
    taken: set[tuple[str, int]] = {(row["id"], row["submitted_ms"]) for row in rows}
    others = []
    for n in range(max(4, len(rows) // 20)):
        row, body = rng.choice(rows), rng.choice(rows)
        later_ms = rng.choice((-30, -1, 0, 0, 1, 30))
        submitted_ms = min(max(row["submitted_ms"] + later_ms, LEAST), MOST - body["timeout_ms"])
        if (row["id"], submitted_ms) in taken and not ties:
            continue
        taken.add((row["id"], submitted_ms))
        others.append({**body, "id": row["id"], "submitted_ms": submitted_ms, "weight": -n})
    return others


def _bad_operations(rng: random.Random, rows: list[Row], beyond: bool) -> list[Row]:
    good = {"key": "a", "offset": 1}
    faults: list[Row] = [
        {"id": None},
        {"submitted_ms": None},
        {"timeout_ms": None},
        {"timeout_ms": -1},
        {"timeout_ms": LEAST},
        {"requires": None},
        {"requires": []},
        {"requires": [good, {"key": None, "offset": 1}]},
        {"requires": [None, good]},
        {"requires": [good, {"key": "a", "offset": None}]},
        {"needed": 0},
        {"needed": -3},
        {"needed": 1000},
        {"submitted_ms": MOST, "timeout_ms": 1},
        {"submitted_ms": 1, "timeout_ms": MOST},
    ]
    if beyond:
        faults += [
            {"submitted_ms": MOST + 1},
            {"submitted_ms": LEAST - 1},
            {"timeout_ms": MOST + 1},
            {"timeout_ms": LEAST - 1},
            {"requires": [good, {"key": "a", "offset": 2**64}]},
            {"requires": [{"key": "a", "offset": LEAST - 1}, good]},
            {"needed": 2**70},
            {"needed": -(2**70)},
        ]
    bad = [{**rng.choice(rows), **fault} for fault in faults]
    # Several faults at once: the first reason counts.
    bad += [{**rng.choice(bad), **rng.choice(faults)} for _ in range(10)]
    return [row if row["id"] is None else {**row, "id": f"bad-{n}"} for n, row in enumerate(bad)]


def _bad_signals(good: Row, beyond: bool) -> list[Row]:
    faults: list[Row] = [{"key": None}, {"offset": None}, {"at_ms": None}]
    faults += [{"key": None, "offset": None}, {"offset": None, "at_ms": None}]
    if beyond:
        faults += [{"offset": MOST + 1}, {"offset": LEAST - 1, "at_ms": None}]
        faults += [{"at_ms": 2**64}, {"at_ms": LEAST - 1}]
    return [{**good, **fault} for fault in faults]


def _bad_cancels(beyond: bool) -> list[Row]:
    bad: list[Row] = [{"id": None, "at_ms": 1}, {"id": "op-0", "at_ms": None}]
    if beyond:
        bad += [{"id": "op-1", "at_ms": MOST + 1}, {"id": None, "at_ms": LEAST - 1}]
    return bad


def _number_type(values: Any) -> pa.DataType:
    wide = any(value is not None and not LEAST <= value <= MOST for value in values)
    return pa.decimal128(38, 0) if wide else pa.int64()
