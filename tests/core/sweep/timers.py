"""The timer, on a clock moved by hand: what is called, and what intrudes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sojourn import ManualClock, Timer, TimerTask
from tests.core.models.naive_timer import NaiveTimer
from tests.core.sweep.cases import Action, Case, Seen, Step, World, alone, crossed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sojourn import aio
    from sojourn.core.wheel import WheelSnapshot

WHEEL_SIZE = 4  # so that a level has few buckets to make


class NaiveTimers(World):
    """The model: names, their deadlines, and what ran when."""

    def __init__(self, at_once: bool = True, wheel_size: int = WHEEL_SIZE) -> None:
        super().__init__()
        self._timer = NaiveTimer(wheel_size, at_once)
        self._timer.gap = lambda: self.gap()

    def add(self, name: int, delay_ms: int) -> Action:
        return Action(partial(self._timer.add, name, delay_ms))

    call_later = add

    def cancel(self, name: int) -> Action:
        return Action(partial(self._timer.cancel, name))

    def advance(self, ms: int) -> Action:
        return Action(partial(self._timer.advance, ms))

    def follow(self) -> Action:
        return Action(int, lambda _: None)

    def snapshot(self) -> Action:
        return Action(lambda: len(self._timer))

    def close_timer(self) -> Action:
        return Action(self._timer.close)

    def size(self) -> Action:
        return Action(lambda: len(self._timer))

    def seen(self) -> Seen:
        return (len(self._timer), self._timer.now_ms, tuple(self._timer.ran))


class _Task(TimerTask):
    """Says when it ran; may be added again."""

    def __init__(self, name: int, delay_ms: int, run: Callable[[int], None]) -> None:
        super().__init__(delay_ms)
        self.name = name
        self._say = run

    def run(self) -> None:
        self._say(self.name)


class Tasks(World):
    """Tasks by name in a real timer."""

    _timer: Timer | aio.Timer

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[int, TimerTask] = {}

    def add(self, name: int, delay_ms: int) -> Action:
        task = self._tasks.get(name)
        if task is None or task.delay_ms != delay_ms:
            task = self._tasks[name] = _Task(name, delay_ms, self._run)
        return Action(partial(self._timer.add, task))

    def cancel(self, name: int) -> Action:
        return Action(self._tasks[name].cancel)

    def close_timer(self) -> Action:
        return Action(self._timer.close)

    def size(self) -> Action:
        return Action(partial(len, self._timer))

    def _run(self, name: int) -> None:
        raise NotImplementedError


class RealTimers(Tasks):
    """Tasks by name in a timer."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = ManualClock()
        self._timer: Timer = Timer(self._clock, wheel_size=WHEEL_SIZE, executor=self._executor())
        self._ran: list[tuple[int, int]] = []

    def _executor(self) -> Any:
        return None

    def call_later(self, name: int, delay_ms: int) -> Action:
        return Action(partial(self._timer.call_later, delay_ms, self._run, name), lambda task: None)

    def advance(self, ms: int) -> Action:
        return Action(partial(self._clock.advance, ms))

    def follow(self) -> Action:
        return Action(partial(self._timer.advance_clock, 5), lambda _: None)

    def snapshot(self) -> Action:
        return Action(self._timer.snapshot, _waiting_in)

    def seen(self) -> Seen:
        assert self._timer.errors == 0
        return (len(self._timer), self._clock.now_ms, tuple(self._ran))

    def _run(self, name: int) -> None:
        self._ran.append((self._clock.now_ms, name))


def _waiting_in(snapshot: WheelSnapshot) -> int:
    tasks = [task for level in snapshot.levels for bucket in level.buckets for task in bucket.tasks]
    assert snapshot.waiting == len(set(tasks)) == len(tasks)
    return len(tasks)


class _AtOnce:
    """An executor that runs what it is given, there and then."""

    def submit(self, run: Callable[[], None]) -> Any:
        from concurrent.futures import Future

        future: Future[None] = Future()
        run()
        future.set_result(None)
        return future


class RealTimersWithAnExecutor(RealTimers):
    """The same, run by an executor."""

    def _executor(self) -> Any:
        return _AtOnce()


_WAITING: tuple[Step, ...] = (
    ("add", 1, 50),
    ("add", 2, 51),
    ("add", 3, 52),
    ("add", 4, 7),
)
_CALLS: tuple[Step, ...] = (
    ("add", 5, 3),
    ("add", 5, 53),
    ("add", 5, 700),
    ("add", 5, 0),
    ("add", 1, 50),  # anew
    ("call_later", 5, 9),
    ("call_later", 5, 0),
    ("cancel", 2),
    ("advance", 6),
    ("advance", 7),
    ("advance", 60),
    ("follow",),
    ("snapshot",),
    ("close_timer",),
    ("size",),
)
_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("cancel", 1),),
    (("cancel", 3), ("cancel", 2), ("cancel", 4)),
    (("add", 6, 54),),
    (("add", 6, 500), ("cancel", 1)),
    (("add", 6, 0),),
    (("add", 2, 51),),
    (("call_later", 7, 55),),
    (("advance", 4),),
    (("advance", 47),),
    (("close_timer",),),
)
_THE_END: tuple[Step, ...] = (
    ("advance", 0),
    ("size",),
    ("snapshot",),
    *(("advance", ms) for ms in (5, 20, 30, 30, 500, 500)),
)


def _waits(call: Step, intrusion: tuple[Step, ...]) -> bool:
    return bool(call[0] == intrusion[0][0] == "advance")  # which is for one thread at a time


def cases() -> Iterator[Case]:
    for subject, real, calls, intrusions in (
        ("Timer", RealTimers, _CALLS, _INTRUSIONS),
        # What an executor is asked to run waits for it, so it must not be waited for in turn.
        (
            "Timer with an executor",
            RealTimersWithAnExecutor,
            (("add", 5, 0), ("advance", 60)),
            _INTRUSIONS[1:6:2],
        ),
    ):
        yield from crossed(
            subject, real, NaiveTimers, _WAITING, alone(calls), intrusions, _THE_END, _waits
        )
