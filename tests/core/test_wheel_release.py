"""What a wheel keeps alive: nothing that has left it, and no collector is needed for that."""

from __future__ import annotations

import gc
import weakref
from random import Random
from typing import TYPE_CHECKING

import pytest

from sojourn import TimerTask, TimingWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Owner:
    """Something whose method is a callback: it must not outlive the need for it."""

    def __init__(self) -> None:
        self.task: TimerTask | None = None

    def called(self) -> None: ...


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def owned_task(wheel: TimingWheel, expiration_ms: int) -> tuple[TimerTask, weakref.ref[Owner]]:
    owner = Owner()
    task = TimerTask(0, owner.called)
    wheel.add(task, expiration_ms)
    return task, weakref.ref(owner)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda wheel, task: task.cancel(), id="cancel"),
        pytest.param(lambda wheel, task: wheel.clear(), id="clear"),
        pytest.param(lambda wheel, task: [due.run() for due in wheel.advance(50)], id="run"),
    ],
)
def test_an_ended_task_lets_go_of_its_callback_though_we_hold_the_task(
    end: Callable[[TimingWheel, TimerTask], object],
) -> None:
    wheel = TimingWheel()
    task, owner = owned_task(wheel, 50)
    assert owner() is not None
    end(wheel, task)
    assert owner() is None


@pytest.mark.usefixtures("no_collector")
def test_a_cancelled_task_in_a_circle_with_its_owner_is_freed() -> None:
    wheel = TimingWheel()
    owner = Owner()
    owner.task = TimerTask(0, owner.called)
    wheel.add(owner.task, 50)
    owner.task.cancel()
    known = weakref.ref(owner)
    del owner
    assert known() is None


def test_a_cancelled_task_that_we_hold_keeps_no_neighbour_alive() -> None:
    class Weak(TimerTask):
        pass

    wheel = TimingWheel()
    before, held, after = Weak(5), Weak(5), Weak(5)
    for task in (before, held, after):
        wheel.add(task, 5)
    assert held.cancel()
    gone = [weakref.ref(before), weakref.ref(after)]
    assert wheel.clear() == 2
    del before, after, task
    assert [ref() for ref in gone] == [None, None]


def test_a_dropped_wheel_lets_go_of_what_waits_in_it() -> None:
    wheel = TimingWheel()
    owners = [owned_task(wheel, at)[1] for at in (5, 5, 237, 10**9)]
    assert all(owner() is not None for owner in owners)
    del wheel
    gc.collect()
    assert [owner() for owner in owners] == [None] * 4


@pytest.mark.usefixtures("no_collector")
def test_the_wheel_keeps_no_due_task_alive() -> None:
    class Weak(TimerTask):
        pass

    wheel = TimingWheel()
    tasks = [Weak(0) for _ in range(3)]
    known = [weakref.ref(task) for task in tasks]
    for task, at in zip(tasks, (5, 237, 450), strict=True):
        wheel.add(task, at)
    del task, tasks
    assert len(wheel.advance(1_000)) == 3
    assert [ref() for ref in known] == [None] * 3


def test_adding_and_cancelling_a_hundred_thousand_times_leaves_nothing() -> None:
    wheel = TimingWheel()
    rng = Random(1)
    for _ in range(100_000):
        task = TimerTask(0)
        assert wheel.add(task, rng.randint(1, 10**6))
        assert task.cancel()
    shown = wheel.snapshot()
    assert (len(wheel), shown.waiting, wheel.next_expiration_ms) == (0, 0, None)
    assert [level.buckets for level in shown.levels] == [()] * len(shown.levels)
