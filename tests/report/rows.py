"""Outcomes made up for tests of the report."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sojourn import report
from sojourn.report.stays import STATUSES

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("status", pa.string()),
        ("at_ms", pa.int64()),
        ("by_key", pa.string()),
        ("waited_ms", pa.int64()),
        ("condition_ms", pa.int64()),
        ("submitted_ms", pa.int64()),
        ("timeout_ms", pa.int64()),
        ("class", pa.string()),
    ]
)
Row = dict[str, Any]


def outcome(
    number: int,
    status: str,
    submitted_ms: int,
    waited_ms: int,
    condition_after_ms: int | None = None,
    *,
    timeout_ms: int | None = None,
    key: str = "k",
    kind: str | None = None,
) -> Row:
    """One that ended. The timeout of an expired one is what it waited."""
    completed = status == "completed"
    if status == "expired":
        timeout_ms = waited_ms
    if completed:
        condition_after_ms = waited_ms
    return {
        "id": f"operation-{number}",
        "status": status,
        "at_ms": submitted_ms + waited_ms,
        "by_key": key if completed else None,
        "waited_ms": waited_ms,
        "condition_ms": None if condition_after_ms is None else submitted_ms + condition_after_ms,
        "submitted_ms": submitted_ms,
        "timeout_ms": timeout_ms,
        "class": kind,
    }


def random_rows(seed: int) -> list[Row]:
    """Outcomes of a batch, of all kinds, some years long; the data ends with the last condition."""
    rng = random.Random(seed)
    most_ms = rng.choice([3, 200, 10_000, 10**7, 2**40])
    rows = []
    for number in range(rng.choice([1, 2, 7, 100, 900])):
        status = rng.choices(STATUSES, rng.choice([[5, 1, 1], [1, 0, 0], [1, 5, 2], [0, 1, 0]]))[0]
        waited_ms = rng.randrange(most_ms // 2 + 1) if rng.random() < 0.9 else 0
        timeout_ms = rng.choice([most_ms, most_ms, most_ms // 2])
        if status == "expired":
            waited_ms = timeout_ms
        after_ms = waited_ms + 1 + rng.randrange(most_ms) if rng.random() < 0.6 else None
        key = rng.choice(["", "a", "bb", "ключ", "k" * 300, f"key-{rng.randrange(40)}"])
        kind = rng.choice(["order", "refund", None])
        submitted_ms = rng.randrange(10**6)
        more: dict[str, Any] = {"timeout_ms": timeout_ms, "key": key, "kind": kind}
        rows.append(outcome(number, status, submitted_ms, waited_ms, after_ms, **more))
    return rows


def simulated(
    rng: random.Random,
    count: int,
    wait_ms: Callable[[random.Random], float | None],
    *,
    span_ms: int,
    timeout_ms: int,
    kind: str | None = None,
    first: int = 0,
) -> list[Row]:
    """Outcomes of a batch over data that ends: submitted all the time, with waits or without."""
    rows = []
    for number in range(first, first + count):
        submitted_ms = rng.randrange(span_ms)
        needs_ms = wait_ms(rng)
        after_ms = None if needs_ms is None else int(needs_ms) + 1
        if after_ms is None or submitted_ms + after_ms > span_ms:  # nobody saw it come
            after_ms = None
        more: dict[str, Any] = {"timeout_ms": timeout_ms, "kind": kind}
        if after_ms is not None and after_ms <= timeout_ms:
            rows.append(outcome(number, "completed", submitted_ms, after_ms, **more))
        else:
            rows.append(outcome(number, "expired", submitted_ms, timeout_ms, after_ms, **more))
    return rows


def as_of_a_stream(rows: list[Row], until_ms: int) -> list[Row]:
    """What a stream would have told by then: nothing of those that had not ended."""
    return [{**row, "condition_ms": None} for row in rows if row["at_ms"] <= until_ms]


def table(rows: list[Row]) -> Any:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def stays(rows: list[Row], **options: Any) -> report.Stays:
    return report.Stays.of_tables(table(rows), **options)
