"""The advisor again, as plainly as can be: one operation at a time, no arrays, no grouping.

It follows the words on the page ("What is counted, and what the data cannot tell"), not the code.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]

Z = 1.959963984540054


@dataclass
class Naive:
    """What is known of some operations."""

    waits: list[tuple[int, bool]]  # how long, and whether the event came then
    cut_off: int = 0
    steps: list[tuple[int, float, float]] = field(default_factory=list)  # wait, waiting, variance
    could_watch: dict[int, float] = field(default_factory=dict)  # how many, for so long

    def __post_init__(self) -> None:
        """The share that waits after each wait, and the variance of its logarithm."""
        times = sorted({wait for wait, _ in self.waits})
        events = Counter(wait for wait, got in self.waits if got)
        leave = Counter(wait for wait, _ in self.waits)
        left, waiting, variance = len(self.waits), 1.0, 0.0
        for time in times:
            self.could_watch[time] = left / waiting
            if self.could_watch[time] < 0.05 * len(self.waits):
                break
            came = events[time]
            waiting *= 1 - came / left
            variance += came / (left * max(left - came, 1))
            left -= leave[time]
            self.steps.append((time, waiting, variance))

    @property
    def got(self) -> int:
        return sum(got for _, got in self.waits)

    @property
    def horizon_ms(self) -> int:
        return self.steps[-1][0]

    def at(self, wait: int) -> tuple[float, float]:
        """The share that still waits, and the variance of its logarithm."""
        place = bisect_right(self.steps, wait, key=lambda step: step[0])
        return self.steps[place - 1][1:] if place else (1.0, 0.0)

    @property
    def within_horizon(self) -> float:
        return 1 - self.steps[-1][1]

    @property
    def in_second_half(self) -> float:
        return self.at(self.horizon_ms // 2)[0] - self.steps[-1][1]

    @property
    def ever(self) -> float:
        return at_most_all(self.within_horizon + self.in_second_half)

    def lost(self, wait: int) -> tuple[float, float, float]:
        """Of those that get their event at all, who has not got it; and the bounds of that."""
        best = self._share(wait, self.ever)
        return best, self._bounds(wait, 1.0, 0.0)[0], self._bounds(wait, 2.0, 1.0)[1]

    def _share(self, wait: int, ever: float) -> float:
        return min(max(1 - (1 - self.at(wait)[0]) / ever, 0.0), 1.0) if ever else 1.0

    def _bounds(self, wait: int, ends: float, halves: float) -> tuple[float, float]:
        """On the scale log(-log), with the variance by a small step in each part of log S."""
        half, horizon = self.horizon_ms // 2, self.horizon_ms

        def ever(at_half: float, at_end: float) -> float:
            return at_most_all(ends * (1 - at_end) - halves * (1 - at_half))

        now_s, half_s, end_s = (self.at(time)[0] for time in (wait, half, horizon))
        share = self._share(wait, ever(half_s, end_s))
        if share <= 1e-12:
            whole = ever(half_s, end_s)
            before = [time for time, waiting, _ in self.steps if 1 - (1 - waiting) / whole > 1e-12]
            most = self._bounds(before[-1], ends, halves)[1] if before else 1.0
            first = next(time for time, *_ in self.steps if not before or time > before[-1])
            return 0.0, min(most, 1 - 0.025 ** (1 / (self.could_watch[first] * whole)))
        if share >= 1:
            return 1.0, 1.0

        def moved(time: int) -> float:
            """The share if what happened at this time had been a little different."""
            small = 1e-6
            moves = [math.exp(small) if time <= each else 1.0 for each in (wait, half, horizon)]
            now, at_half, at_end = (
                s * m for s, m in zip((now_s, half_s, end_s), moves, strict=True)
            )
            whole = 1.0 if ever(half_s, end_s) == 1 else ever(at_half, at_end)
            return (1 - (1 - now) / whole - share) / small

        variance = previous = 0.0
        for time in sorted((min(wait, half), max(wait, half), horizon)):
            total = self.at(time)[1]
            variance += moved(time) ** 2 * (total - previous)
            previous = total
        deviation = Z * math.sqrt(variance) / (share * -math.log(share))
        return share ** math.exp(deviation), share ** math.exp(-deviation)

    def need(self, share: float) -> tuple[int | None, int, int | None]:
        """The best guess, the least and the most; None beyond what is known."""
        found: list[int | None] = [None, None, None]
        for time, *_ in self.steps:
            for n, lost in enumerate(self.lost(time)):
                if found[n] is None and lost <= 1 - share + 1e-9:
                    found[n] = time
            if None not in found:
                break
        return found[0], self.horizon_ms if found[1] is None else found[1], found[2]


def at_most_all(share: float) -> float:
    return share if share < 1 - 1e-9 else 1.0


def watch(
    rows: list[Row],
    pending: list[Row] | None = None,
    *,
    has_condition: bool = True,
    end_ms: int | None = None,
) -> Naive:
    """How long each was seen, and whether its event came."""
    if end_ms is None:
        end_ms = data_end(rows, has_condition=has_condition)
    waits, cut_off = [], 0
    for row in rows:
        submitted_ms = row["at_ms"] - row["waited_ms"]
        seen_ms = max(0, end_ms - submitted_ms) if end_ms is not None else 0
        if row["status"] == "cancelled":
            continue
        if has_condition:
            held_ms = row["condition_ms"]
            got = held_ms is not None
            waits.append((held_ms - submitted_ms if got else seen_ms, got))
        elif pending is None and (
            row["timeout_ms"] is None or submitted_ms + row["timeout_ms"] > (end_ms or 0)
        ):
            cut_off += 1
        else:
            waits.append((row["waited_ms"], row["status"] == "completed"))
    still = [row["submitted_ms"] for row in pending or []]
    waits += [(0 if end_ms is None else max(0, end_ms - at_ms), False) for at_ms in still]
    return Naive(waits, cut_off)


def data_end(rows: list[Row], *, has_condition: bool = True) -> int | None:
    if has_condition:
        ends = [
            row["condition_ms"]
            for row in rows
            if row["condition_ms"] is not None
            and row["condition_ms"] > row["at_ms"] - row["waited_ms"]
        ]
    else:
        ends = [row["at_ms"] for row in rows]
    return max(ends, default=None)


def commonest_timeout(rows: list[Row]) -> tuple[int, int, int] | None:
    """The timeout, how many have it, how many there are; of equally common ones the shortest."""
    counts = Counter(row["timeout_ms"] for row in rows if row["timeout_ms"] is not None)
    if not counts:
        return None
    best = min(counts, key=lambda ms: (-counts[ms], ms))
    return best, counts[best], len(counts)
