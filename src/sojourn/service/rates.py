"""Counts by the second, over the last minutes, and since the start."""

from __future__ import annotations

STEP_MS = 1_000
STEPS = 300


class Rates:
    """A ring of seconds for each name. Not for several threads at once."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.totals = dict.fromkeys(names, 0)
        self._rings = {name: [0] * (STEPS + 1) for name in names}  # the last is not over yet
        self._step: int | None = None

    def add(self, time_ms: int, counts: dict[str, int]) -> None:
        """Count these in the second of `time_ms`, which never goes back."""
        self._turn_to(time_ms // STEP_MS)
        slot = time_ms // STEP_MS % (STEPS + 1)
        for name, count in counts.items():
            self._rings[name][slot] += count
            self.totals[name] += count

    def by_second(self, now_ms: int) -> tuple[int, dict[str, list[int]]]:
        """From when, and the counts of each of the 300 seconds that are over, the oldest first."""
        now = now_ms // STEP_MS
        self._turn_to(now)
        slots = [step % (STEPS + 1) for step in range(now - STEPS, now)]
        series = {name: [ring[slot] for slot in slots] for name, ring in self._rings.items()}
        return (now - STEPS) * STEP_MS, series

    def _turn_to(self, step: int) -> None:
        """Make room for the second, and for those in which nothing happened."""
        last = step - STEPS - 1 if self._step is None else self._step
        for passed in range(max(last + 1, step - STEPS), step + 1):
            for ring in self._rings.values():
                ring[passed % (STEPS + 1)] = 0
        self._step = max(step, last)
