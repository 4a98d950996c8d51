"""An event loop whose time passes at once: where there is nothing to do but wait, it jumps."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class _NoWaiting(selectors.DefaultSelector):
    """Never waits: where there is nothing to do but wait, time jumps to the next thing to do."""

    loop: QuickLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self.loop.jump()
            timeout = 0
        else:
            self.loop.stand_still()
        return super().select(timeout)


class QuickLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once."""

    def __init__(self, start_s: float = 0.0) -> None:
        selector = _NoWaiting()
        selector.loop = self
        self._now_s = start_s
        self.turns_without_a_jump = 0
        super().__init__(selector)

    def time(self) -> float:
        return self._now_s

    def stand_still(self) -> None:
        self.turns_without_a_jump += 1
        if self.turns_without_a_jump == 10_000:
            self._now_s += 1.0  # so that it can at least be closed
            raise AssertionError("the loop is busy, and time stands still")

    def jump(self) -> None:
        self.turns_without_a_jump = 0
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        self._now_s = max(self._now_s, scheduled[0].when())


def run_quickly(main: Coroutine[Any, Any, T], start_s: float = 0.0) -> T:
    with asyncio.Runner(loop_factory=lambda: QuickLoop(start_s)) as runner:
        return runner.run(main)


async def step() -> None:
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)
