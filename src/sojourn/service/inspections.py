"""Inspections: what only the machine can tell, asked of it now and then while somebody looks.

The writer answers between two batches, and everybody waits meanwhile. So an inspection is repeated
every two seconds at most, and for a five-hundredth of the writer's time.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sojourn.durable import Machine, Operation, Purgatory

SHOWN_KEYS = 10
SHOWN_OLDEST = 10

_AGAIN_MS = 2_000
_SHARE = 500  # an inspection that took t is not repeated for 500 t,
_MOST_MS = 60_000  # or for this long
_WAIT_S = 1.0


@dataclass(frozen=True)
class Inspection:
    """What only the machine can say, and when that was."""

    at_ms: int
    took_ms: float
    oldest: list[Operation]
    keys: list[tuple[str, int]]
    wheel: list[tuple[int, list[int]]]
    known_keys: int

    def as_fields(self, purgatory: Purgatory) -> dict[str, Any]:
        """The same for JSON, with how far the keys have come by now."""
        return {
            "at_ms": self.at_ms,
            "took_ms": self.took_ms,
            "known_keys": self.known_keys,
            "keys": [
                {"key": key, "waiting": waiting, "progress": purgatory.progress(key)}
                for key, waiting in self.keys
            ],
            "oldest": [
                {
                    "id": each.id,
                    "class": each.class_,
                    "submitted_ms": each.submitted_ms,
                    "deadline_ms": each.deadline_ms,
                }
                for each in self.oldest
            ],
            "wheel": [{"tick_ms": tick_ms, "counts": counts} for tick_ms, counts in self.wheel],
        }


class Inspections:
    """Asks the machine of a purgatory. For one event loop."""

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._last: Inspection | None = None
        self._running: Future[Inspection] | None = None

    async def latest(self) -> Inspection | None:
        """The last inspection; a new one first if it is time for that and does not take long."""
        last = self._last
        if last is not None:
            rest_ms = min(_SHARE * last.took_ms, _MOST_MS)
            if self._purgatory.now_ms < last.at_ms + max(rest_ms, _AGAIN_MS):
                return last
        if self._running is None or self._running.done():
            self._running = self._purgatory.inspect(self._inspect)
        running = asyncio.wrap_future(self._running)
        try:
            self._last = await asyncio.wait_for(asyncio.shield(running), _WAIT_S)
        except TimeoutError:
            running.add_done_callback(retrieve_error)
        return self._last

    def _inspect(self, machine: Machine) -> Inspection:
        began_s = time.perf_counter()
        oldest = machine.oldest(SHOWN_OLDEST)
        keys = machine.busiest_keys(SHOWN_KEYS)
        wheel = [(tick_ms, list(counts)) for tick_ms, counts in machine.wheel()]
        return Inspection(
            at_ms=self._purgatory.now_ms,
            took_ms=(time.perf_counter() - began_s) * 1000,
            oldest=oldest,
            keys=keys,
            wheel=wheel,
            known_keys=machine.known_keys,
        )


def retrieve_error(future: asyncio.Future[Any]) -> None:
    """Look at how it ended, so that asyncio does not log an error that nobody waits for."""
    if not future.cancelled():
        future.exception()
