"""How long after its deadline a timer runs, on the system clock.

All timers are added ahead and come due evenly, at the given rate. Lateness is counted from the
deadline rounded up to a whole millisecond, the tick of the wheel, which never runs a timer early
(`p50_ms`, `p99_ms`, `max_ms`), and from the exact deadline (`exact_…`). Meanwhile the main thread
is idle, or busy in a pure Python loop that gives the interpreter away only when the switch
interval makes it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from functools import partial
from math import ceil
from time import monotonic, monotonic_ns, sleep
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.case import Row

    CallLater = Callable[[int, Callable[[], None]], object]


def measure(name: str, params: dict[str, Any]) -> Row:
    if params["switch_interval_us"]:
        sys.setswitchinterval(params["switch_interval_us"] / 1e6)
    run = _RUNS[name]
    stamps = Stamps(params["rate"], params["duration_ms"], params["lead_ms"])
    run(stamps, busy if params["busy"] else idle)
    return stamps.percentiles()


class Stamps:
    """When each timer was due and when it ran."""

    def __init__(self, rate: int, duration_ms: int, lead_ms: int) -> None:
        self._rate = rate
        self._lead_ms = lead_ms
        self._due_ns = [0] * max(1, rate * duration_ms // 1_000)
        self._ran_ns = [0] * len(self._due_ns)
        self._left = len(self._due_ns)
        self.done = threading.Event()

    def add_all(self, call_later: CallLater) -> None:
        # The callbacks are built beforehand: a garbage collection between reading the clock and
        # adding the timer would count as lateness.
        stamp = self._stamp
        callbacks = [partial(stamp, i) for i in range(len(self._due_ns))]
        first_ns = monotonic_ns() + self._lead_ms * 1_000_000
        for i, callback in enumerate(callbacks):
            now_ns = monotonic_ns()
            delay_ms = (first_ns + i * 1_000_000_000 // self._rate - now_ns) // 1_000_000
            self._due_ns[i] = now_ns + delay_ms * 1_000_000
            call_later(delay_ms, callback)

    def _stamp(self, i: int) -> None:
        self._ran_ns[i] = monotonic_ns()
        self._left -= 1
        if not self._left:
            self.done.set()

    def percentiles(self) -> Row:
        pairs = list(zip(self._ran_ns, self._due_ns, strict=True))
        exact_ms = sorted((ran - due) / 1e6 for ran, due in pairs)
        rounded_ms = sorted(ran / 1e6 - ceil(due / 1e6) for ran, due in pairs)
        row: Row = {}
        for prefix, values in (("", rounded_ms), ("exact_", exact_ms)):
            row[f"{prefix}p50_ms"] = values[len(values) // 2]
            row[f"{prefix}p99_ms"] = values[len(values) * 99 // 100]
            row[f"{prefix}max_ms"] = values[-1]
        return row


def idle(done: threading.Event) -> None:
    done.wait()


def busy(done: threading.Event) -> None:
    total = 0
    while not done.is_set():
        for i in range(10_000):
            total += i


def run_sojourn(stamps: Stamps, main_thread: Callable[[threading.Event], None]) -> None:
    from sojourn import Timer

    timer = Timer()
    stamps.add_all(timer.call_later)
    main_thread(stamps.done)
    timer.close()


def run_asyncio(stamps: Stamps, main_thread: Callable[[threading.Event], None]) -> None:
    """The loop has a thread of its own, as sojourn's timer has."""
    loop = asyncio.new_event_loop()

    def call_later(delay_ms: int, callback: Callable[[], None]) -> None:
        loop.call_later(delay_ms / 1_000, callback)

    stamps.add_all(call_later)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    main_thread(stamps.done)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def run_sleep(stamps: Stamps, main_thread: Callable[[threading.Event], None]) -> None:
    """No timer at all: a thread sleeps from one deadline to the next. The machine's own share."""
    waiting: list[tuple[int, Callable[[], None]]] = []

    def call_later(delay_ms: int, callback: Callable[[], None]) -> None:
        waiting.append((ceil(monotonic_ns() / 1e6) + delay_ms, callback))

    def run_all() -> None:
        for due_ms, callback in waiting:
            left_s = due_ms / 1_000 - monotonic()
            if left_s > 0:
                sleep(left_s)
            callback()

    stamps.add_all(call_later)
    thread = threading.Thread(target=run_all)
    thread.start()
    main_thread(stamps.done)
    thread.join()


_RUNS = {"timer": run_sojourn, "asyncio": run_asyncio, "sleep": run_sleep}
