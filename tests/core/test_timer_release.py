"""A timer releases its tasks and what they refer to."""

from __future__ import annotations

import gc
import weakref

from sojourn import ManualClock, Timer, TimerTask
from tests.core.system_timer import HOUR_MS, finish, until_due


class Owner:
    """Something whose method is a callback: it must not outlive the need for it."""

    def called(self) -> None: ...


def owned_task(timer: Timer, delay_ms: int) -> tuple[TimerTask, weakref.ref[Owner]]:
    owner = Owner()
    return timer.call_later(delay_ms, owner.called), weakref.ref(owner)


def test_a_cancelled_task_lets_go_of_its_callback_though_we_hold_the_task(timer: Timer) -> None:
    task, owner = owned_task(timer, HOUR_MS)
    assert owner() is not None
    task.cancel()
    assert owner() is None


def test_a_task_that_ran_lets_go_of_its_callback_though_we_hold_the_task() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    _task, owner = owned_task(timer, 5)
    clock.advance(4)
    assert owner() is not None
    clock.advance(1)
    assert owner() is None


def test_the_threads_of_a_timer_keep_no_finished_task_alive(timer: Timer) -> None:
    class Weak(TimerTask):
        pass

    task = Weak(1)
    known = weakref.ref(task)
    timer.add(task)
    del task
    until_due(timer)
    finish(timer)
    assert known() is None


def test_a_closed_timer_lets_go_of_what_it_dropped() -> None:
    timer = Timer()
    _task, owner = owned_task(timer, HOUR_MS)
    assert owner() is not None
    assert timer.close() == 1
    assert owner() is None


def test_a_dropped_timer_on_a_manual_clock_lets_go_of_what_waits_in_it() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    owner = owned_task(timer, 5)[1]
    known = weakref.ref(timer)
    assert owner() is not None
    del timer
    gc.collect()  # a timer and its driver know each other
    assert known() is None
    assert owner() is None


def test_arguments_are_let_go_of_too(timer: Timer) -> None:
    owner = Owner()
    known = weakref.ref(owner)
    task = timer.call_later(HOUR_MS, print, owner)
    del owner
    assert known() is not None
    task.cancel()
    assert known() is None
