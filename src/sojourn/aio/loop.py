"""An event loop: its thread, its time, and how it turns a timer."""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from sojourn.errors import Closed, OutOfRange, WrongThread

if not cython.compiled:
    from threading import get_ident

if TYPE_CHECKING:
    from sojourn.core.clock import Driver
    from sojourn.core.timer import Timer


_NOTHING_MS = 2**63 - 1  # what the timer says when nothing waits


class LoopThread:
    """The running loop, and the thread it runs in."""

    __slots__ = ("loop", "thread")

    def __init__(self, what: str) -> None:
        try:
            self.loop: Any = asyncio.get_running_loop()
        except RuntimeError:
            raise WrongThread(
                f"{what} needs a loop to run on, and no event loop is running here; "
                "make it inside a coroutine, such as the main() that asyncio.run() is given"
            ) from None
        self.thread = get_ident()

    def is_here(self) -> bool:
        """Say whether this is the loop's thread."""
        return self.thread == get_ident()

    def check(self) -> None:
        """Raise `WrongThread` unless this is the loop's thread."""
        if self.thread != get_ident():
            raise WrongThread(
                "this belongs to the thread of its event loop; from others use "
                "check_and_complete(), signal() or loop.call_soon_threadsafe()"
            )

    def check_open(self) -> None:
        """Raise `Closed` if the loop is closed: its time has come to an end."""
        if self.loop.is_closed():
            raise Closed("the event loop is closed; make a new timer or purgatory on a running one")

    def check_running(self) -> None:
        """Raise `WrongThread` unless the loop is the one that runs here, now."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not self.loop:
            self.check()
            raise WrongThread("this belongs to another event loop; make one on the loop that waits")

    def call_soon(self, fn: Callable[..., object], arg: object, context: Context | None) -> None:
        """Let the loop call `fn(arg)`, from any thread; a closed loop calls nothing."""
        try:
            if self.thread == get_ident():
                self.loop.call_soon(fn, arg, context=context)
            else:
                self.loop.call_soon_threadsafe(fn, arg, context=context)
        except RuntimeError:
            if not self.loop.is_closed():
                raise


class LoopClock:
    """An event loop's own time."""

    __slots__ = ("_loop",)

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        seconds: float = self._loop.loop.time()
        return int(seconds * 1e9 + 0.5)

    def drive(self, timer: Timer) -> Driver:
        return LoopDriver(self._loop, timer)


class LoopDriver:
    """Turns a timer from its event loop."""

    __slots__ = ("_alarm", "_loop", "_timer")

    def __init__(self, loop: LoopThread, timer: Timer) -> None:
        self._loop = loop
        self._timer = timer
        self._alarm: asyncio.Handle | None = None

    def wake(self) -> None:
        try:
            if self._loop.is_here():
                self._set_alarm()
            else:
                self._loop.loop.call_soon_threadsafe(self._set_alarm)
        except RuntimeError:
            self._loop.check_open()
            raise

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        """Nothing to wait for: a loop must not be blocked."""

    def close(self, finish: bool, wait: bool) -> None:
        if finish and len(self._timer):
            raise OutOfRange(
                f"drop=False: {len(self._timer)} tasks wait, and only the loop can run them; "
                "let it run past their deadlines first"
            )
        with contextlib.suppress(Closed):
            self.wake()  # for what is ready

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._timer.has_ready():
            self._alarm = self._loop.loop.call_soon(self._turn)
        else:
            # Asked also when nothing waits: buckets that cancels have emptied leave the queue, so
            # that the next task is the earliest, and wakes us.
            next_ms = self._timer.next_ms()
            if next_ms != _NOTHING_MS:
                self._alarm = self._loop.loop.call_at(next_ms / 1000, self._turn)

    def _turn(self) -> None:
        self._alarm = None
        try:
            self._timer.turn()
            self._timer.run_ready()
        finally:
            self._set_alarm()
