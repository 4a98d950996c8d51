"""A timer with no wheel in it, on a clock moved by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from sojourn.errors import Closed


def next_stop_ms(
    now_ms: int, target_ms: int, deadlines_ms: Iterable[int], wheel_size: int
) -> int | None:
    """Where a clock moved by hand stops next: at a deadline, or where a coarser bucket expires."""
    spans_ms = [wheel_size**level for level in range(1, 6)]
    stops = []
    for deadline_ms in deadlines_ms:
        stops.append(deadline_ms)
        coarser = [deadline_ms - deadline_ms % span_ms for span_ms in spans_ms]
        stops.extend(stop_ms for stop_ms in coarser if stop_ms > now_ms)
    return min((stop_ms for stop_ms in stops if stop_ms <= target_ms), default=None)


class NaiveTimer:
    """The contract of a timer, over names instead of tasks.

    `gap` is called wherever the real one is between two atomic steps. `at_once` is whether what
    is due when it is added runs there and then, or when time next moves.
    """

    def __init__(self, wheel_size: int, at_once: bool = True) -> None:
        self.gap: Callable[[], None] = lambda: None
        self.now_ms = 0
        self.ran: list[tuple[int, int]] = []  # when, and the name
        self.deadline_ms: dict[int, int] = {}  # of every name that waits
        self._wheel_size = wheel_size
        self._at_once = at_once
        self._ready: deque[int] = deque()
        self._running = False
        self._closed = False

    def add(self, name: int, delay_ms: int) -> None:
        deadline_ms = self.now_ms + delay_ms
        self.gap()
        if self._closed:
            raise Closed("it is closed")
        self.cancel(name)
        if delay_ms > 0 and deadline_ms > self.now_ms:
            self.deadline_ms[name] = deadline_ms
        else:
            self._ready.append(name)
            self.gap()
            if self._at_once and not self._running:
                self._run_ready()

    def cancel(self, name: int) -> bool:
        if name in self._ready:
            self._ready.remove(name)
            return True
        return self.deadline_ms.pop(name, None) is not None

    def advance(self, ms: int) -> None:
        target_ms = self.now_ms + ms
        self._run_ready()
        while True:
            self.gap()
            stop_ms = next_stop_ms(
                self.now_ms, target_ms, self.deadline_ms.values(), self._wheel_size
            )
            if stop_ms is None:
                break
            self.gap()
            self.now_ms = max(self.now_ms, stop_ms)
            self.gap()
            due = [name for name, due_ms in self.deadline_ms.items() if due_ms <= self.now_ms]
            for name in sorted(due, key=self.deadline_ms.__getitem__):
                del self.deadline_ms[name]
                self._ready.append(name)
            self.gap()
            self._run_ready()
        self.now_ms = max(self.now_ms, target_ms)

    def close(self) -> int:
        if self._closed:
            return 0
        self._closed = True
        self.gap()
        dropped = len(self.deadline_ms)
        self.deadline_ms.clear()
        self.gap()
        self._run_ready()
        return dropped

    def __len__(self) -> int:
        return len(self.deadline_ms)

    def _run_ready(self) -> None:
        before, self._running = self._running, True
        while self._ready:
            self.gap()
            if not self._ready:
                break
            name = self._ready.popleft()
            self.gap()
            now_ms = self.now_ms
            self.gap()
            self.ran.append((now_ms, name))
            self.gap()
        self._running = before
