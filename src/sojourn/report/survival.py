"""How long until the event comes, from operations that were not all watched for long enough.

An operation that was submitted ten minutes before the data ends cannot show a wait of an hour. It
is *censored*: all that is known is that its event had not come after ten minutes. Leaving such
operations out, or taking them for lost, makes waits look shorter than they are. The estimator of
Kaplan and Meier uses them for as long as they were watched. At each time t at which events come,
with n operations still watched and waiting, of which d get their event:

    share that still waits after t  =  share that still waited before t  ×  (1 - d / n)

    wait    watched  events  ended unseen   still waiting
    10 min     100      50        0         1 × 50/100            = 50 %
    20 min      50      25       20         50 % × 25/50          = 25 %
    30 min       5       1        4         25 % × 4/5            = 20 %   not 24 of 100

Waits come grouped, with how many had each, so that a hundred million rows cost no more than their
different waits. `scipy.stats.ecdf` gives the same for data that is not grouped, which the tests
compare; it would need every wait in memory.

Three more things are needed to speak of timeouts.

The *horizon* is the longest wait that at least 1 in 20 operations could be watched for. Beyond it
so few are left that chance alone decides, and nothing is said.

Some operations never get their event, and no timeout helps them. *Whoever gets it at all* are those
that get it within the horizon and as many again as did in its second half. So long as events keep
coming, that is everybody; once hardly any come, it is those that have come.

*Bounds* are for 95 %: by Greenwood's formula for the variance, on the scale log(-log), as scipy
has them; where not everybody gets it, with the variance of that share taken into account. Where
nobody is left, which has no variance, the upper bound is that of 0 in n, about 3.7 / n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn.report.bins import Counts, Values

Floats = npt.NDArray[np.float64]

LEAST_WATCHED = 0.05  # of all operations, up to the horizon
_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many deviations
_ONE_SIDE = 0.025
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Need:
    """The timeout with which a share of those that get their event complete, and its bounds."""

    ms: int | None  # the best guess; None if it lies beyond the horizon
    at_least_ms: int
    at_most_ms: int | None  # None if these data do not bound it

    @property
    def is_known(self) -> bool:
        """Whether the data bounds it from both sides."""
        return self.ms is not None and self.at_most_ms is not None


@dataclass(frozen=True)
class Point:
    """What a timeout would do: two shares, the second with bounds."""

    timeout_ms: int
    expire: float  # of all
    lost: float  # of those that get their event at all: expired before it comes
    lost_least: float
    lost_most: float


class Survival:
    """The share of operations that still wait, by how long they have; from one operation on.

    `waits_ms` are in order, each once; `got` is how many got their event then, and `unseen` how
    many were last seen waiting then. What is at one time counts as: the events first.
    """

    def __init__(self, waits_ms: Values, got: Counts, unseen: Counts) -> None:
        self.watched = int(got.sum() + unseen.sum())
        self.got = int(got.sum())
        at_risk = np.cumsum((got + unseen)[::-1])[::-1].astype(np.float64)
        waiting: Floats = np.cumprod(1 - got / at_risk, dtype=np.float64)
        before = np.concatenate([[1.0], waiting[:-1]])
        could_watch = at_risk / (self.watched * before)
        end = max(int(np.searchsorted(-could_watch, -LEAST_WATCHED, side="right")), 1)
        self.waits_ms = waits_ms[:end]
        self.waiting = waiting[:end]
        left = np.maximum(at_risk - got, 1)  # after the last nothing waits, and nothing varies
        self._greenwood: Floats = np.cumsum(got / (at_risk * left), dtype=np.float64)[:end]
        self.horizon_ms = int(self.waits_ms[-1])
        self._half = self._place(self.horizon_ms // 2)
        ever = self.within_horizon + self.in_second_half
        self.ever = ever if ever < 1 - _ROUNDING else 1.0
        # Of those that get it at all, the share that has not got it yet: the best guess and its
        # upper bound with those that are taken to come after the horizon, the lower one without.
        over, variance = self._lost(1, 0, self.within_horizon)
        self.lost_least = _log_log(over, variance)[0]
        self.lost, variance = self._lost(2, 1, self.ever)
        self.lost_most = _log_log(self.lost, variance)[1]
        gone = np.flatnonzero(self.lost <= 0)
        if len(gone):  # nobody of so many is left: the bound of a share that was never seen
            of = self.watched * could_watch[gone[0]] * self.ever
            self.lost_most[gone] = min(self.lost_most[gone[0]], 1 - _ONE_SIDE ** (1 / of))

    @property
    def within_horizon(self) -> float:
        """The share that gets its event by the horizon."""
        return float(1 - self.waiting[-1])

    @property
    def in_second_half(self) -> float:
        """The share that gets it in the second half of that time."""
        return float(self._at(self._half) - self.waiting[-1])

    def point(self, timeout_ms: int) -> Point:
        """What a timeout would do; up to the horizon."""
        place = self._place(timeout_ms)
        if place < 0:
            return Point(timeout_ms, 1.0, 1.0, 1.0, 1.0)
        shares = (self.waiting, self.lost, self.lost_least, self.lost_most)
        return Point(timeout_ms, *(float(each[place]) for each in shares))

    def need(self, share: float) -> Need | None:
        """The timeout with which so many of those that get their event complete."""
        if not self.got:
            return None
        may_lose = 1 - share + _ROUNDING

        def first(lost: Floats) -> int | None:
            reached = np.flatnonzero(lost <= may_lose)
            return int(self.waits_ms[reached[0]]) if len(reached) else None

        at_least_ms = first(self.lost_least)
        return Need(
            ms=first(self.lost),
            at_least_ms=self.horizon_ms if at_least_ms is None else at_least_ms,
            at_most_ms=first(self.lost_most),
        )

    def _place(self, wait_ms: int) -> int:
        """The last of the waits that is not longer; -1 if all are."""
        return int(np.searchsorted(self.waits_ms, np.uint64(wait_ms), side="right")) - 1

    def _at(self, place: int) -> float:
        return float(self.waiting[place]) if place >= 0 else 1.0

    def _lost(self, ends: int, halves: int, ever: float) -> tuple[Floats, Floats]:
        """1 - F / E, the share that is lost, and its variance.

        F = 1 - S is the share that has its event by t, and E = ends × F(H) - halves × F(H/2), at
        most 1, the share that gets it at all, H being the horizon. log S(t) is a sum of independent
        parts, one for each event; a change in one moves S in proportion from there on. So there are
        three kinds of parts: up to t and H/2, between the two, and from the later one to H.
        """
        if not ever:
            return np.ones(len(self.waiting)), np.zeros(len(self.waiting))
        now, total = self.waiting, self._greenwood
        lost = np.clip(1 - (1 - now) / ever, 0, 1)
        at_half = float(total[self._half]) if self._half >= 0 else 0.0
        moves_end = moves_half = 0.0  # of E, by a part before H, and more by one before H/2
        if ever < 1:
            moves_end, moves_half = -ends * float(now[-1]), halves * self._at(self._half)
        by_now, by_ever = now / ever, (1 - now) / ever**2
        is_early = np.arange(len(now)) <= self._half
        early = by_ever * (moves_end + moves_half)
        parts = (
            (by_now + early, np.minimum(total, at_half)),
            (np.where(is_early, early, by_now + by_ever * moves_end), np.abs(total - at_half)),
            (by_ever * moves_end, total[-1] - np.maximum(total, at_half)),
        )
        return lost, np.sum([moves**2 * part for moves, part in parts], axis=0)


def _log_log(share: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Bounds of shares. Where none is left the upper one is that of the last that was."""
    inside = (share > 0) & (share < 1)
    least, most = share.copy(), share.copy()
    some = share[inside]
    deviation = _Z * np.sqrt(variance[inside]) / (some * -np.log(some))
    least[inside] = some ** np.exp(deviation)
    most[inside] = some ** np.exp(-deviation)
    gone = np.flatnonzero(share <= 0)
    if len(gone):
        most[gone] = most[gone[0] - 1] if gone[0] else 1.0
    return least, most
