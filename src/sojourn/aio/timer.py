"""The timer on an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sojourn.core.timer
from sojourn.aio.conditions import as_ms
from sojourn.aio.face import Face
from sojourn.aio.loop import LoopClock, LoopThread

if TYPE_CHECKING:
    from sojourn.core.task import TimerTask
    from sojourn.core.wheel import WheelSnapshot


class Timer(Face):
    """A timer on the running loop: tasks run in the loop's thread, in deadline order.

    Make it inside a coroutine. Every method may be called from any thread.
    """

    def __init__(self, *, tick_ms: int = 1, wheel_size: int = 20, name: str = "timer") -> None:
        self._sj_check_new()
        loop = LoopThread("aio.Timer()")
        self._sj_core = sojourn.core.timer.Timer(
            LoopClock(loop), tick_ms=tick_ms, wheel_size=wheel_size, name=name
        )
        self._sj_loop = loop

    def call_later(self, delay_seconds: float, fn: Callable[..., object], *args: Any) -> TimerTask:
        """Call `fn(*args)` in the loop after `delay_seconds`; returns the task, to cancel it by."""
        self._sj_loop.check_open()
        task: TimerTask = self._sj_core.call_later(as_ms(delay_seconds, "delay_seconds"), fn, *args)
        return task

    def add(self, task: TimerTask) -> None:
        """Run the task in the loop after its delay, which is in milliseconds as always."""
        self._sj_loop.check_open()
        self._sj_core.add(task)

    def __len__(self) -> int:
        return len(self._sj_core)

    def __bool__(self) -> bool:
        return True  # an empty timer is still a timer

    @property
    def errors(self) -> int:
        """How many tasks have raised."""
        return self._sj_core.errors  # type: ignore[no-any-return]

    @property
    def expired_buckets(self) -> int:
        """How many buckets have expired."""
        return self._sj_core.expired_buckets  # type: ignore[no-any-return]

    def snapshot(self) -> WheelSnapshot:
        """Return the timer's wheel as it is now, for people and tests."""
        return self._sj_core.snapshot()  # type: ignore[no-any-return]

    def close(self, *, drop: bool = True) -> int:
        """Take no more tasks and drop those that wait; return how many that was.

        What is due is still run, in the loop. With `drop=False` it raises `OutOfRange` while
        anything waits: only the loop could run that.
        """
        return self._sj_core.close(drop=drop)  # type: ignore[no-any-return]
