"""A wheel shared by threads, and finalisers that call it in the middle of a step."""

from __future__ import annotations

import gc
import threading
from random import Random

import pytest

import sojourn
from sojourn import TimerTask, TimingWheel
from sojourn.core.guard import GUARD
from sojourn.errors import Reentered


@pytest.mark.usefixtures("close_interleaving")
def test_threads_at_one_wheel_lose_no_task_and_get_none_twice() -> None:
    """Each task ends exactly once: returned by one advance, or cancelled with True once."""
    wheel = TimingWheel(wheel_size=3)
    now_ms = 0
    adders, per_adder = 3, 1_500
    added: list[list[TimerTask]] = [[] for _ in range(adders)]
    cancelled: list[TimerTask] = []
    due: list[TimerTask] = []
    refused: list[TimerTask] = []
    adding = threading.Barrier(adders + 2)
    done_adding = threading.Event()

    def add(mine: list[TimerTask], seed: int) -> None:
        rng = Random(seed)
        adding.wait(30)
        for _ in range(per_adder):
            task = TimerTask(0)
            if not wheel.add(task, now_ms + rng.randint(1, 60)):
                refused.append(task)
            mine.append(task)
            other = rng.choice(rng.choice([some for some in added if some]))
            if rng.random() < 0.5 and other.cancel():
                cancelled.append(other)

    def advance() -> None:
        nonlocal now_ms
        adding.wait(30)
        while not done_adding.is_set():
            now_ms += 1
            due.extend(wheel.advance(now_ms))

    threads = [threading.Thread(target=add, args=(added[n], n)) for n in range(adders)]
    movers = [threading.Thread(target=advance) for _ in range(2)]
    for thread in threads + movers:
        thread.start()
    for thread in threads:
        thread.join(60)
    done_adding.set()
    for thread in movers:
        thread.join(60)
    due.extend(wheel.advance(10**9))

    ended = [id(task) for task in due + cancelled + refused]
    assert len(ended) == adders * per_adder
    assert len(set(ended)) == len(ended)
    assert len(wheel) == 0
    assert wheel.next_expiration_ms is None


@pytest.mark.usefixtures("close_interleaving")
def test_threads_moving_the_same_tasks_leave_the_wheel_whole() -> None:
    wheel = TimingWheel(wheel_size=2)
    tasks = [TimerTask(0) for _ in range(20)]
    finished: list[int] = []

    def move(seed: int) -> None:
        rng = Random(seed)
        for now_ms in range(1, 1_500):
            task = rng.choice(tasks)
            what = rng.random()
            if what < 0.6:
                wheel.add(task, now_ms + rng.randint(1, 30))
            elif what < 0.8:
                task.cancel()
            else:
                wheel.advance(now_ms)
        finished.append(seed)

    threads = [threading.Thread(target=move, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(finished) == [0, 1, 2, 3]
    shown = wheel.snapshot()
    waiting = [task for level in shown.levels for b in level.buckets for task in b.tasks]
    assert len(wheel) == len(waiting) == len({id(task) for task in waiting})
    assert {id(task) for task in waiting} == {
        id(task) for task in tasks if task.expiration_ms is not None
    }
    assert {id(task) for task in wheel.advance(10**9)} == {id(task) for task in waiting}
    assert len(wheel) == 0


def test_a_finaliser_that_cancels_while_the_collector_runs_does_no_harm() -> None:
    """The collector runs at nearly every allocation, so also in the middle of steps."""
    wheel = TimingWheel(wheel_size=2)
    cancelled = 0

    class Request:
        """In a circle with itself, so that only the collector ends it."""

        def __init__(self, expiration_ms: int) -> None:
            self.me = self
            self.timeout = TimerTask(0)
            wheel.add(self.timeout, expiration_ms)

        def __del__(self) -> None:
            nonlocal cancelled
            cancelled += self.timeout.cancel()

    before = gc.get_threshold()
    gc.set_threshold(2, 2, 2)
    due = refused = 0
    try:
        for now_ms in range(1_000):
            request = Request(now_ms + 1 + now_ms % 40)
            refused += request.timeout.expiration_ms is None
            del request
            due += len(wheel.advance(now_ms))
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert cancelled > 100
    assert due + refused + cancelled == 1_000
    assert len(wheel) == 0
    assert wheel.next_expiration_ms is None


@pytest.mark.skipif(sojourn.compiled, reason="compiled, a step cannot be interrupted")
def test_in_the_middle_of_a_step_a_cancel_is_put_off_and_all_else_is_refused() -> None:
    wheel = TimingWheel()
    first, second = TimerTask(0), TimerTask(0)
    wheel.add(first, 5)
    wheel.add(second, 5)
    with GUARD:  # where a finaliser or a signal handler finds itself
        assert first.cancel()
        assert len(wheel) == 2
        with pytest.raises(Reentered, match="use the compiled build"):
            wheel.add(TimerTask(0), 7)
    assert len(wheel) == 1
    assert wheel.advance(7) == [second]
