"""Random programs: both sides of the engine against naive ones, restored and replayed midway."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.replay.progress import Progress
from sojourn.replay.schemas import CANCELS, CANDIDATES, REQUIREMENTS, SIGNALS, SUBMISSIONS
from sojourn.replay.waiting import Waiting
from tests.replay.naive_engine import NaiveProgress, NaiveWaiting
from tests.seeds import seed

Row = dict[str, Any]

MOST = 2**63 - 1
# Where time starts: in the middle, at both ends of 64 bits, and where the wheel's reach ends.
ORIGINS_MS = [0, 1_700_000_000_000, -(2**63), MOST - 400, 2**61 - 50, -(2**61) - 50]
KEYS = ["", "a", "é", "a\x00", "key-" * 5, "key-" * 5 + "x", *(f"k{n}" for n in range(6))]


@dataclass(frozen=True)
class Batch:
    """What comes in one step, for either side."""

    requirements: list[Row]
    signals: list[Row]
    operations: list[Row]
    candidates: list[Row]
    cancels: list[Row]
    now_ms: int | None


def random_batches(rng: random.Random, steps: int) -> list[Batch]:
    """Rows after the time that stands, within a horizon; keys, ids and offsets that meet."""
    origin_ms = rng.choice(ORIGINS_MS)
    ahead_ms = rng.choice((3, 30, 100))
    stands_ms: int | None = None
    rows = rng.choice((1, 4, 20))
    known: list[Row] = []
    batches = []

    def moment() -> int:
        first_ms = origin_ms if stands_ms is None else stands_ms + 1
        return min(first_ms + rng.randrange(ahead_ms), MOST)

    for step in range(steps):
        if stands_ms == MOST:
            break
        requirements, operations, candidates = [], [], []
        for n in range(rng.randrange(rows + 1)):
            submitted_ms = moment()
            timeout_ms = rng.choice((0, 1, rng.randrange(2 * ahead_ms)))
            operation: Row = {
                "id": f"op-{rng.randrange(3 * rows)}" if rng.random() < 0.5 else f"{step}-{n}",
                "tag": rng.choice((-(2**63), 0, 2**62)) + step * 1000 + n,
                "submitted_ms": submitted_ms,
                "deadline_ms": min(submitted_ms + timeout_ms, MOST),
                "requirements": rng.choice((1, 1, 2, 3, 9)),
                "payload": rng.choice((None, b"", b"\x00payload")),
            }
            operation["needed"] = rng.randint(1, operation["requirements"])
            operations.append({name: operation[name] for name in SUBMISSIONS.names})
            requirements += [
                {
                    "id": operation["id"],
                    "tag": operation["tag"],
                    "index": index,
                    "key": rng.choice(KEYS),
                    "offset": rng.choice((-(2**63), MOST, *range(12))),
                    "submitted_ms": submitted_ms,
                    "deadline_ms": operation["deadline_ms"],
                }
                for index in range(operation["requirements"])
            ]
        known = [*known[-3 * rows :], *operations]
        for _ in range(rng.randrange(2 * rows + 1)):
            if known:
                of = rng.choice(known)
                first_ms = max(of["submitted_ms"], moment())
                candidate = {
                    "id": of["id"],
                    "tag": of["tag"] if rng.random() < 0.9 else 77,
                    "index": rng.randrange(of["requirements"]),
                    "moment_ms": min(first_ms, MOST),
                }
                candidate["key"] = KEYS[candidate["index"]]
                if not any(
                    op["id"] == of["id"]
                    and op["tag"] == candidate["tag"]
                    and op["requirements"] <= candidate["index"]
                    for op in known
                ):
                    candidates.append(candidate)
        signals = [
            {"key": rng.choice(KEYS), "offset": rng.randrange(12), "at_ms": moment()}
            for _ in range(rng.randrange(rows + 1))
        ]
        cancels = [
            {"id": rng.choice(known)["id"], "at_ms": moment()}
            for _ in range(rng.randrange(rows + 1))
            if known and rng.random() < 0.5
        ]
        now_ms = None
        if rng.random() < 0.7:
            first_ms = origin_ms if stands_ms is None else stands_ms
            now_ms = min(first_ms + rng.choice((0, 1, rng.randrange(ahead_ms))), MOST)
            stands_ms = now_ms
        batches.append(Batch(requirements, signals, operations, candidates, cancels, now_ms))
    return batches


def arrow(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch | None:
    return pa.RecordBatch.from_pylist(rows, schema) if rows else None


def check_progress(rng: random.Random, batches: list[Batch]) -> int:
    real, naive = Progress(), NaiveProgress()
    twin = Progress()  # lives by journal alone
    best: dict[tuple[Any, ...], int] = {}
    naive_best: dict[tuple[Any, ...], int] = {}
    for batch in batches:
        rows = arrow(batch.requirements, REQUIREMENTS), arrow(batch.signals, SIGNALS)
        found = real.apply(*rows, batch.now_ms)
        assert found.schema.equals(CANDIDATES)
        twin.replay(Progress.entry(*rows, batch.now_ms))
        _gather(best, found)
        _gather(naive_best, naive.apply(*rows, batch.now_ms))
        assert best == naive_best
        # The naive one keeps a requirement that holds for good until its moment is past.
        assert len(real) == len(twin) <= sum(map(len, naive._open.values()))
        assert real.keys == len({*naive._open, *naive._signals, *naive._base})
        if rng.random() < 0.3:
            real = Progress.restore(real.snapshot())
        if rng.random() < 0.1:
            twin = Progress.restore(real.snapshot())
            assert (
                twin.snapshot() == real.snapshot() == Progress.restore(real.snapshot()).snapshot()
            )
    return len(best)


def check_waiting(rng: random.Random, batches: list[Batch]) -> Counter[str]:
    remember_ms = rng.choice((0, 5, 100, MOST))
    real, naive = Waiting(remember_ms=remember_ms), NaiveWaiting(remember_ms=remember_ms)
    twin = Waiting(remember_ms=remember_ms)
    seen: Counter[str] = Counter()
    for batch in batches:
        rows = (
            arrow(batch.operations, SUBMISSIONS),
            arrow(batch.candidates, CANDIDATES),
            arrow(batch.cancels, CANCELS),
        )
        outcomes, rejected = real.apply(*rows, batch.now_ms)
        twin.replay(Waiting.entry(*rows, batch.now_ms))
        expected, refused = naive.apply(*rows, batch.now_ms)
        times_ms = outcomes.column("at_ms").to_pylist()
        assert times_ms == sorted(times_ms)
        assert _rows(outcomes) == _rows(expected)
        assert _rows(rejected) == _rows(refused)
        assert _rows(real.pending()) == _rows(twin.pending()) == _rows(naive.pending())
        assert (len(real), real.now_ms) == (len(naive), naive.now_ms)
        assert (real.next_ms is None) == (naive.next_ms is None)
        if real.next_ms is not None and naive.next_ms is not None:
            assert real.next_ms <= naive.next_ms
        if rng.random() < 0.3:
            real = Waiting.restore(real.snapshot())
        if rng.random() < 0.1:
            twin = Waiting.restore(real.snapshot())
        seen.update(row["status"] for row in outcomes.to_pylist())
        seen["rejected"] += len(rejected)
    return seen


def _gather(best: dict[tuple[Any, ...], int], candidates: pa.RecordBatch) -> None:
    for row in candidates.to_pylist():
        name = (row["id"], row["tag"], row["index"], row["key"])
        best[name] = min(best.get(name, row["moment_ms"]), row["moment_ms"])


def _rows(batch: pa.RecordBatch) -> list[Row]:
    return sorted(batch.to_pylist(), key=repr)


def _compare(number: int) -> None:
    batches = random_batches(random.Random(number), steps=25)
    try:
        check_progress(random.Random(number), batches)
        check_waiting(random.Random(number), batches)
    except Exception as error:
        raise AssertionError(f"program {number}") from error


@pytest.mark.parametrize("number", range(40))
def test_a_random_program_goes_as_with_naive_sides(number: int) -> None:
    _compare(seed() + number)


@pytest.mark.nightly
def test_very_many_random_programs_go_as_with_naive_sides() -> None:
    for number in range(20_000):
        _compare(seed() + number)


def test_random_programs_come_to_every_ending() -> None:
    """Else the comparison above would compare nothing much."""
    seen: Counter[str] = Counter()
    for number in range(40):
        batches = random_batches(random.Random(number), steps=25)
        seen["candidates"] += check_progress(random.Random(number), batches)
        seen += check_waiting(random.Random(number), batches)
    assert min(seen[s] for s in ("candidates", "completed", "expired", "cancelled")) > 50, seen
    assert seen["rejected"] > 50, seen


@settings(max_examples=100, deadline=None, database=None)
@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_small_random_programs_go_as_with_naive_sides(rng: random.Random, steps: int) -> None:
    batches = random_batches(rng, steps)
    check_progress(rng, batches)
    check_waiting(rng, batches)


def forgetful_moments(needs: list[Row], news: list[Row], keep_ms: int) -> dict[str, int]:
    """From when each requirement holds if a key is forgotten as soon as that is allowed.

    Row by row in the order of time: it is, when nobody waits and the last news are too old.
    """
    moments: dict[str, int] = {}
    for key in KEYS:
        rows = [(row["at_ms"], 0, row) for row in news if row["key"] == key]
        rows += [(row["submitted_ms"], 1, row) for row in needs if row["key"] == key]
        reached = busy_ms = None
        waiting: list[Row] = []
        for at_ms, kind, row in sorted(rows, key=lambda row: row[:2]):
            ended = [need["deadline_ms"] for need in waiting if need["deadline_ms"] < at_ms]
            waiting = [need for need in waiting if need["deadline_ms"] >= at_ms]
            busy_ms = max(ended, default=busy_ms) if busy_ms is None else max([busy_ms, *ended])
            if not waiting and busy_ms is not None and at_ms - busy_ms > keep_ms:
                reached = None
            busy_ms = at_ms
            if kind == 0:
                reached = row["offset"] if reached is None else max(reached, row["offset"])
            else:
                waiting.append(row)
            held = [n for n in waiting if reached is not None and n["offset"] <= reached]
            moments |= {need["id"]: at_ms for need in held}
            waiting = [need for need in waiting if need not in held]
    return moments


def check_forgetting(rng: random.Random) -> int:
    """No key is forgotten too early, however rows of a batch are ordered; return how many were."""
    keep_ms = rng.choice((0, 3, 20))
    times_ms = range(1, rng.choice((10, 50, 200)))
    needs = []
    for n in range(rng.randrange(12)):
        submitted_ms = rng.choice(times_ms)
        deadline_ms = submitted_ms + rng.choice((0, 5, 50))
        row = (f"{n}", n, 0, rng.choice(KEYS[:2]), rng.randrange(4), submitted_ms, deadline_ms)
        needs.append(dict(zip(REQUIREMENTS.names, row, strict=True)))
    news = [
        {"key": rng.choice(KEYS[:2]), "offset": rng.randrange(4), "at_ms": rng.choice(times_ms)}
        for _ in range(rng.randrange(12))
    ]
    given = arrow(needs, REQUIREMENTS), arrow(news, SIGNALS)
    now_ms = rng.choice((None, 25, 1000))
    best: list[dict[tuple[Any, ...], int]] = [{}, {}]
    _gather(best[0], Progress(forget_keys_after_ms=keep_ms).apply(*given, now_ms))
    _gather(best[1], Progress().apply(*given, now_ms))
    found, unforgetful = ({name[0]: ms for name, ms in moments.items()} for moments in best)
    for id, moment_ms in forgetful_moments(needs, news, keep_ms).items():
        assert found[id] <= moment_ms, id
    for id, moment_ms in found.items():
        assert unforgetful[id] <= moment_ms, id
    return len(unforgetful) - len(found)


def test_no_key_is_forgotten_too_early() -> None:
    forgotten = 0
    for number in range(80):
        try:
            forgotten += check_forgetting(random.Random(seed() + number))
        except Exception as error:
            raise AssertionError(f"program {seed() + number}") from error
    assert forgotten > 0
