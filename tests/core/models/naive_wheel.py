"""A timing wheel with no wheel in it: what is due is found by looking at everything."""

from __future__ import annotations

from itertools import groupby


class NaiveWheel:
    """The contract of a wheel, over names instead of tasks.

    The one thing the contract leaves open is how far a wheel's own time lags behind the last
    `advance`: it moves from bucket to bucket. So a time after the last tick at which something was
    due (`reached_ms`), up to the last advance (`now_ms`), is due at once or at the next advance.
    """

    def __init__(self, tick_ms: int, start_ms: int) -> None:
        self.tick_ms = tick_ms
        self.now_ms = start_ms
        self.reached_ms = self.tick_of(start_ms)
        self.expiration_ms: dict[int, int] = {}  # of every name that waits

    def tick_of(self, ms: int) -> int:
        return ms - ms % self.tick_ms

    def must_be_due(self, expiration_ms: int) -> bool:
        return self.tick_of(expiration_ms) <= self.reached_ms

    def may_be_due(self, expiration_ms: int) -> bool:
        return self.tick_of(expiration_ms) <= max(self.now_ms, self.reached_ms)

    def add(self, name: int, expiration_ms: int) -> None:
        self.expiration_ms[name] = expiration_ms

    def cancel(self, name: int) -> bool:
        return self.expiration_ms.pop(name, None) is not None

    def advance(self, now_ms: int) -> list[tuple[int, set[int]]]:
        """Take out what is due by then: the ticks in order, each with the names due in it."""
        self.now_ms = max(self.now_ms, now_ms)
        due = sorted(
            (self.tick_of(expiration_ms), name)
            for name, expiration_ms in self.expiration_ms.items()
            if self.tick_of(expiration_ms) <= now_ms
        )
        for tick_ms, name in due:
            del self.expiration_ms[name]
            self.reached_ms = max(self.reached_ms, tick_ms)
        return [
            (tick_ms, {name for _, name in group})
            for tick_ms, group in groupby(due, key=lambda pair: pair[0])
        ]

    def next_due_ms(self) -> int | None:
        """The first tick at which something is due, but not before now; None if nothing waits."""
        if not self.expiration_ms:
            return None
        return max(self.tick_of(min(self.expiration_ms.values())), self.now_ms)

    def __len__(self) -> int:
        return len(self.expiration_ms)
