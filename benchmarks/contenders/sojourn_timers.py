"""Sojourn at three depths: the timer, its wheel alone, and the wheel for bare deadlines."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from sojourn import DeadlineWheel, ManualClock, Timer, TimerTask, TimingWheel

from benchmarks.contenders.contender import PAST_ALL_MS, Contender

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


class Deadlines(Contender):
    """`DeadlineWheel`: batches of bare deadlines in, batches of due handles out, no callbacks."""

    calls_back = False

    def __init__(self) -> None:
        super().__init__()
        self._wheel = DeadlineWheel()

    def prepare(self, delays_ms: array[int]) -> array[int]:
        return delays_ms

    def add(self, delays: array[int]) -> Sequence[int]:
        return self._wheel.add_many(delays)

    def pick(self, handles: Sequence[int], order: array[int]) -> array[int]:
        return array("q", [handles[i] for i in order])

    def cancel(self, handles: Any) -> None:
        self._wheel.cancel_many(handles)

    def expire(self) -> int:
        return len(self._wheel.advance(PAST_ALL_MS))
