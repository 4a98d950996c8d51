"""The timer one would write by hand: a heap, and cancelled entries skipped when they surface."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from benchmarks.contenders.contender import PAST_ALL_MS, Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Entry = list[Any]  # deadline_ms, a number that breaks ties, the callback or None


class HeapTimer:
    """`heapq` with lazy deletion; like asyncio it sweeps once more than half are dead."""

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._numbers = count()
        self._cancelled = 0
        self._now_ms = 0

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> Entry:
        entry = [self._now_ms + delay_ms, next(self._numbers), callback]
        heappush(self._heap, entry)
        return entry

    def cancel(self, entry: Entry) -> None:
        entry[2] = None
        self._cancelled += 1

    def advance(self, by_ms: int) -> None:
        self._now_ms = now_ms = self._now_ms + by_ms
        heap = self._heap
        if 2 * self._cancelled > len(heap):
            heap[:] = [entry for entry in heap if entry[2] is not None]
            heapify(heap)
            self._cancelled = 0
        while heap and heap[0][0] <= now_ms:
            callback = heappop(heap)[2]
            if callback is not None:
                callback()
            else:
                self._cancelled -= 1


class Heap(Contender):
    """The heap timer, driven as the others are."""

    def __init__(self) -> None:
        super().__init__()
        self._timer = HeapTimer()

    def add(self, delays: list[int]) -> Sequence[Entry]:
        call_later, hit = self._timer.call_later, self.tally.hit
        return [call_later(delay_ms, hit) for delay_ms in delays]

    def cancel(self, handles: list[Entry]) -> None:
        cancel = self._timer.cancel
        for entry in handles:
            cancel(entry)

    def settle(self) -> None:
        self._timer.advance(0)

    def expire(self) -> int:
        self._timer.advance(PAST_ALL_MS)
        return self.tally.count
