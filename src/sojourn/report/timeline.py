"""What was waiting, and what expired, as time went by."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from sojourn.replay.endings import EXPIRED
from sojourn.report.stays import Int64s, Stay, Stays
from sojourn.report.tally import Job, cumulated
from sojourn.report.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

STEPS = 240  # about as many as a chart can show
_STEPS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(SECOND_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(MINUTE_MS * n for n in (1, 2, 5, 10, 15, 30)),
    *(HOUR_MS * n for n in (1, 2, 3, 6, 12)),
    *(DAY_MS * n for n in (1, 2, 7, 28, 91, 365)),
)
_COARSE = 65_536
_TAIL = 0.001  # of all beginnings and ends, on either side
_EMPTY = 20  # how many times longer than its middle a span is mostly empty


class Timeline:
    """Counts at whole steps of time: operations waiting there, and expiries since the step before.

    A few stray operations, submitted years ago or due in years, would press everything else into
    one line. If nearly all beginnings and ends lie in a small part of the whole, only that part is
    shown, and `outside` says how many ends are not.
    """

    columns = frozenset(("status", "at_ms", "waited_ms"))

    def __init__(self, stays: Stays, first_ms: int, last_ms: int) -> None:
        self._stays = stays
        self.first_ms = first_ms
        self.last_ms = last_ms
        self.step_ms = 0
        self.steps: list[int] = []  # the moments, in ms
        self.outside = 0
        self._begun = self._ended = self._expired = np.zeros(0, np.int64)
        self._look()

    @property
    def waiting(self) -> list[int]:
        """How many waited at each moment: submitted at or before it, and not ended by then."""
        return [int(n) for n in cumulated(self._begun)[1:-1] - cumulated(self._ended)[1:-1]]

    @property
    def expired(self) -> list[int]:
        """How many expired after the moment before and up to this one."""
        return [int(n) for n in self._expired[:-1]]

    def add(self, stay: Stay) -> None:
        self._begun += self._counts(stay.submitted_ms)
        self._ended += self._counts(stay.at_ms)
        self._expired += self._counts(stay.at_ms[stay.status == EXPIRED])

    def end_pass(self) -> Iterable[Job]:
        for pending in self._stays.pending_batches():
            self._begun += self._counts(pending.submitted_ms)
        self.outside = int(self._ended[-1])
        return ()

    def _look(self) -> None:
        span_ms = self.last_ms - self.first_ms
        self.step_ms = next(
            (step for step in _STEPS_MS if step * STEPS >= span_ms),
            -(-span_ms // (365 * DAY_MS * STEPS)) * 365 * DAY_MS,
        )
        first = self.first_ms // self.step_ms
        last = -(-self.last_ms // self.step_ms)
        self.steps = [n * self.step_ms for n in range(first, last + 1)]
        self._begun = np.zeros(len(self.steps) + 1, np.int64)
        self._ended = self._begun.copy()
        self._expired = self._begun.copy()

    def _counts(self, at_ms: Int64s) -> Int64s:
        """How many fall to each moment, which is the first not before them."""
        bounded_steps = [min(max(step, -(2**63)), 2**63 - 1) for step in self.steps]
        moments = np.array(bounded_steps, np.int64)
        return np.bincount(np.searchsorted(moments, at_ms), minlength=len(self.steps) + 1)


class Middle:
    """Finds the part of time in which nearly everything began and ended, then draws that.

    Each pass counts in 65,536 parts; a middle that is small among them has a pass of its own.
    """

    columns = frozenset(("at_ms", "waited_ms"))

    def __init__(
        self, stays: Stays, first_ms: int, last_ms: int, drawn: Callable[[Timeline], None]
    ) -> None:
        self._stays = stays
        self._first_ms = first_ms
        self._last_ms = last_ms
        self._drawn = drawn
        self._width_ms = (last_ms - first_ms) // _COARSE + 1
        self._counts = np.zeros(_COARSE, np.int64)
        self._before = self._total = 0

    def add(self, stay: Stay) -> None:
        for at_ms in (stay.submitted_ms, stay.at_ms):
            self._total += len(at_ms)
            self._before += int(np.count_nonzero(at_ms < self._first_ms))
            inside = at_ms[(at_ms >= self._first_ms) & (at_ms <= self._last_ms)]
            passed_ms = inside.view(np.uint64) - np.int64(self._first_ms).view(np.uint64)
            numbers = (passed_ms // np.uint64(self._width_ms)).astype(np.int64)
            self._counts += np.bincount(numbers, minlength=_COARSE)

    def end_pass(self) -> Iterable[Job]:
        up_to = self._before + np.cumsum(self._counts)
        left = int(np.searchsorted(up_to, _TAIL * self._total))
        right = int(np.searchsorted(up_to, (1 - _TAIL) * self._total)) + 1
        if (right - left) * _EMPTY < _COARSE and self._width_ms > 1:
            first_ms = self._first_ms + left * self._width_ms
            last_ms = min(self._last_ms, self._first_ms + right * self._width_ms)
            return (Middle(self._stays, first_ms, last_ms, self._drawn),)
        timeline = Timeline(self._stays, self._first_ms, self._last_ms)
        self._drawn(timeline)
        return (timeline,)
