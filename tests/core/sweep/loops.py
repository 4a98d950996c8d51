"""Timer and purgatory on an event loop whose time is moved by hand."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from sojourn import aio
from sojourn.errors import Cancelled, Closed
from tests.core.naive_purgatory import Program, Spec
from tests.core.random_runs import SHARED
from tests.core.sweep.cases import Action, Case, Seen, Step, World, alone, crossed
from tests.core.sweep.naive_purgatories import NaivePurgatories
from tests.core.sweep.progress import NaiveProgress
from tests.core.sweep.timers import WHEEL_SIZE, NaiveTimers, Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Handle:
    """Something that the loop is to call."""

    def __init__(self, when_ms: int, call: Callable[[], object]) -> None:
        self.when_ms = when_ms
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None

    def run(self) -> None:
        call = self.call
        if call is not None:
            call()


class HandLoop:
    """As much of an event loop as is needed here; it shows the time it is told.

    asyncio's own has places where a finaliser that cancels or adds a handle does harm.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._ready: deque[_Handle] = deque()
        self._alarms: list[_Handle] = []
        asyncio._set_running_loop(cast("asyncio.AbstractEventLoop", self))

    def time(self) -> float:
        return self.now_ms / 1000

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_soon(self, call: Any, *args: Any, context: Any = None) -> Any:
        handle = _Handle(self.now_ms, partial(call, *args))
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, call: Any, *args: Any, context: Any = None) -> Any:
        handle = _Handle(round(when * 1000), partial(call, *args))
        self._alarms.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast("asyncio.AbstractEventLoop", self))

    def advance(self, ms: int) -> None:
        """Move time on, from one thing that is scheduled to the next."""
        target_ms = self.now_ms + ms
        while True:
            while self._ready:
                self._ready.popleft().run()
            alarms = [handle for handle in self._alarms if handle.call is not None]
            first = min(alarms, key=attrgetter("when_ms"), default=None)
            if self._ready:
                continue
            if first is None or first.when_ms > target_ms:
                break
            self.now_ms = max(self.now_ms, first.when_ms)
            self._alarms.remove(first)
            first.run()
        self.now_ms = max(self.now_ms, target_ms)

    def close(self) -> None:
        asyncio._set_running_loop(None)


class _OnALoop(World):
    def __init__(self) -> None:
        super().__init__()
        self._loop = HandLoop()

    def advance(self, ms: int) -> Action:
        return Action(partial(self._loop.advance, ms))

    def close(self) -> None:
        self._loop.close()


class RealTimers(_OnALoop, Tasks):
    """Tasks by name in a timer on a loop."""

    def __init__(self) -> None:
        super().__init__()
        self._timer: aio.Timer = aio.Timer(wheel_size=WHEEL_SIZE)
        self._ran: list[tuple[int, int]] = []

    def call_later(self, name: int, delay_ms: int) -> Action:
        return Action(
            partial(self._timer.call_later, delay_ms / 1000, self._run, name), lambda _: None
        )

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
_PROGRAM = Program(SHARED, 1, _SPECS, ())


class _OnlyFutures(NaivePurgatories):
    """A naive purgatory of which only the futures are seen."""

    def _submit(self, number: int) -> bool:
        try:
            return super()._submit(number)
        except Closed:
            self._records[number].future = "cancelled"
            return False

    def cancel(self, number: int) -> Action:
        return super().cancel(number)._replace(tell=lambda _: None)

    def cancel_key(self, key: str) -> Action:
        return super().cancel_key(key)._replace(tell=len)

    def seen(self) -> Seen:
        futures = tuple(record.future for record in self._records)
        return (self.counts(), self._now_ms, futures)


class NaiveWaits(_OnlyFutures):
    """The model of waits for a predicate."""

    def __init__(self) -> None:
        super().__init__(_PROGRAM)


class NaiveWaitsForProgress(_OnlyFutures, NaiveProgress):
    """The model of waits for progress."""

    def __init__(self) -> None:
        NaiveProgress.__init__(self, _PROGRAM)


class RealWaits(_OnALoop):
    """Coroutines by number that wait in a purgatory on a loop."""

    def __init__(self) -> None:
        super().__init__()
        self._purgatory = aio.Purgatory()
        self._progress = dict.fromkeys("abc", 0)
        self._futures: dict[int, Any] = {}
        self._waits: dict[int, Any] = {}
        self._ended: dict[int, str] = {}

    def submit(self, number: int) -> Action:
        return Action(partial(self._wait, number), lambda _: None)

    def _wait(self, number: int) -> None:
        self._waits[number] = self._make_wait(_SPECS[number])
        self._resume(number)

    def _make_wait(self, spec: Spec) -> Any:
        return self._purgatory.wait(
            lambda: any(self._progress[key] >= spec.offset for key in spec.keys),
            keys=list(spec.keys),
            timeout=spec.timeout_ms / 1000,
        )

    def _resume(self, number: int) -> None:
        try:
            self._futures[number] = self._waits[number].send(None)
        except StopIteration as stop:
            self._ended[number] = str(stop.value)
        except (asyncio.CancelledError, Cancelled, Closed):
            self._ended[number] = "cancelled"

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
        if future is not None and future.cancel(msg=None) and future.done():
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


class RealWaitsForProgress(RealWaits):
    """Coroutines by number that wait for progress."""

    def _make_wait(self, spec: Spec) -> Any:
        return self._purgatory.wait(
            requires=[(key, spec.offset) for key in spec.keys],
            needed=spec.needed,
            timeout=spec.timeout_ms / 1000,
        )

    def signal_to(self, key: str, offset: int) -> Action:
        return Action(partial(self._purgatory.signal, key, offset), lambda _: None)

    def signal_many(self, *signals: tuple[str, int]) -> Action:
        return Action(partial(self._purgatory.signal_many, signals), lambda _: None)


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
_PROGRESS_CALLS: tuple[tuple[tuple[Step, ...], Step], ...] = (
    ((), ("submit", 4)),
    ((("signal_to", "a", 0),), ("submit", 5)),
    ((), ("signal_to", "a", 1)),
    ((), ("signal_many", ("a", 1), ("b", 1))),
    ((), ("cancel_key", "a")),
    ((), ("advance", 51)),
    ((), ("close_purgatory",)),
)
_PROGRESS_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("submit", 6),),
    (("cancel", 1), ("cancel", 0)),
    (("signal_to", "b", 1),),
    (("close_purgatory",),),
)
_THE_END: tuple[Step, ...] = tuple(("advance", ms) for ms in (0, 5, 20, 30, 30, 700))


def _waits(call: Step, intrusion: tuple[Step, ...]) -> bool:
    return intrusion[0][0] not in ("news", "signal_to")  # all else belongs to the loop's thread


def cases() -> Iterator[Case]:
    naive_timers = partial(NaiveTimers, at_once=False)
    calls, intrusions = alone(_TIMER_CALLS), _TIMER_INTRUSIONS
    yield from crossed("aio.Timer", RealTimers, naive_timers, _TASKS, calls, intrusions, _THE_END)
    for subject, real, naive, waits, intruders in (
        ("aio.Purgatory", RealWaits, NaiveWaits, _CALLS, _INTRUSIONS),
        (
            "aio.Purgatory for progress",
            RealWaitsForProgress,
            NaiveWaitsForProgress,
            _PROGRESS_CALLS,
            _PROGRESS_INTRUSIONS,
        ),
    ):
        yield from crossed(subject, real, naive, _WAITING, waits, intruders, _THE_END, _waits)
