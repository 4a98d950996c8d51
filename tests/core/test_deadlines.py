"""The deadline wheel: timers by number, in bulk."""

from __future__ import annotations

import ctypes
import gc
import threading
import tracemalloc
from array import array
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sojourn
from sojourn import DeadlineWheel
from sojourn.errors import OutOfRange
from tests.core.models.naive_wheel import NaiveWheel

if TYPE_CHECKING:
    from collections.abc import Callable

CENTURY_MS = 3_155_760_000_000


def read_only(numbers: list[int]) -> Any:
    frozen = np.array(numbers, dtype=np.int64)
    frozen.setflags(write=False)
    return frozen


def strided(numbers: list[int]) -> Any:
    wide = np.full(3 * len(numbers), -1, dtype=np.int64)
    wide[::3] = numbers
    return wide[::3]


def backwards(numbers: list[int]) -> Any:
    return np.array(numbers[::-1], dtype=np.int64)[::-1]


INPUTS: list[Callable[[list[int]], Any]] = [
    list,
    tuple,
    lambda numbers: array("q", numbers),
    lambda numbers: memoryview(array("q", numbers)),
    lambda numbers: np.array(numbers, dtype=np.int64),
    read_only,
    strided,
    backwards,
    lambda numbers: [np.int64(number) for number in numbers],
]
KINDS = [
    "list",
    "tuple",
    "array",
    "memoryview",
    "numpy",
    "read-only numpy",
    "strided numpy",
    "backwards numpy",
    "list of numpy integers",
]


@pytest.mark.parametrize("given", INPUTS, ids=KINDS)
def test_every_kind_of_input_means_the_same(given: Callable[[list[int]], Any]) -> None:
    wheel = DeadlineWheel()
    handles = list(wheel.add_many(given([5, 237, 7, 450, 7])))
    assert len(wheel) == 5
    assert wheel.cancel_many(given([handles[0], handles[3]])) == 2
    assert list(wheel.advance(7)) == [handles[2], handles[4]]
    assert list(wheel.advance(1_000)) == [handles[1]]


def test_a_ctypes_array_means_the_same_too() -> None:
    wheel = DeadlineWheel()
    handles = wheel.add_many((ctypes.c_int64 * 2)(5, 7))
    assert list(wheel.advance(5)) == [handles[0]]
    assert wheel.cancel_many((ctypes.c_int64 * 1)(handles[1])) == 1


def test_nothing_in_nothing_out() -> None:
    wheel = DeadlineWheel()
    for given in INPUTS:
        assert list(wheel.add_many(given([]))) == []
        assert wheel.cancel_many(given([])) == 0
    assert list(wheel.advance(10**12)) == []
    assert (len(wheel), wheel.next_expiration_ms) == (0, None)


def test_results_are_arrays_that_numpy_reads_without_copying() -> None:
    wheel = DeadlineWheel()
    handles = wheel.add_many(range(1, 4))
    due = wheel.advance(2)
    for result in (handles, due):
        assert type(result) is array
        assert result.typecode == "q"
        seen = np.frombuffer(result, dtype=np.int64)
        assert np.shares_memory(seen, np.frombuffer(result, dtype=np.int64))
        assert np.asarray(result).dtype == np.int64
        seen[0] = 77
        assert result[0] == 77


def test_results_are_ours_to_keep() -> None:
    wheel = DeadlineWheel()
    first = wheel.add_many([5, 6])
    copy = list(first)
    wheel.add_many(range(10, 10_000))
    wheel.advance(10**6)
    assert list(first) == copy


def test_bulk_programs_do_what_the_naive_wheel_does() -> None:
    for seed in range(12):
        rng = Random(seed)
        tick_ms, size = rng.choice([1, 1, 7, 20]), rng.choice([2, 3, 20, 64])
        now_ms = rng.choice([0, -12_345, 1_741_654_300_123, 2**60])
        wheel, model = DeadlineWheel(tick_ms, size, now_ms), NaiveWheel(tick_ms, now_ms)
        for at in range(60):
            where = f"seed {seed}, step {at}"
            given = rng.choice(INPUTS)
            what = rng.random()
            if what < 0.5:
                deadlines_ms = [
                    now_ms + rng.choice([rng.randint(-5, 50), rng.randint(0, 10**5), CENTURY_MS])
                    for _ in range(rng.randint(0, 200))
                ]
                handles = wheel.add_many(given(deadlines_ms))
                assert len(set(handles)) == len(handles), where
                assert not set(handles) & set(model.expiration_ms), where
                for handle, deadline_ms in zip(handles, deadlines_ms, strict=True):
                    model.add(handle, deadline_ms)
            elif what < 0.7:
                waiting = list(model.expiration_ms)
                some = rng.sample(waiting, rng.randint(0, len(waiting) // 2))
                some += some[:3]  # a handle given twice is cancelled once
                rng.shuffle(some)
                assert wheel.cancel_many(given(some)) == sum(map(model.cancel, some)), where
            else:
                now_ms += rng.choice([0, 1, 25, 400, rng.randint(0, 10**5)])
                due = list(wheel.advance(now_ms))
                assert len(set(due)) == len(due), where
                expected = [handle for _, group in model.advance(now_ms) for handle in group]
                assert set(due) == set(expected), where
            assert len(wheel) == len(model), where
            next_ms, true_next_ms = wheel.next_expiration_ms, model.next_due_ms()
            assert (next_ms is None) == (true_next_ms is None), where
            if next_ms is not None and true_next_ms is not None:
                assert next_ms <= true_next_ms, where


def test_earlier_ticks_are_handed_out_first() -> None:
    wheel = DeadlineWheel(wheel_size=3)
    deadlines_ms = [n for n in range(1, 300) for _ in range(2)]
    Random(4).shuffle(deadlines_ms)
    deadline_of = dict(zip(wheel.add_many(deadlines_ms), deadlines_ms, strict=True))
    assert [deadline_of[handle] for handle in wheel.advance(300)] == sorted(deadlines_ms)


def test_what_has_passed_already_is_handed_out_by_the_next_advance() -> None:
    wheel = DeadlineWheel(start_ms=100)
    handles = wheel.add_many([99, 100, 0, -(10**15), 101])
    assert len(wheel) == 5
    assert wheel.next_expiration_ms == 100
    assert set(wheel.advance(100)) == set(handles[:4])
    assert list(wheel.advance(101)) == [handles[4]]


def test_what_has_passed_already_can_still_be_cancelled() -> None:
    wheel = DeadlineWheel(start_ms=100)
    handles = wheel.add_many([99, 98, 97])
    assert wheel.cancel_many([handles[1]]) == 1
    assert set(wheel.advance(100)) == {handles[0], handles[2]}


def test_time_never_moves_back() -> None:
    wheel = DeadlineWheel()
    first, second = wheel.add_many([50, 60])
    assert list(wheel.advance(50)) == [first]
    assert list(wheel.advance(10)) == []
    assert list(wheel.advance(60)) == [second]


def test_centuries_are_waited_for_to_the_millisecond() -> None:
    wheel = DeadlineWheel()
    handles = wheel.add_many([50 * CENTURY_MS, 5 * CENTURY_MS, 5])
    assert list(wheel.advance(5 * CENTURY_MS - 1)) == [handles[2]]
    assert list(wheel.advance(5 * CENTURY_MS)) == [handles[1]]
    assert list(wheel.advance(50 * CENTURY_MS - 1)) == []
    assert list(wheel.advance(50 * CENTURY_MS)) == [handles[0]]


def test_a_handle_that_outlived_its_timer_is_passed_over() -> None:
    wheel = DeadlineWheel()
    due, cancelled, waiting = wheel.add_many([5, 6, 7])
    wheel.advance(5)
    assert wheel.cancel_many([cancelled]) == 1
    assert wheel.cancel_many([due, cancelled, waiting, due, waiting]) == 1
    assert len(wheel) == 0


def test_a_place_used_again_is_not_taken_for_the_one_before() -> None:
    wheel = DeadlineWheel()
    old: list[int] = []
    for now_ms in range(1, 1_000):
        [handle] = wheel.add_many([now_ms])
        assert handle not in old
        old.append(handle)
        if now_ms % 2:
            assert list(wheel.advance(now_ms)) == [handle]
        else:
            assert wheel.cancel_many([handle]) == 1
    [last] = wheel.add_many([10**6])
    assert wheel.cancel_many(old) == 0
    assert list(wheel.advance(10**6)) == [last]


def test_a_generation_that_is_yet_to_come_was_never_given_out() -> None:
    wheel = DeadlineWheel()
    first, second = wheel.add_many([5, 7])
    wheel.cancel_many([second])
    for never in (first + 2**32, second + 2**32, 2**40, 2**62 + first):
        with pytest.raises(
            OutOfRange, match=rf"^handles\[1\] is {never}, .*never gave out.*nothing"
        ):
            wheel.cancel_many([first, never])
        assert len(wheel) == 1
    [again] = wheel.add_many([9])
    assert again == second + 2**32
    assert wheel.cancel_many([second, again, first]) == 2


def test_a_refused_cancel_leaves_everything_where_it_was() -> None:
    """Down to the order within a tick, whatever had been cancelled before the bad handle came."""
    for seed in range(40):
        rng = Random(seed)
        pair = [DeadlineWheel(wheel_size=3, start_ms=50) for _ in range(2)]
        deadlines_ms = [rng.randint(40, 90) for _ in range(60)]
        handles, same = (list(wheel.add_many(deadlines_ms)) for wheel in pair)
        assert handles == same
        for wheel in pair:
            gone = list(wheel.advance(60)) + handles[:5]
            wheel.cancel_many(handles[:5])
        victims = rng.choices(handles + gone, k=rng.randint(1, 60))
        never = rng.choice([2**40, -1, 10**6])
        with pytest.raises(OutOfRange, match=rf"^handles\[{len(victims)}\] is {never}"):
            pair[0].cancel_many([*victims, never, *handles])
        assert len(pair[0]) == len(pair[1])
        for wheel in pair:
            wheel.add_many([65, 70, 75])
        for now_ms in range(60, 100, 3):
            assert pair[0].advance(now_ms) == pair[1].advance(now_ms), f"seed {seed}"


@pytest.mark.skipif(sojourn.compiled, reason="compiled, the fields of the slab cannot be seen")
def test_a_place_that_has_been_through_all_generations_is_not_used_again() -> None:
    wheel = DeadlineWheel()
    [handle] = wheel.add_many([5])
    last = 2**31 - 2
    wheel._sj_slots[3] |= last << 32  # as if it had been used that often
    assert wheel.cancel_many([handle]) == 0
    assert wheel.cancel_many([handle | last << 32]) == 1
    later = wheel.add_many([5, 6])
    assert [handle & 2**32 - 1 for handle in later] == [1, 2]
    with pytest.raises(OutOfRange):
        wheel.cancel_many([later[1], handle | (last + 1) << 32])
    assert list(wheel.advance(10)) == list(later)


def test_adding_and_cancelling_again_and_again_takes_no_more_room() -> None:
    wheel = DeadlineWheel()
    wheel.cancel_many(wheel.add_many(range(1_000, 1_200)))
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            assert wheel.cancel_many(wheel.add_many(range(1_000, 1_200))) == 200
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 1_000
    assert (len(wheel), wheel.next_expiration_ms) == (0, None)


def test_an_advance_with_nothing_due_asks_for_no_memory() -> None:
    wheel = DeadlineWheel()
    wheel.add_many(range(1_000, 101_000))
    tracemalloc.start()
    try:
        assert list(wheel.advance(300)) == []
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_a_million_timers_take_at_most_forty_bytes_each() -> None:
    count = (
        1_000_000 if sojourn.compiled else 20_000
    )  # interpreted, tracing a million takes minutes
    wheel = DeadlineWheel()
    deadlines_ms = np.arange(1, count + 1, dtype=np.int64)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        wheel.add_many(deadlines_ms)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(wheel) == count
    assert taken <= 40 * count


@pytest.mark.usefixtures("close_interleaving")
def test_threads_at_one_wheel_lose_no_timer_and_get_none_twice() -> None:
    wheel = DeadlineWheel(wheel_size=3)
    added: list[int] = []
    due: list[int] = []
    cancelled = 0
    count = threading.Lock()
    threads_adding, rounds = 3, 150

    def add(seed: int) -> None:
        nonlocal cancelled
        rng = Random(seed)
        for now_ms in range(rounds):
            handles = wheel.add_many([now_ms + rng.randint(-2, 60) for _ in range(10)])
            taken = wheel.cancel_many(handles[:3])
            handed_out = wheel.advance(now_ms)
            with count:
                added.extend(handles)
                due.extend(handed_out)
                cancelled += taken

    threads = [threading.Thread(target=add, args=(seed,)) for seed in range(threads_adding)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    due.extend(wheel.advance(10**9))
    assert len(added) == len(set(added)) == threads_adding * rounds * 10
    assert len(due) == len(set(due))
    assert set(due) <= set(added)
    assert len(due) + cancelled == len(added)
    assert (len(wheel), wheel.next_expiration_ms) == (0, None)
