"""The timing wheel: the worked cases as they are drawn, and what holds at every moment."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

import sojourn
from sojourn import TimerTask, TimingWheel
from sojourn.core.levels import Levels
from sojourn.errors import AlreadyWaiting
from tests.checkout import ROOT
from tests.core.models import corners
from tests.seeds import seed

if TYPE_CHECKING:
    pass

CENTURY_MS = 3_155_760_000_000


def tasks_at(wheel: TimingWheel, *expirations_ms: int) -> list[TimerTask]:
    """Put in a task for each time."""
    tasks = [TimerTask(0) for _ in expirations_ms]
    for task, expiration_ms in zip(tasks, expirations_ms, strict=True):
        assert wheel.add(task, expiration_ms)
    return tasks


class Drawn(NamedTuple):
    """A bucket in use, as one would draw it: its level, its span, the times in it."""

    level: int
    first_ms: int
    end_ms: int
    holds: list[int | None]


def drawing(wheel: TimingWheel) -> list[Drawn]:
    return [
        Drawn(
            number,
            bucket.expiration_ms,
            bucket.expiration_ms + level.tick_ms,
            [task.expiration_ms for task in bucket.tasks],
        )
        for number, level in enumerate(wheel.snapshot().levels)
        for bucket in level.buckets
    ]


# The worked cases.


def test_237_from_0_lands_on_level_1_in_the_bucket_that_expires_at_220() -> None:
    wheel = TimingWheel()
    tasks_at(wheel, 237)
    assert drawing(wheel) == [Drawn(1, 220, 240, [237])]
    assert wheel.snapshot().levels[1].buckets[0].index == 11
    assert wheel.next_expiration_ms == 220


def test_a_delay_of_450_moves_down_twice_and_is_due_at_450() -> None:
    wheel = TimingWheel()
    [task] = tasks_at(wheel, 450)
    assert drawing(wheel) == [Drawn(2, 400, 800, [450])]
    assert wheel.advance(399) == []
    assert drawing(wheel) == [Drawn(2, 400, 800, [450])]
    assert wheel.advance(400) == []
    assert drawing(wheel) == [Drawn(1, 440, 460, [450])]
    assert wheel.advance(440) == []
    assert drawing(wheel) == [Drawn(0, 450, 451, [450])]
    assert wheel.advance(449) == []
    assert wheel.advance(450) == [task]
    assert drawing(wheel) == []


def test_delays_18_and_123_lie_on_levels_0_and_1() -> None:
    wheel = TimingWheel()
    tasks_at(wheel, 18, 123)
    assert drawing(wheel) == [Drawn(0, 18, 19, [18]), Drawn(1, 120, 140, [123])]
    assert wheel.snapshot().levels[0].buckets[0].index == 18


def test_six_tasks_on_a_wheel_of_three_fall_as_the_drawing_shows() -> None:
    wheel = TimingWheel(tick_ms=1, wheel_size=3)
    at_1, at_17, at_3, at_5, at_9, at_14 = tasks_at(wheel, 1, 17, 3, 5, 9, 14)
    assert drawing(wheel) == [
        Drawn(0, 1, 2, [1]),
        Drawn(1, 3, 6, [3, 5]),
        Drawn(2, 9, 18, [17, 9, 14]),
    ]
    assert wheel.advance(1) == [at_1]
    assert wheel.advance(3) == [at_3]
    assert drawing(wheel) == [Drawn(0, 5, 6, [5]), Drawn(2, 9, 18, [17, 9, 14])]
    assert wheel.advance(5) == [at_5]
    assert wheel.advance(9) == [at_9]
    assert drawing(wheel) == [Drawn(1, 12, 15, [14]), Drawn(1, 15, 18, [17])]
    assert wheel.advance(14) == [at_14]
    assert wheel.advance(17) == [at_17]


def test_with_tick_20_the_time_123_floors_to_120() -> None:
    assert TimingWheel(tick_ms=20, start_ms=123).snapshot().levels[0].current_ms == 120
    assert TimingWheel(tick_ms=20, start_ms=-123).snapshot().levels[0].current_ms == -140


def test_four_levels_hold_anything_below_160_seconds() -> None:
    wheel = TimingWheel()
    tasks_at(wheel, 159_999)
    assert [level.interval_ms for level in wheel.snapshot().levels] == [20, 400, 8_000, 160_000]
    tasks_at(wheel, 160_000)
    assert len(wheel.snapshot().levels) == 5


def test_a_snapshot_has_its_buckets_in_order_of_expiry_also_where_the_wheel_wraps_round() -> None:
    wheel = TimingWheel(start_ms=15)
    tasks_at(wheel, 22, 18, 30)
    snapshot = wheel.snapshot()
    used = [(bucket.index, bucket.expiration_ms) for bucket in snapshot.levels[0].buckets]
    assert used == [(18, 18), (2, 22), (10, 30)]
    assert snapshot.next_expiration_ms == 18
    assert snapshot.waiting == 3


def test_printing_a_snapshot_draws_it() -> None:
    wheel = TimingWheel()
    tasks_at(wheel, 18, 123, 139, 450)
    wheel.advance(5)
    assert str(wheel.snapshot()).splitlines() == [
        "4 waiting, next bucket expires at 18",
        "level 0  tick 1 ms  at 0  [18, 19): 1",
        "level 1  tick 20 ms  at 0  [120, 140): 2",
        "level 2  tick 400 ms  at 0  [400, 800): 1",
    ]
    assert str(TimingWheel().snapshot()).splitlines() == [
        "0 waiting, next bucket expires at None",
        "level 0  tick 1 ms  at 0  -",
    ]


# Adding, cancelling, moving.


def test_a_level_is_made_only_when_it_is_needed() -> None:
    wheel = TimingWheel()
    assert len(wheel.snapshot().levels) == 1
    tasks_at(wheel, 19)
    assert len(wheel.snapshot().levels) == 1
    tasks_at(wheel, 20)
    assert len(wheel.snapshot().levels) == 2


def test_an_overflow_level_starts_at_the_time_of_the_level_below() -> None:
    wheel = TimingWheel(start_ms=1_234)
    tasks_at(wheel, 1_300)
    assert [level.current_ms for level in wheel.snapshot().levels] == [1_234, 1_220]


def test_what_is_due_already_is_not_added() -> None:
    wheel = TimingWheel(tick_ms=20, start_ms=123)
    task = TimerTask(0)
    assert not wheel.add(task, 139)
    assert not wheel.add(task, -(10**15))
    assert len(wheel) == 0
    assert task.expiration_ms is None
    assert wheel.add(task, 140)


def test_adding_a_waiting_task_moves_it() -> None:
    wheel = TimingWheel()
    [task] = tasks_at(wheel, 5)
    assert wheel.add(task, 237)
    assert len(wheel) == 1
    assert wheel.advance(100) == []
    assert wheel.add(task, 150)
    assert wheel.advance(150) == [task]
    assert wheel.advance(1_000) == []


def test_moving_a_waiting_task_to_a_time_that_has_passed_takes_it_out() -> None:
    wheel = TimingWheel(start_ms=10)
    [task] = tasks_at(wheel, 50)
    assert not wheel.add(task, 5)
    assert len(wheel) == 0
    assert wheel.advance(1_000) == []


def test_a_cancelled_task_is_never_due() -> None:
    wheel = TimingWheel()
    first, second = tasks_at(wheel, 5, 5)
    assert first.cancel()
    assert len(wheel) == 1
    assert wheel.advance(10) == [second]


def test_cancel_says_true_once() -> None:
    wheel = TimingWheel()
    [task] = tasks_at(wheel, 5)
    assert [task.cancel(), task.cancel()] == [True, False]


def test_a_task_that_waits_nowhere_cannot_be_cancelled() -> None:
    wheel = TimingWheel()
    [due] = tasks_at(wheel, 5)
    wheel.advance(5)
    assert not due.cancel()
    assert not TimerTask(5).cancel()


def test_a_task_may_be_added_again_after_it_was_due_or_cancelled() -> None:
    wheel = TimingWheel()
    [task] = tasks_at(wheel, 5)
    assert wheel.advance(5) == [task]
    assert wheel.add(task, 10)
    assert task.cancel()
    assert wheel.add(task, 11)
    assert wheel.advance(11) == [task]


def test_a_task_of_another_wheel_is_refused_and_stays_there() -> None:
    first, second = TimingWheel(), TimingWheel()
    [task] = tasks_at(first, 5)
    with pytest.raises(AlreadyWaiting, match="cancel it there first"):
        second.add(task, 7)
    assert (len(first), len(second), task.expiration_ms) == (1, 0, 5)
    assert first.advance(5) == [task]
    assert second.add(task, 7)


def test_clear_cancels_everything_and_counts_it() -> None:
    wheel = TimingWheel()
    tasks = tasks_at(wheel, 5, 237, 10**9)
    assert wheel.clear() == 3
    assert len(wheel) == 0
    assert wheel.next_expiration_ms is None
    assert not any(task.cancel() for task in tasks)
    assert wheel.advance(10**10) == []


# Time.


def test_time_never_moves_back() -> None:
    wheel = TimingWheel()
    first, second = tasks_at(wheel, 50, 60)
    assert wheel.advance(50) == [first]
    assert wheel.advance(10) == []
    assert wheel.snapshot().levels[0].current_ms == 50
    assert not wheel.add(TimerTask(0), 50)
    assert wheel.advance(60) == [second]


def test_the_wheel_says_when_its_next_bucket_expires() -> None:
    wheel = TimingWheel()
    assert wheel.next_expiration_ms is None
    later, sooner = tasks_at(wheel, 237, 7)
    assert wheel.next_expiration_ms == 7
    sooner.cancel()
    assert wheel.next_expiration_ms == 220
    later.cancel()
    assert wheel.next_expiration_ms is None


def test_an_empty_advance_changes_nothing() -> None:
    wheel = TimingWheel()
    before = wheel.snapshot()
    assert wheel.advance(10**12) == []
    assert wheel.snapshot() == before


def test_earlier_ticks_are_due_before_later_ones_whatever_their_level() -> None:
    wheel = TimingWheel(tick_ms=1, wheel_size=3)
    times_ms = list(range(1, 200))
    Random(3).shuffle(times_ms)
    for at_ms in times_ms:
        wheel.add(TimerTask(at_ms), at_ms)
    assert [task.delay_ms for task in wheel.advance(200)] == sorted(times_ms)


def test_of_two_buckets_that_expire_together_the_finer_is_first() -> None:
    wheel = TimingWheel()
    coarse, at_5, at_7 = tasks_at(wheel, 20, 5, 7)
    assert wheel.advance(5) == [at_5]
    [fine] = tasks_at(wheel, 20)
    assert [(drawn.level, drawn.first_ms) for drawn in drawing(wheel)] == [(0, 7), (0, 20), (1, 20)]
    assert wheel.advance(20) == [at_7, fine, coarse]


def test_the_next_bucket_is_the_earliest_in_use_whatever_came_and_went() -> None:
    wheel = TimingWheel(wheel_size=64)
    rng = Random(seed())
    waiting_ms: set[int] = set()
    now_ms = 0
    for _ in range(500):
        fresh_ms = {now_ms + rng.randint(1, 63) for _ in range(3)} - waiting_ms
        tasks_at(wheel, *fresh_ms)
        waiting_ms |= fresh_ms
        for _ in range(rng.randint(1, 3)):
            now_ms = min(waiting_ms)
            assert wheel.next_expiration_ms == now_ms
            assert len(wheel.advance(now_ms)) == 1
            waiting_ms.remove(now_ms)
            if not waiting_ms:
                break
    assert len(wheel) == len(waiting_ms)


def test_the_slot_of_a_bucket_is_its_tick_modulo_the_size_wherever_time_starts() -> None:
    for start_ms in (-123, 0, 123):
        wheel = TimingWheel(tick_ms=7, wheel_size=5, start_ms=start_ms)
        times_ms = range(start_ms + 7, start_ms + 600, 9)
        tasks_at(wheel, *times_ms, *reversed(times_ms))  # also when all levels are there
        for level in wheel.snapshot().levels:
            for bucket in level.buckets:
                assert bucket.expiration_ms % level.tick_ms == 0
                assert bucket.index == bucket.expiration_ms // level.tick_ms % 5


def test_tasks_before_time_zero_are_due_in_their_tick_too() -> None:
    wheel = TimingWheel(start_ms=-300)
    tasks = tasks_at(wheel, *range(-299, 10))
    for at_ms, task in zip(range(-299, 10), tasks, strict=True):
        assert wheel.advance(at_ms) == [task]


def test_a_level_that_would_span_more_than_64_bits_spans_all_there_is() -> None:
    wheel = TimingWheel(tick_ms=2**58, wheel_size=64, start_ms=2**58)
    tasks_at(wheel, 2**61 - 1)
    assert [level.interval_ms for level in wheel.snapshot().levels] == [2**63 - 1]
    assert drawing(wheel) == [Drawn(0, 7 * 2**58, 2**61, [2**61 - 1])]
    widest = TimingWheel(tick_ms=2**57 - 1, wheel_size=64).snapshot().levels[0]
    assert widest.interval_ms == 64 * (2**57 - 1)


@pytest.mark.skipif(sojourn.compiled, reason="compiled, a method of a wheel cannot be replaced")
def test_a_level_is_right_although_time_moved_while_it_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = TimingWheel(start_ms=15)
    [sooner] = tasks_at(wheel, 30)
    spanning = Levels.spanning

    def slow_spanning(levels: Levels, expiration_ms: int) -> Levels:
        larger = spanning(levels, expiration_ms)
        assert wheel.advance(30) == [sooner]  # as another thread may
        return larger

    monkeypatch.setattr(Levels, "spanning", slow_spanning)
    tasks_at(wheel, 100)
    assert [level.current_ms for level in wheel.snapshot().levels] == [30, 20]
    assert drawing(wheel) == [Drawn(1, 100, 120, [100])]


def test_centuries_are_waited_for_to_the_millisecond() -> None:
    wheel = TimingWheel()
    [task] = tasks_at(wheel, 500 * CENTURY_MS)
    assert wheel.advance(500 * CENTURY_MS - 1) == []
    assert wheel.advance(500 * CENTURY_MS) == [task]


@pytest.mark.parametrize(("size", "programs"), [(2, 60), (3, 60), (20, 60), (2**20, 10)])
def test_programs_at_the_ends_of_all_time_do_what_the_naive_wheel_does(
    size: int, programs: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", corners.__name__, str(size), str(programs)],
        cwd=ROOT,
        env=os.environ | ({} if sojourn.compiled else {"SOJOURN_PURE": "1"}),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
