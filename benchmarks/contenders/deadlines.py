"""Sojourn's wheel for bare deadlines."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from benchmarks.contenders.contender import PAST_ALL_MS, Contender
from sojourn import DeadlineWheel

if TYPE_CHECKING:
    from collections.abc import Sequence


class Deadlines(Contender):
    """`DeadlineWheel`: batches of bare deadlines in, batches of due handles out, no callbacks."""

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
