"""Alarms: one deadline for each number, at any 64-bit time, on the deadline wheel.

The wheel knows its timers by handle, and covers a quarter of the 64-bit range. Here the caller uses
numbers of its own, and any time. An alarm beyond the wheel's range waits at the last time of the
wheel. When the wheel returns it before its real time, it is set again.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

import numpy as np

from sojourn.core.deadlines import DeadlineWheel
from sojourn.replay.arrays import grown, integers, slab

if cython.compiled:
    from cython.cimports.sojourn.core.millis import LIMIT_MS
else:
    from sojourn.core.millis import LIMIT_MS

_NONE = -1
_SLOT = 2**32 - 1
_SLOT_BYTES = 32  # of the wheel
_LEAST_MS = -(2**63)


class Alarms:
    """At most one alarm for each number. `times_ms` holds them by number; 0 if none was set."""

    def __init__(self) -> None:
        self._wheel: Any = None  # made when first needed, at the time it is then
        self._start_ms = 0
        self._handles = slab(0, "q")
        self._owners = slab(0, "i")  # by slot of the wheel
        self.times_ms = slab(0, "q")

    def __len__(self) -> int:
        return 0 if self._wheel is None else len(self._wheel)

    @property
    def next_ms(self) -> int | None:
        """Nothing is due before this time; None when nothing is set."""
        if self._wheel is None:
            return None
        next_ms: int | None = self._wheel.next_expiration_ms
        if next_ms is not None and next_ms <= -LIMIT_MS:
            return _LEAST_MS  # it may stand for any time before
        return next_ms

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        wheel = _SLOT_BYTES * len(self._owners)
        return int(self._handles.nbytes + self.times_ms.nbytes + self._owners.nbytes + wheel)

    def is_set(self, number: int) -> bool:
        return bool(self._handles[number] != _NONE)

    def reserve(self, count: int) -> None:
        """Make room for numbers below this."""
        old = len(self._handles)
        if count > old:
            self._handles = grown(self._handles, count, "q")
            self.times_ms = grown(self.times_ms, len(self._handles), "q")
            np.asarray(self._handles)[old:] = _NONE

    def set_many(self, numbers: Any, times_ms: Any, now_ms: int | None) -> None:
        """Set the alarm of each number, which is reserved; one that was set is moved."""
        if not len(numbers):
            return
        wanted = np.asarray(times_ms)
        start_ms = int(wanted.min()) if now_ms is None else now_ms
        self.clear_many(numbers)
        if self._wheel is None or start_ms < self._start_ms:
            self._start(start_ms, now_ms)
        self._own(numbers, times_ms, integers(self._wheel.add_many(_within(wanted))))

    def clear_many(self, numbers: Any) -> None:
        """Take the alarms of these numbers back, where they are set."""
        handles = slab(len(numbers), "q")
        count = self._disown(numbers, handles) if len(numbers) else 0
        if count:
            self._wheel.cancel_many(handles[:count])

    def due(self, now_ms: int) -> Any:
        """Return the numbers whose time has come, in any order; their alarms are off."""
        if self._wheel is None:
            return slab(0, "i")
        handed_out = self._wheel.advance(min(max(now_ms, -LIMIT_MS), LIMIT_MS))
        numbers = slab(len(handed_out), "i")
        count = self._owned(memoryview(handed_out), numbers, now_ms) if len(numbers) else 0
        early = numbers[count:]
        if len(early):
            self.set_many(early, np.asarray(self.times_ms)[np.asarray(early)], now_ms)
        return numbers[:count]

    def _start(self, start_ms: int, now_ms: int | None) -> None:
        """Make the wheel; or anew, with an earlier start, when rows came before time began."""
        self._start_ms = start_ms
        self._wheel = DeadlineWheel(start_ms=min(max(start_ms, -LIMIT_MS), LIMIT_MS))
        numbers = np.flatnonzero(np.asarray(self._handles) != _NONE)
        np.asarray(self._handles)[:] = _NONE
        self.set_many(integers(numbers, "i"), integers(np.asarray(self.times_ms)[numbers]), now_ms)

    def _own(self, numbers: Any, times_ms: Any, handles: Any) -> None:
        for n in range(len(numbers)):
            slot = handles[n] & _SLOT
            if slot >= len(self._owners):
                self._owners = grown(self._owners, slot + 1, "i")
            self._owners[slot] = numbers[n]
            self._handles[numbers[n]] = handles[n]
            self.times_ms[numbers[n]] = times_ms[n]

    def _disown(self, numbers: Any, handles: Any) -> int:
        count = 0
        for n in range(len(numbers)):
            if self._handles[numbers[n]] != _NONE:
                handles[count] = self._handles[numbers[n]]
                self._handles[numbers[n]] = _NONE
                count += 1
        return count

    def _owned(self, handles: Any, numbers: Any, now_ms: int) -> int:
        """Fill in whose alarms these are: first those due, then those handed out early."""
        count = 0
        last = len(handles)
        for n in range(len(handles)):
            number = self._owners[handles[n] & _SLOT]
            self._handles[number] = _NONE
            if self.times_ms[number] <= now_ms:
                numbers[count] = number
                count += 1
            else:
                last -= 1
                numbers[last] = number
        return count


def _within(times_ms: Any) -> Any:
    return np.ascontiguousarray(np.clip(times_ms, -LIMIT_MS, LIMIT_MS), dtype=np.int64)
