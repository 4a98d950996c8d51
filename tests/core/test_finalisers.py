"""Finalisers: the collector may run one at any allocation, and it may call anything of ours.

Whatever a finaliser does then comes before or after what it interrupts, never in the middle.
"""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import TYPE_CHECKING

import pytest

import sojourn
from sojourn import DeadlineWheel, ManualClock, Timer, TimerTask, TimingWheel
from sojourn.core.guard import GUARD
from tests.until import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CENTURY_MS = 3_155_760_000_000
DELAYS_MS = [1, 2, 30, 500, 9_000, 10**6, 10**9, CENTURY_MS]


class Garbage:
    """In a circle with itself, so that only the collector ends it; then it acts."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.me = self
        self._act = act

    def __del__(self) -> None:
        self._act()


@contextmanager
def an_eager_collector() -> Iterator[Callable[[int], None]]:
    """The collector runs after so many allocations; at first at every one."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1, 1, 1)
    try:
        yield gc.set_threshold
    finally:
        gc.set_threshold(*before)
        gc.collect()


class Tasks:
    """A timing wheel, and what became of every task that was put in."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.wheel = TimingWheel(wheel_size=rng.choice([2, 3, 20]))
        self.now_ms = 0
        self.added: list[TimerTask] = []
        self.ended: list[TimerTask] = []

    def act(self) -> None:
        what = self.rng.random()
        if what < 0.6:
            task = TimerTask(0)
            self.added.append(task)
            if not self.wheel.add(task, self.now_ms + self.rng.choice(DELAYS_MS)):
                self.ended.append(task)
        elif what < 0.7 and self.added:
            task = self.rng.choice(self.added)
            if task.cancel():
                self.ended.append(task)
        elif what < 0.8:
            shown = self.wheel.snapshot()
            tasks = [task for level in shown.levels for b in level.buckets for task in b.tasks]
            assert shown.waiting == len(tasks) == len({id(task) for task in tasks})
        else:
            self.now_ms += self.rng.choice([0, 1, 40, 10**4])
            self.ended += self.wheel.advance(self.now_ms)

    def check(self) -> None:
        self.ended += self.wheel.advance(self.now_ms + 2 * CENTURY_MS)
        assert sorted(map(id, self.ended)) == sorted(map(id, self.added))
        assert len(self.wheel) == 0
        assert self.wheel.next_expiration_ms is None


class Handles:
    """A deadline wheel, and what became of every timer that was put in."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.wheel = DeadlineWheel(wheel_size=rng.choice([2, 3, 20]))
        self.now_ms = 0
        self.added: list[int] = []
        self.due: list[int] = []
        self.cancelled: list[int] = []

    def act(self) -> None:
        what = self.rng.random()
        if what < 0.6:
            count = self.rng.choice([1, 3, 50, 300])
            delays_ms = self.rng.choices([-1, *DELAYS_MS], k=count)
            self.added += self.wheel.add_many([self.now_ms + delay_ms for delay_ms in delays_ms])
        elif what < 0.7 and self.added:
            some = self.rng.choices(self.added, k=5)
            self.cancelled.append(self.wheel.cancel_many(some))
        else:
            self.now_ms += self.rng.choice([0, 1, 40, 10**4])
            self.due += self.wheel.advance(self.now_ms)

    def check(self) -> None:
        self.due += self.wheel.advance(self.now_ms + 2 * CENTURY_MS)
        assert len(set(self.due)) == len(self.due)
        assert set(self.due) <= set(self.added)
        assert len(self.due) + sum(self.cancelled) == len(self.added)
        assert len(self.wheel) == 0
        assert self.wheel.next_expiration_ms is None


@pytest.mark.parametrize("kind", [Tasks, Handles])
def test_whatever_a_finaliser_does_to_a_wheel_no_timer_is_lost_or_had_twice(
    kind: type[Tasks | Handles],
) -> None:
    for seed in range(20 if sojourn.compiled else 8):
        world = kind(Random(seed))
        with an_eager_collector() as after:
            for _ in range(40):
                Garbage(world.act)
                after(world.rng.randint(1, 40))
                world.act()
        world.check()


def test_whatever_a_finaliser_does_to_a_timer_every_task_runs_once() -> None:
    for seed in range(8):
        rng = Random(seed)
        clock = ManualClock()
        timer = Timer(clock, wheel_size=2)
        names = count()
        ran: list[int] = []
        cancelled: list[bool] = []

        def act(
            rng: Random = rng,
            clock: ManualClock = clock,
            timer: Timer = timer,
            names: count[int] = names,
            ran: list[int] = ran,
            cancelled: list[bool] = cancelled,
        ) -> None:
            if rng.random() < 0.7:
                task = timer.call_later(rng.choice([0, *DELAYS_MS]), ran.append, next(names))
                if rng.random() < 0.2:
                    cancelled.append(task.cancel())
            else:
                clock.advance(rng.choice([0, 1, 40, 10**4]))

        with an_eager_collector() as after:
            for _ in range(40):
                Garbage(act)
                after(rng.randint(1, 40))
                act()
        clock.advance(2 * CENTURY_MS)
        assert len(set(ran)) == len(ran)
        assert len(ran) + sum(cancelled) == next(names)
        assert len(timer) == 0


def test_a_finaliser_may_wait_for_a_thread_that_is_at_the_wheel_too() -> None:
    """It would wait for ever, if it ran in the middle of a step."""
    wheel = TimingWheel(wheel_size=2)
    stuck = 0

    def add() -> None:
        wheel.add(TimerTask(0), CENTURY_MS)

    def add_elsewhere() -> None:
        nonlocal stuck
        if stuck:
            return  # once is enough
        thread = threading.Thread(target=add, daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        stuck += thread.is_alive()

    for size in range(2, 12):
        wheel = TimingWheel(wheel_size=size)
        with an_eager_collector() as after:
            for delay_ms in DELAYS_MS:
                Garbage(add_elsewhere)
                after(size)
                wheel.add(TimerTask(0), delay_ms)
                wheel.snapshot()
        assert stuck == 0


# The guard of the interpreted build.

interpreted = pytest.mark.skipif(sojourn.compiled, reason="compiled, there is no guard")


@interpreted
def test_no_collection_starts_in_the_middle_of_a_step() -> None:
    wheel = TimingWheel()
    seen: list[bool] = []

    def note(phase: str, _info: object) -> None:
        seen.append(GUARD.held_here())

    gc.callbacks.append(note)
    try:
        with an_eager_collector():
            for delay_ms in DELAYS_MS:
                wheel.add(TimerTask(0), delay_ms)
                wheel.snapshot()
            wheel.advance(CENTURY_MS)
    finally:
        gc.callbacks.remove(note)
    assert len(seen) > 20
    assert not any(seen)


@interpreted
@pytest.mark.parametrize("on", [True, False])
def test_after_a_step_collection_is_on_if_it_was_on_before(on: bool) -> None:
    wheel, other = TimingWheel(), TimingWheel()
    task = TimerTask(0)
    other.add(task, 5)
    (gc.enable if on else gc.disable)()
    try:
        wheel.add(TimerTask(0), 5)
        assert gc.isenabled() == on
        with pytest.raises(sojourn.errors.AlreadyWaiting):
            wheel.add(task, 5)
        assert gc.isenabled() == on
        with GUARD:
            assert not gc.isenabled()
        assert gc.isenabled() == on
    finally:
        gc.enable()
