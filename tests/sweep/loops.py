"""Timer and purgatory on an event loop whose time is moved by hand."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from naive_purgatory import SHARED, Program, Spec

from sojourn import TimerTask, aio
from sweep.cases import Action, Case, Seen, Step, World
from sweep.purgatories import NaivePurgatories
from sweep.timers import WHEEL_SIZE, NaiveTimers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator


class HandLoop(asyncio.SelectorEventLoop):
    """An event loop that shows the time it is told."""

    def __init__(self) -> None:
        self.now_ms = 0
        super().__init__()

    def time(self) -> float:
        return self.now_ms / 1000

    def advance(self, ms: int) -> None:
        """Move time on, from one thing that is scheduled to the next."""
        target_ms = self.now_ms + ms
        while True:
            self._turn()
            stops_ms = [round(handle.when() * 1000) for handle in self._alarms()]
            next_ms = min(stops_ms, default=target_ms + 1)
            if next_ms > target_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
        self.now_ms = max(self.now_ms, target_ms)

    def made_inside(self, make: Callable[[], Any]) -> Any:
        async def inside() -> Any:
            return make()

        return self.run_until_complete(inside())

    def _turn(self) -> None:
        for _ in range(3):  # what runs may have more to run
            self.call_soon(self.stop)
            self.run_forever()

    def _alarms(self) -> list[asyncio.TimerHandle]:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return [handle for handle in scheduled if not handle.cancelled()]


class _OnALoop(World):
    def __init__(self) -> None:
        super().__init__()
        self._loop = HandLoop()

    def advance(self, ms: int) -> Action:
        return Action(partial(self._loop.advance, ms))

    def close(self) -> None:
        self._loop.close()


class RealTimers(_OnALoop):
    """Tasks by name in a timer on a loop."""

    def __init__(self) -> None:
        super().__init__()
        self._timer: aio.Timer = self._loop.made_inside(partial(aio.Timer, wheel_size=WHEEL_SIZE))
        self._tasks: dict[int, TimerTask] = {}
        self._ran: list[tuple[int, int]] = []

    def call_later(self, name: int, delay_ms: int) -> Action:
        return Action(
            partial(self._timer.call_later, delay_ms / 1000, self._run, name), lambda _: None
        )

    def add(self, name: int, delay_ms: int) -> Action:
        task = self._tasks[name] = TimerTask(delay_ms, partial(self._run, name))
        return Action(partial(self._timer.add, task))

    def cancel(self, name: int) -> Action:
        return Action(self._tasks[name].cancel)

    def close_timer(self) -> Action:
        return Action(self._timer.close)

    def size(self) -> Action:
        return Action(partial(len, self._timer))

    def seen(self) -> Seen:
        assert self._timer.errors == 0
        return (len(self._timer), self._loop.now_ms, tuple(self._ran))

    def _run(self, name: int) -> None:
        self._ran.append((self._loop.now_ms, name))


_NEVER = 99
_SPECS = tuple(
    Spec(timeout_ms=timeout_ms, keys=keys, offset=offset, needed=1, with_future=True)
    for timeout_ms, keys, offset in (
        (50, ("a", "b"), _NEVER),
        (51, ("a",), 1),
        (52, ("a", "b"), 1),
        (3, ("c",), _NEVER),
        (54, ("a", "b", "c"), 1),
        (55, ("a",), 0),
        (56, ("a",), 1),
    )
)


class NaiveWaits(NaivePurgatories):
    """The naive purgatory, of which only the futures are seen."""

    def __init__(self) -> None:
        super().__init__(Program(SHARED, 1, _SPECS, ()))

    def cancel(self, number: int) -> Action:
        return super().cancel(number)._replace(tell=lambda _: None)

    def cancel_key(self, key: str) -> Action:
        return super().cancel_key(key)._replace(tell=len)

    def seen(self) -> Seen:
        futures = tuple(record.future for record in self._records)
        return (self.counts(), self._now_ms, futures)


class RealWaits(_OnALoop):
    """Coroutines by number that wait in a purgatory on a loop."""

    def __init__(self) -> None:
        super().__init__()
        self._purgatory: aio.Purgatory = self._loop.made_inside(aio.Purgatory)
        self._progress = dict.fromkeys("abc", 0)
        self._futures: dict[int, asyncio.Future[bool]] = {}
        self._waits: dict[int, Coroutine[Any, Any, bool]] = {}
        self._ended: dict[int, str] = {}

    def submit(self, number: int) -> Action:
        return Action(partial(self._wait, number), lambda _: None)

    def _wait(self, number: int) -> None:
        spec = _SPECS[number]
        self._waits[number] = self._purgatory.wait(
            lambda: any(self._progress[key] >= spec.offset for key in spec.keys),
            keys=list(spec.keys),
            timeout=spec.timeout_ms / 1000,
        )
        self._resume(number)

    def _resume(self, number: int) -> None:
        try:
            self._futures[number] = self._waits[number].send(None)
        except StopIteration as stop:
            self._ended[number] = str(stop.value)
        except asyncio.CancelledError:
            self._ended[number] = "cancelled"
        except BaseException:
            self._ended[number] = "no future"
            raise

    def quiet(self, key: str) -> Action:
        return Action(partial(self._make_progress, key))

    def _make_progress(self, key: str) -> None:
        self._progress[key] += 1

    def signal(self, key: str) -> Action:
        return Action(partial(self._purgatory.check_and_complete, key), lambda _: None)

    def news(self, key: str) -> Action:
        def news() -> None:
            self._progress[key] += 1
            self._purgatory.check_and_complete(key)

        return Action(news)

    def cancel_key(self, key: str) -> Action:
        return Action(
            partial(self._purgatory.cancel_for_key, key), lambda operations: len(operations)
        )

    def cancel(self, number: int) -> Action:
        return Action(partial(self._cancel, number), lambda _: None)

    def _cancel(self, number: int) -> None:
        """Cancel as the task that waits would."""
        future = self._futures.get(number)
        if future is not None and future.cancel():
            self._resume(number)

    def close_purgatory(self) -> Action:
        return Action(self._purgatory.close)

    def seen(self) -> Seen:
        for number, future in self._futures.items():
            if number not in self._ended and future.done():
                self._resume(number)
        counts = (self._purgatory.watched, self._purgatory.delayed, len(self._purgatory.timer))
        states = [
            self._ended.get(number, "pending" if number in self._futures else "no future")
            for number in range(len(_SPECS))
        ]
        return (counts, self._loop.now_ms, tuple(states))

    def close(self) -> None:
        for wait in self._waits.values():
            wait.close()
        super().close()


_TASKS: tuple[Step, ...] = (("add", 1, 50), ("add", 2, 51), ("add", 3, 52), ("add", 4, 7))
_TIMER_CALLS: tuple[Step, ...] = (
    ("call_later", 5, 3),
    ("call_later", 5, 700),
    ("call_later", 5, 0),
    ("add", 5, 53),
    ("cancel", 2),
    ("advance", 60),
    ("close_timer",),
)
_TIMER_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("cancel", 1), ("cancel", 3)),
    (("add", 6, 54), ("add", 7, 13)),
    (("call_later", 7, 55),),
    (("call_later", 7, 0),),
)
_WAITING: tuple[Step, ...] = tuple(("submit", number) for number in range(4))
_CALLS: tuple[tuple[tuple[Step, ...], Step], ...] = (
    ((), ("submit", 4)),
    ((), ("submit", 5)),
    ((), ("signal", "a")),
    ((("quiet", "a"),), ("signal", "a")),
    ((), ("cancel_key", "a")),
    ((), ("cancel", 2)),
    ((), ("advance", 3)),
    ((), ("advance", 51)),
    ((), ("close_purgatory",)),
)
_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("submit", 6),),
    (("cancel", 1), ("cancel", 0)),
    (("news", "a"),),
    (("news", "b"),),
    (("cancel_key", "b"),),
    (("close_purgatory",),),
)
_THE_END: tuple[Step, ...] = tuple(("advance", ms) for ms in (0, 5, 20, 30, 30, 700))


def cases() -> Iterator[Case]:
    inside = "sojourn/aio.py"  # asyncio itself has places where a finaliser does harm
    for call in _TIMER_CALLS:
        for intrusion in _TIMER_INTRUSIONS:
            for from_a_thread in (False, True):
                yield Case(
                    "aio.Timer",
                    RealTimers,
                    partial(NaiveTimers, at_once=False),
                    _TASKS,
                    call,
                    intrusion,
                    _THE_END,
                    from_a_thread,
                    inside,
                )
    for before, call in _CALLS:
        for intrusion in _INTRUSIONS:
            for from_a_thread in (False, True):
                if from_a_thread and intrusion[0][0] != "news":
                    continue  # all but news belongs to the loop's thread
                yield Case(
                    "aio.Purgatory",
                    RealWaits,
                    NaiveWaits,
                    _WAITING + before,
                    call,
                    intrusion,
                    _THE_END,
                    from_a_thread,
                    inside,
                )
