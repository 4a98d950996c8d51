"""Timer and purgatory for asyncio: driven by the running loop, no thread; in seconds.

    purgatory = aio.Purgatory()
    paid = await purgatory.wait(order.is_paid, keys=[order.id], timeout=30)

    purgatory.check_and_complete(order.id)      # news: from the loop or from any other thread

One `loop.call_at` is pending at a time, for the next bucket, however many tasks wait.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import sojourn.purgatory
import sojourn.timer
from sojourn.errors import OutOfRange, WrongThread, WrongType
from sojourn.operation import DelayedOperation
from sojourn.purgatory import AnyFuture, as_key

if TYPE_CHECKING:
    from sojourn.clock import Driver
    from sojourn.task import TimerTask

_A_CENTURY_MS = 100 * 365 * 86_400_000


class Timer(sojourn.timer.Timer):
    """A timer on the running loop: tasks run in the loop's thread, in deadline order.

    Make it inside a coroutine. Adding is safe from any thread.
    """

    def __init__(self, *, tick_ms: int = 1, wheel_size: int = 20, name: str = "timer") -> None:
        clock = _LoopClock(asyncio.get_running_loop())
        super().__init__(clock, tick_ms=tick_ms, wheel_size=wheel_size, name=name)

    def call_later(  # seconds, as every call_later of asyncio's
        self, delay_seconds: float, fn: Callable[..., object], *args: Any
    ) -> TimerTask:
        """Call `fn(*args)` in the loop after `delay_seconds`; returns the task, to cancel it by."""
        return super().call_later(_as_ms(delay_seconds, "delay_seconds"), fn, *args)


class Purgatory(sojourn.purgatory.Purgatory):
    """A purgatory on the running loop: predicates and callbacks run in the loop's thread.

    Make it inside a coroutine. `check_and_complete` may be called from any thread; off the
    loop it hands the key to the loop and returns 0 at once. Everything else belongs to the
    loop's thread.
    """

    def __init__(self, name: str = "purgatory", timer: Timer | None = None) -> None:
        self._own_timer = Timer(name=name) if timer is None else None
        super().__init__(name, timer or self._own_timer)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    async def wait(
        self,
        predicate: Callable[[], object],
        *,
        keys: Iterable[Hashable],
        timeout: float | None = None,
    ) -> bool:
        """Wait until the predicate holds: True; or until `timeout` seconds have passed: False.

        The predicate is looked at now and whenever one of the keys has news. If it raises, so
        does this. Cancelling the task that waits here leaves nothing behind.
        """
        if not callable(predicate):
            raise WrongType(f"predicate must be callable, got {predicate!r}")
        timeout_ms = _A_CENTURY_MS if timeout is None else _as_ms(timeout, "timeout")
        operation = _Wait(predicate, timeout_ms)
        future: asyncio.Future[bool] = self._loop.create_future()
        self.submit_into(future, operation, keys)
        try:
            return await future
        except asyncio.CancelledError:
            operation.cancel()
            raise

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that watches the key; return how many this call completed."""
        if threading.get_ident() == self._thread:
            return super().check_and_complete(key)
        self._loop.call_soon_threadsafe(super().check_and_complete, as_key(key))
        return 0

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        """Try to complete the operation; if it is not to be, watch it on every key."""
        self._check_thread()
        return super().try_complete_else_watch(operation, keys)

    def submit_into(
        self, future: AnyFuture, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> None:
        """Do the same, and tell the future how it ends."""
        self._check_thread()
        super().submit_into(future, operation, keys)

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Stop watching the operations on the key, and cancel the tasks that wait for them."""
        self._check_thread()
        return super().cancel_for_key(key)

    def close(self) -> int:
        """Take no more operations and cancel those that wait; return how many that was."""
        self._check_thread()
        dropped = super().close()
        if self._own_timer is not None:
            self._own_timer.close()
        return dropped

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise WrongThread(
                "an asyncio purgatory belongs to its loop's thread; from others use "
                "check_and_complete(), or loop.call_soon_threadsafe()"
            )

    async def __aenter__(self) -> Purgatory:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class _Wait(DelayedOperation):
    """Waits for a predicate."""

    def __init__(self, predicate: Callable[[], object], timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self._predicate = predicate

    def try_complete(self) -> bool:
        return bool(self._predicate()) and self.force_complete()


class _LoopClock:
    """An event loop's own time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        return round(self._loop.time() * 1e9)

    def drive(self, timer: sojourn.timer.Timer) -> Driver:
        return _LoopDriver(self._loop, timer)


class _LoopDriver:
    """Turns a timer from its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timer: sojourn.timer.Timer) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._timer = timer
        self._alarm: asyncio.Handle | None = None

    def wake(self) -> None:
        if threading.get_ident() == self._thread:
            self._set_alarm()
        else:
            self._loop.call_soon_threadsafe(self._set_alarm)

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        """Nothing to wait for: a loop must not be blocked."""

    def close(self, finish: bool, wait: bool) -> None:
        if finish and len(self._timer):
            raise OutOfRange(
                f"drop=False: {len(self._timer)} tasks wait, and only the loop can run them; "
                "let it run past their deadlines first"
            )
        self.wake()  # for what is ready

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._timer.has_ready():
            self._alarm = self._loop.call_soon(self._turn)
        elif len(self._timer):
            self._alarm = self._loop.call_at(self._timer.next_ms() / 1000, self._turn)

    def _turn(self) -> None:
        self._alarm = None
        try:
            self._timer.turn()
            self._timer.run_ready()
        finally:
            self._set_alarm()


def _as_ms(seconds: float, name: str) -> int:
    """Whole milliseconds, rounded up, so that nothing is early."""
    try:
        return math.ceil(seconds * 1000)
    except (TypeError, ValueError, OverflowError):
        raise OutOfRange(
            f"{name} must be a finite number of seconds, got {seconds!r}"
            + ("; None waits without a limit" if name == "timeout" else "")
        ) from None
