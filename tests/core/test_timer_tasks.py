"""A timer's tasks: what they may do, how they are cancelled, and when they may be added again."""

from __future__ import annotations

import threading

import pytest

from sojourn import ManualClock, Timer, TimerTask
from sojourn.errors import AlreadyWaiting, Closed, TaskReleased
from tests.core.system_timer import HOUR_MS, SOON_S, Gate, finish, nothing, until_due

# From inside a task.


def test_a_task_may_add_tasks(timer: Timer) -> None:
    ran: list[int] = []
    done = threading.Event()

    def step(n: int) -> None:
        ran.append(n)
        if n == 5:
            done.set()
        else:
            timer.call_later(n % 2, step, n + 1)

    timer.call_later(1, step, 1)
    assert done.wait(SOON_S)
    assert ran == [1, 2, 3, 4, 5]


def test_a_task_may_cancel_its_neighbours(timer: Timer, gate: Gate) -> None:
    ran: list[str] = []
    said: list[bool] = []
    neighbours: list[TimerTask] = []
    timer.call_later(1, lambda: said.extend(task.cancel() for task in neighbours))
    neighbours.append(timer.call_later(30, ran.append, "due as well"))
    until_due(timer)
    neighbours.append(timer.call_later(HOUR_MS, ran.append, "waiting"))
    gate.open()
    finish(timer)
    assert (ran, said, len(timer)) == ([], [True, True], 0)


def test_a_task_that_cancels_itself_is_too_late(timer: Timer) -> None:
    said: list[bool] = []
    tasks: list[TimerTask] = []
    tasks.append(TimerTask(1, lambda: said.append(tasks[0].cancel())))
    timer.add(tasks[0])
    until_due(timer)
    finish(timer)
    assert said == [False]


@pytest.mark.parametrize("drop", [True, False])
def test_a_task_may_close_its_timer_and_does_not_wait_for_itself_or_for_others(
    drop: bool,
) -> None:
    timer = Timer()
    closed = threading.Event()
    waiting = timer.call_later(HOUR_MS, nothing)

    def close() -> None:
        timer.close(drop=drop)
        closed.set()

    timer.call_later(1, close)
    in_time = closed.wait(SOON_S)
    with pytest.raises(Closed):
        timer.call_later(1, nothing)
    waiting.cancel()
    assert in_time


# Cancelling and adding again.


def test_size_drops_at_once_on_cancel(timer: Timer) -> None:
    first, second = timer.call_later(HOUR_MS, nothing), timer.call_later(HOUR_MS, nothing)
    assert len(timer) == 2
    assert first.cancel()
    assert len(timer) == 1
    assert not first.cancel()
    assert second.cancel()
    assert len(timer) == 0


def test_cancelling_what_is_due_and_has_not_run_prevents_it(timer: Timer, gate: Gate) -> None:
    ran: list[str] = []
    task = timer.call_later(1, ran.append, "cancelled")
    until_due(timer)
    assert task.cancel()
    assert not task.cancel()
    gate.open()
    finish(timer)
    assert ran == []


def test_adding_a_waiting_task_starts_its_delay_anew() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    ran: list[int] = []
    task = TimerTask(10, lambda: ran.append(clock.now_ms))
    timer.add(task)
    clock.advance(6)
    timer.add(task)
    assert len(timer) == 1
    clock.advance(100)
    assert ran == [16]


def test_adding_a_task_that_is_due_and_has_not_run_starts_its_delay_anew(
    timer: Timer, gate: Gate
) -> None:
    class Hour(TimerTask):
        ran = 0

        def run(self) -> None:
            Hour.ran += 1

    task = Hour(1)
    timer.add(task)
    until_due(timer)
    timer.add(task)
    assert len(timer) == 1
    until_due(timer)
    gate.open()
    finish(timer)
    assert Hour.ran == 1


def test_a_task_with_its_own_run_may_be_added_again_and_again(timer: Timer) -> None:
    done = threading.Event()

    class Heartbeat(TimerTask):
        beats = 0

        def run(self) -> None:
            self.beats += 1
            if self.beats == 5:
                done.set()
            else:
                timer.add(self)

    heartbeat = Heartbeat(1)
    timer.add(heartbeat)
    assert done.wait(SOON_S)
    heartbeat.beats = 0
    done.clear()
    timer.add(heartbeat)
    assert heartbeat.cancel()
    timer.add(heartbeat)
    assert done.wait(SOON_S)


def test_a_plain_task_is_for_one_use() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    ran: list[int] = []
    used = timer.call_later(5, ran.append, 5)
    clock.advance(5)
    cancelled = timer.call_later(5, ran.append, 10)
    cancelled.cancel()
    for task in (used, cancelled):
        with pytest.raises(TaskReleased, match="make a new one, or subclass"):
            timer.add(task)
    clock.advance(100)
    assert (ran, len(timer)) == ([5], 0)


def test_a_plain_task_that_is_run_by_hand_a_second_time_says_so() -> None:
    ran: list[int] = []
    task = TimerTask(5, lambda: ran.append(1))
    task.run()
    with pytest.raises(TaskReleased):
        task.run()
    assert ran == [1]


def test_a_task_of_another_timer_is_refused_and_runs_there() -> None:
    clock = ManualClock()
    first, second = Timer(clock), Timer(clock)
    ran: list[int] = []
    task = first.call_later(5, lambda: ran.append(clock.now_ms))
    clock.advance(1)
    with pytest.raises(AlreadyWaiting, match="cancel it there first"):
        second.add(task)
    assert (len(first), len(second)) == (1, 0)
    clock.advance(100)
    assert ran == [5]


# A delay of its own for each wait.


def test_a_task_may_be_given_another_delay_while_it_does_not_wait(
    manual_clock: ManualClock,
) -> None:
    seen: list[int] = []

    class Retry(TimerTask):
        def run(self) -> None:
            seen.append(manual_clock.now_ms)
            self.delay_ms *= 2
            if len(seen) < 4:
                retrying.add(self)

    retrying = Timer(manual_clock)
    task = Retry(10)
    retrying.add(task)
    with pytest.raises(AlreadyWaiting):
        task.delay_ms = 5
    manual_clock.advance(1_000)
    assert seen == [10, 30, 70, 150]
    task.delay_ms = 0
    retrying.add(task)
    assert seen[-1] == 1_000
