"""The ending rule on arrays: every order of condition, cancel, deadline and knowledge, once."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from sojourn.replay.endings import CANCELLED, COMPLETED, EXPIRED, PENDING, end_all
from tests import seeds

SUBMITTED_MS = 100
NEVER = 10**9


class Row(NamedTuple):
    """An operation with its requirements: when each held, if it did, and its key."""

    timeout_ms: int
    needed: int
    requires: tuple[tuple[int | None, str], ...]
    cancel_ms: int | None = None


def ending(row: Row, until_ms: int) -> tuple[int, int | None, str | None]:
    """How it ends by the rule, its moment and its key; written down without any cleverness."""
    held = sorted(
        (max(at_ms, SUBMITTED_MS), key) for at_ms, key in row.requires if at_ms is not None
    )
    condition_ms = held[row.needed - 1][0] if len(held) >= row.needed else NEVER
    if condition_ms > until_ms:
        condition_ms = NEVER
    deadline_ms = SUBMITTED_MS + row.timeout_ms
    cancel_ms = NEVER
    if row.cancel_ms is not None and SUBMITTED_MS <= row.cancel_ms <= until_ms:
        cancel_ms = row.cancel_ms
    if condition_ms <= deadline_ms and not cancel_ms < condition_ms:
        return COMPLETED, condition_ms, min(key for at, key in held if at == condition_ms)
    if cancel_ms < condition_ms and cancel_ms <= deadline_ms:
        return CANCELLED, cancel_ms, None
    if deadline_ms <= until_ms:
        return EXPIRED, deadline_ms, None
    return PENDING, None, None


def ended(rows: list[Row], until_ms: int | None, **options: Any) -> list[object]:
    requires = [requirement for row in rows for requirement in row.requires]
    endings = end_all(
        np.full(len(rows), SUBMITTED_MS),
        np.array([row.timeout_ms for row in rows], dtype=np.int64),
        np.array([row.needed for row in rows], dtype=np.int64),
        np.cumsum([0, *(len(row.requires) for row in rows)]),
        np.array([0 if at_ms is None else at_ms for at_ms, _ in requires], dtype=np.int64),
        np.array([at_ms is not None for at_ms, _ in requires], dtype=np.bool_),
        pa.array([key for _, key in requires], pa.string()),
        np.array([row.cancel_ms or 0 for row in rows], dtype=np.int64),
        np.array([row.cancel_ms is not None for row in rows], dtype=np.bool_),
        until_ms,
        **options,
    )
    return [
        (status, None if status == PENDING else at_ms, None if by < 0 else requires[by][1])
        for status, at_ms, by in zip(
            endings.status.tolist(), endings.at_ms.tolist(), endings.by.tolist(), strict=True
        )
    ]


@pytest.mark.parametrize("until_ms", [None, 99, 100, 101, 102, 103, 104])
def test_every_order_of_condition_cancel_deadline_and_knowledge_ends_by_the_rule(
    until_ms: int | None,
) -> None:
    moments = (None, 98, 99, 100, 101, 102, 103)
    rows = [
        Row(timeout_ms, 1, ((held_ms, "k"),), cancel_ms)
        for timeout_ms, held_ms, cancel_ms in itertools.product((0, 1, 2, 3), moments, moments)
    ]
    known_ms = NEVER if until_ms is None else until_ms
    expected = [ending(row, known_ms) for row in rows]
    for row, one, other in zip(rows, ended(rows, until_ms), expected, strict=True):
        assert one == other, row


@pytest.mark.parametrize("most", [1, 5, 16, 17, 40])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_quorum_holds_from_its_nth_moment_by_the_smallest_key_of_that_moment(
    most: int, threads: int
) -> None:
    rng = Random(f"{seeds.seed()} {most}")
    rows = []
    for _ in range(300):
        size = rng.randint(1, most)
        wide = rng.choice((2, 6, 60))
        requires = tuple(
            (None if rng.random() < 0.1 else 95 + rng.randrange(wide), rng.choice("abcdé") * wide)
            for _ in range(size)
        )
        cancel_ms = 95 + rng.randrange(60) if rng.random() < 0.3 else None
        rows.append(Row(rng.randrange(60), rng.randint(1, size), requires, cancel_ms))
    expected = [ending(row, NEVER) for row in rows]
    for row, one, other in zip(rows, ended(rows, None, threads=threads), expected, strict=True):
        assert one == other, row


def one_operation(**options: Any) -> Any:
    """Submitted at 100, with 50 ms; one of its two requirements holds from 120."""
    return end_all(
        np.array([100]),
        np.array([50]),
        options.pop("needed", np.array([1])),
        np.array([0, 2]),
        np.array([120, 0]),
        np.array([True, False]),
        pa.array(["a", "b"]),
        **options,
    )


def test_without_a_mask_every_cancel_counts() -> None:
    cancelled = one_operation(cancel_ms=np.array([110]))
    assert (cancelled.status[0], cancelled.at_ms[0], cancelled.by[0]) == (CANCELLED, 110, -1)
    assert one_operation().status[0] == COMPLETED


def test_when_the_condition_held_is_told_whatever_the_end() -> None:
    for endings in (one_operation(), one_operation(cancel_ms=np.array([110]))):
        assert (endings.has_condition[0], endings.condition_ms[0]) == (True, 120)
    assert not one_operation(needed=np.array([2])).has_condition[0]
    assert not one_operation(until_ms=119).has_condition[0]


def test_of_requirements_that_held_at_once_the_smallest_key_counts_wherever_it_stands() -> None:
    for keys in (["a", "z", "ab"], ["z", "ab", "a"], ["ab", "a", "b"]):
        requires = tuple((120, key) for key in keys)
        assert ended([Row(50, 1, requires)], None) == [(COMPLETED, 120, "a")]
        assert ended([Row(50, 3, requires)] * 2, None) == [(COMPLETED, 120, "a")] * 2


def test_no_operations_have_no_endings() -> None:
    none = np.array([], dtype=np.int64)
    endings = end_all(
        none, none, none, np.array([0]), none, none.astype(np.bool_), pa.array([], pa.string())
    )
    assert [len(part) for part in endings] == [0] * 5
