"""The timer on an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sojourn.timer
from sojourn._alike import already_initialised, not_copied, not_initialised
from sojourn.aio.loop import LoopClock, LoopThread
from sojourn.aio.wait import as_ms

if TYPE_CHECKING:
    from sojourn.task import TimerTask


class Timer:
    def __init__(self, *, tick_ms: int = 1, wheel_size: int = 20, name: str = "timer") -> None:
        self._sj_loop = LoopThread("aio.Timer()")
        self._sj_core = sojourn.timer.Timer(LoopClock(self._sj_loop), tick_ms=tick_ms, wheel_size=wheel_size, name=name)
    def call_later(self, delay_seconds: float, fn: Callable[..., object], *args: Any) -> TimerTask:
        return self._sj_core.call_later(as_ms(delay_seconds, "delay_seconds"), fn, *args)
    def __len__(self): return len(self._sj_core)
    def close(self): return self._sj_core.close()
