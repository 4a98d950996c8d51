"""Outcomes made up for tests of the report."""

from __future__ import annotations

import random
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
    key: str = "k",
    kind: str | None = None,
) -> Row:
    completed = status == "completed"
    if completed:
        condition_after_ms = waited_ms
    return {
        "id": f"operation-{number}",
        "status": status,
        "at_ms": submitted_ms + waited_ms,
        "by_key": key if completed else None,
        "waited_ms": waited_ms,
        "condition_ms": None if condition_after_ms is None else submitted_ms + condition_after_ms,
        "class": kind,
    }


def random_rows(seed: int) -> list[Row]:
    rng = random.Random(seed)
    most_ms = rng.choice([3, 200, 10_000, 10**7, 2**40])
    rows = []
    for number in range(rng.choice([1, 2, 7, 100, 900])):
        status = rng.choices(STATUSES, rng.choice([[5, 1, 1], [1, 0, 0], [1, 5, 2], [0, 1, 0]]))[0]
        waited_ms = rng.randrange(most_ms) if rng.random() < 0.9 else 0
        if status == "expired":
            waited_ms = rng.choice([most_ms, most_ms, most_ms // 2])
        after_ms = waited_ms + 1 + rng.randrange(most_ms) if rng.random() < 0.6 else None
        key = rng.choice(["", "a", "bb", "ключ", "k" * 300, f"key-{rng.randrange(40)}"])
        kind = rng.choice(["order", "refund", None])
        rows.append(
            outcome(number, status, rng.randrange(10**6), waited_ms, after_ms, key=key, kind=kind)
        )
    return rows


def table(rows: list[Row]) -> Any:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def stays(rows: list[Row], **options: Any) -> report.Stays:
    return report.Stays.of_tables(table(rows), **options)
