"""Sojourn's timer, under the system's clock and a hand-moved one, and its wheel alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.contenders.contender import PAST_ALL_MS, Contender
from sojourn import ManualClock, Timer, TimerTask, TimingWheel

if TYPE_CHECKING:
    from collections.abc import Sequence


class SystemTimer(Contender):
    """`Timer` as most will use it: the system clock, driven by its own threads."""

    expires = False

    def __init__(self, timer: Timer | None = None) -> None:
        super().__init__()
        self._timer = Timer() if timer is None else timer

    def add(self, delays: list[int]) -> Sequence[TimerTask]:
        call_later, hit = self._timer.call_later, self.tally.hit
        return [call_later(delay_ms, hit) for delay_ms in delays]

    def cancel(self, handles: list[TimerTask]) -> None:
        for task in handles:
            task.cancel()

    def close(self) -> None:
        self._timer.close()


class ManualTimer(SystemTimer):
    """`Timer` under a hand-moved clock; expiries run in the thread that moves it."""

    expires = True

    def __init__(self) -> None:
        self._clock = ManualClock()
        super().__init__(Timer(self._clock))

    def expire(self) -> int:
        self._clock.advance(PAST_ALL_MS)
        return self.tally.count


class Wheel(Contender):
    """`TimingWheel` without a timer around it: no clock, no lock, the caller runs what is due."""

    def __init__(self) -> None:
        super().__init__()
        self._wheel = TimingWheel(tick_ms=1, wheel_size=20, start_ms=0)

    def add(self, delays: list[int]) -> Sequence[TimerTask]:
        add, hit = self._wheel.add, self.tally.hit
        tasks = []
        for delay_ms in delays:
            task = TimerTask(delay_ms, hit)
            add(task, delay_ms)
            tasks.append(task)
        return tasks

    def cancel(self, handles: list[TimerTask]) -> None:
        for task in handles:
            task.cancel()

    def expire(self) -> int:
        for task in self._wheel.advance(PAST_ALL_MS):
            task.run()
        return self.tally.count
