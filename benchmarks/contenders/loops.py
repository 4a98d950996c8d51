"""The event loops: asyncio's own and uvloop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.contenders.contender import PAST_ALL_MS, Contender

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence


class HandClockLoop(asyncio.SelectorEventLoop):
    """asyncio's loop under a hand-moved clock: `time` is the one method replaced.

    It reads an attribute where the original calls `time.monotonic`, which is a little faster,
    as sojourn's ManualClock is.
    """

    now_s = 0.0

    def time(self) -> float:
        return self.now_s


class Loop(Contender):
    """Any event loop: `loop.call_later` and `handle.cancel`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop

    def prepare(self, delays_ms: array[int]) -> list[float]:
        return [delay_ms / 1_000 for delay_ms in delays_ms]

    def add(self, delays: list[float]) -> Sequence[asyncio.TimerHandle]:
        call_later, hit = self._loop.call_later, self.tally.hit
        return [call_later(delay_s, hit) for delay_s in delays]

    def cancel(self, handles: list[asyncio.TimerHandle]) -> None:
        for handle in handles:
            handle.cancel()

    def close(self) -> None:
        self._loop.close()


class Asyncio(Loop):
    """asyncio only marks a cancelled timer and sweeps the dead out when the loop next turns.

    So part of the price of cancelling is paid in `expire`.
    """

    def __init__(self) -> None:
        self._hand_clock_loop = HandClockLoop()
        super().__init__(self._hand_clock_loop)

    def settle(self) -> None:
        turn(self._loop)

    def expire(self) -> int:
        self._hand_clock_loop.now_s += PAST_ALL_MS / 1_000
        turn(self._loop)
        return self.tally.count


class Uvloop(Loop):
    """uvloop; its clock is libuv's and cannot be moved by hand.

    So add and cancel see the true delays on the system clock, and the expiry is played on a
    second loop: as many timers as survived, delays divided by a thousand, slept past before the
    loop turns. libuv takes a cancelled timer out at once, so both loops hold the same number.
    """

    _COMPRESSION = 1_000

    def __init__(self) -> None:
        import uvloop

        super().__init__(uvloop.new_event_loop())
        self._second = uvloop.new_event_loop()
        self._survivors = 0

    def before_expiry(self, survivors_ms: list[int]) -> None:
        self._survivors = len(survivors_ms)
        for delay_ms in survivors_ms:
            self._second.call_later(delay_ms / 1_000 / self._COMPRESSION, self.tally.hit)
        time.sleep(2 * PAST_ALL_MS / 1_000 / self._COMPRESSION)

    def expire(self) -> int:
        while self.tally.count < self._survivors:  # libuv spreads them over a few turns
            turn(self._second)
        return self.tally.count

    def close(self) -> None:
        self._second.close()
        super().close()


def turn(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop go round once."""
    loop.call_soon(loop.stop)
    loop.run_forever()
