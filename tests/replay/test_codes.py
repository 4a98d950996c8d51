"""The loops below replay, against the obvious way to do the same."""

from __future__ import annotations

import itertools
import pickle
import random

import numpy as np
import pyarrow as pa
import pytest

import sojourn
from sojourn.replay.arrays import repeated
from sojourn.replay.codes import Codes
from sojourn.replay.endings import end_all
from sojourn.replay.name_table import NameTable
from sojourn.replay.steps import Steps
from sojourn.replay.string_hashes import SEED, hashes, mixed
from sojourn.replay.threads import in_parts
from tests.rows.traces import LONG_KEYS, ODD_KEYS

MANY = 200_000 if sojourn.compiled else 5_000  # enough for several threads


def strings(rng: random.Random, count: int, different: int) -> list[str]:
    known = [*ODD_KEYS, *LONG_KEYS, *(f"{n}" * rng.randint(1, 5) for n in range(different))]
    return [rng.choice(known) for _ in range(count)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize(
    ("count", "different"), [(0, 1), (1, 1), (63, 9), (3000, 900), (MANY, MANY)]
)
def test_equal_names_have_equal_numbers_and_others_have_others(
    count: int, different: int, kind: pa.DataType
) -> None:
    rng = random.Random(count)
    known, asked = strings(rng, count, different), strings(rng, count + 5, 2 * different)
    names = NameTable()
    # A slice, so that neither the strings nor their text begin at the beginning.
    numbers = names.look_up(pa.array(["before", *known, "after"], kind).slice(1, count))
    first: dict[str, int] = {}
    assert list(numbers) == [first.setdefault(text, len(first)) for text in known]
    assert names.count == len(first)
    for threads in (1, 3):
        found = names.find(pa.array(["x", *asked], kind).slice(1), threads)
        assert list(found) == [first.get(text, -1) for text in asked]
    assert names.column(numbers, kind).to_pylist() == known


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize(
    ("count", "different"), [(0, 1), (1, 1), (63, 9), (3000, 900), (MANY, MANY)]
)
def test_equal_strings_have_equal_codes_and_others_have_others(
    count: int, different: int, kind: pa.DataType
) -> None:
    rng = random.Random(count)
    known, asked = strings(rng, count, different), strings(rng, count + 5, 2 * different)
    # A slice, so that neither the strings nor their text begin at the beginning.
    codes = Codes(pa.array(["before", *known, "after"], kind).slice(1, count))
    first: dict[str, int] = {}
    assert codes.codes.tolist() == [first.setdefault(text, len(first)) for text in known]
    assert codes.count == len(first)
    for threads in (1, 3):
        found = codes.find(pa.array(["x", *asked], kind).slice(1), threads)
        assert found.tolist() == [first.get(text, -1) for text in asked]


@pytest.mark.parametrize("count", [0, 1, 2, 5000, MANY])
def test_hashes_that_are_there_twice_are_found(count: int) -> None:
    texts = [f"order-{n}" for n in range(count)]
    assert not len(repeated(hashes(pa.array(texts, pa.string()))))
    rng = random.Random(count)
    again = [*rng.sample(texts, min(count, 20)), "", ""]
    found = hashes(pa.array([*texts, *again]))
    assert repeated(found).tolist() == sorted(found[count:-1].tolist())


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()], ids=str)
@pytest.mark.parametrize("seed", [SEED, 7])
def test_a_string_has_one_hash_whatever_stands_beside_it(kind: pa.DataType, seed: int) -> None:
    texts = pa.array(["", *ODD_KEYS, *LONG_KEYS, "12345678", "0123456789abcdef"], kind)
    together = hashes(texts, seed).tolist()
    assert together == [hashes(texts.slice(n, 1), seed)[0] for n in range(len(texts))]
    assert together == hashes(texts, seed, threads=3).tolist()
    assert len(set(together)) == len(set(texts.to_pylist()))
    if not sojourn.compiled:
        from sojourn.replay.string_hashes import hash_one  # compiled, only C sees it

        data = [text.encode() if isinstance(text, str) else text for text in texts.to_pylist()]
        assert together == [hash_one(text, 0, len(text), seed) for text in data]


def test_numbers_are_mixed_one_by_one() -> None:
    numbers = np.arange(5, dtype=np.uint64)
    assert mixed(numbers).tolist() == [int(mixed(numbers[n : n + 1])[0]) for n in range(5)]
    assert mixed(numbers, np.arange(5)).tolist() == [0] * 5
    assert numbers.tolist() == [*range(5)]


@pytest.mark.parametrize("order", ["time", "offset", "none", "backwards"])
@pytest.mark.parametrize("keys", [1, 3, 500])
def test_a_requirement_holds_from_the_earliest_signal_that_reaches_it(
    order: str, keys: int
) -> None:
    rng = random.Random(f"{order} {keys}")
    count = MANY if keys == 1 else 2000
    signals = [
        (f"k{rng.randrange(keys)}", rng.randrange(1000), rng.randrange(1000)) for _ in range(count)
    ]
    if order == "time":
        signals.sort(key=lambda signal: signal[2])
    elif order == "offset":
        signals.sort(key=lambda signal: signal[1])
    elif order == "backwards":
        signals.sort(key=lambda signal: -signal[2])
    asked = [(f"k{rng.randrange(keys + 1)}", rng.randrange(1005)) for _ in range(500)]
    steps = Steps(
        pa.array([key for key, _, _ in signals]),
        np.array([offset for _, offset, _ in signals]),
        np.array([at for _, _, at in signals]),
    )
    moments, holds = steps.held_ms(
        pa.array([key for key, _ in asked]), np.array([offset for _, offset in asked])
    )
    best: dict[tuple[str, int], int] = {}
    for key, offset, at in signals:
        best[key, offset] = min(at, best.get((key, offset), at))
    for n, (key, least) in enumerate(asked):
        reached = [best[key, offset] for offset in range(least, 1000) if (key, offset) in best]
        assert bool(holds[n]) == bool(reached)
        assert not reached or moments[n] == min(reached)


@pytest.mark.parametrize("parts", [0, 1, 2, 7])
def test_steps_found_in_parts_and_sent_elsewhere_are_those_of_all_signals(parts: int) -> None:
    rng = random.Random(parts)
    count = 3000 if parts else 0
    keys = pa.array([rng.choice(("", "a", "long " * 9, f"k{n % 300}")) for n in range(count)])
    keys = keys.cast(pa.string())
    offsets, at_ms = (np.array([rng.randrange(500) for _ in range(count)], int) for _ in "ab")
    at = [*sorted(rng.sample(range(count), parts - 1)), count] if parts else []
    pieces = [slice(a, b) for a, b in itertools.pairwise([0, *at])]
    found = [Steps(keys[piece], offsets[piece], at_ms[piece]) for piece in pieces]
    if parts == 7:  # some of them with wide strings
        piece = pieces[3]
        wide = keys[piece].cast(pa.large_string())
        found[3] = Steps(wide, offsets[piece], at_ms[piece])
    merged = pickle.loads(pickle.dumps(Steps.merged(pickle.loads(pickle.dumps(found)))))
    asked = pa.array([rng.choice(("", "a", "nobody", f"k{n % 300}")) for n in range(1000)])
    least = np.array([rng.randrange(510) for _ in range(1000)])
    moments, holds = merged.held_ms(asked, least)
    expected, expected_holds = Steps(keys, offsets, at_ms).held_ms(asked, least)
    assert holds.tolist() == expected_holds.tolist()
    assert moments[holds].tolist() == expected[holds].tolist()
    assert len(merged) == len(Steps(keys, offsets, at_ms)) <= count


def test_signals_that_make_no_step_are_not_kept() -> None:
    keys = pa.array(["a"] * 1000)
    steps = Steps(keys, np.arange(1000, 0, -1), np.arange(1000))
    assert len(steps) == 1
    assert len(pickle.dumps(steps)) < 1000


def test_a_condition_that_held_before_the_submission_holds_from_the_submission_on() -> None:
    keys, ones = pa.array(["k", "k"]), np.array([1, 1])
    moments, holds = Steps(pa.array(["k"]), ones[:1], np.array([5])).held_ms(keys, ones)
    submitted_ms, timeout_ms = np.array([3, 9]), np.array([10, 10])
    endings = end_all(submitted_ms, timeout_ms, ones, np.arange(3), moments, holds, keys)
    assert endings.at_ms.tolist() == [5, 9]


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 40, 1000])
def test_the_nth_of_many_moments_is_found(size: int) -> None:
    rng = random.Random(size)
    for needed in {1, 2, size // 2, size - 1, size} - {0}:
        if needed > size:
            continue
        moments = [rng.randrange(10 * size) for _ in range(size)]
        holds = [rng.random() < 0.9 for _ in range(size)]
        keys = [str(rng.randrange(50)) for _ in range(size)]
        endings = end_all(
            np.array([0]),
            np.array([10**6]),
            np.array([needed]),
            np.array([0, size]),
            np.array(moments),
            np.array(holds),
            pa.array(keys),
        )
        held = sorted((m, k) for m, k, h in zip(moments, keys, holds, strict=True) if h)
        assert endings.has_condition[0] == (len(held) >= needed)
        if len(held) >= needed:
            moment = held[needed - 1][0]
            assert endings.condition_ms[0] == moment
            assert keys[endings.by[0]] == min(k for m, k in held if m == moment)


def test_work_in_parts_covers_everything_once_and_errors_come_out() -> None:
    done: list[int] = []
    in_parts(lambda begin, end: done.extend(range(begin, end)), 10, 3, 1)
    assert sorted(done) == [*range(10)]
    with pytest.raises(ZeroDivisionError):
        in_parts(lambda _, end: 1 // (end - 10), 10, 3, 1)
