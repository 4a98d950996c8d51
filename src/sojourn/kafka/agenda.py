"""The agenda: a cluster's one lock, and what is to be done before it is let go of.

All state of a cluster's brokers is guarded by this lock. One lock and not one for each broker,
because the interesting things cross brokers: an append on the leader lets a follower's fetch
complete, whose next fetch moves the high watermark, which lets a produce complete.

Done as nested calls that would be a deep stack, with each step in the middle of the one before.
So steps that follow from a change are put on the agenda:

    with agenda:                     # a request is handled, a timeout runs, a test moves a leader
        log.append(...)
        agenda.after(signal)         # not now: when this is finished
                                     # leaving the outermost `with`: signal(), and what that
                                     # puts on the agenda in turn, until nothing is left

When the outermost `with` is left, all that follows has happened, whichever thread it was. That
is what makes a test with a clock moved by hand deterministic: `clock.advance(ms)` returns when
the brokers have come to rest. Only what goes through sockets comes later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sojourn._log import log


class Agenda:
    """A re-entrant lock that does what was put off before it is let go of."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._later: deque[Callable[[], object]] = deque()
        self._outside: deque[Callable[[], object]] = deque()
        self._watchers: list[Callable[[], object]] = []  # replaced, never changed

    def after(self, step: Callable[[], object]) -> None:
        """Do the step once what is being done is finished; under the lock, in order."""
        with self:
            self._later.append(step)

    def outside(self, step: Callable[[], object]) -> None:
        """Do the step where this thread does not hold the lock: now, or as soon as it is let go of.

        For what waits for another thread, which may be waiting for the lock.
        """
        with self:
            if self._depth > 1:
                self._outside.append(step)
                return
        step()

    @contextmanager
    def telling(self, watcher: Callable[[], object]) -> Iterator[None]:
        """Tell the watcher, inside this block, whenever something may have changed."""
        with self:
            self._watchers = [*self._watchers, watcher]
        try:
            yield
        finally:
            with self:
                self._watchers = [one for one in self._watchers if one is not watcher]

    def acquire(self) -> bool:
        self._lock.acquire()
        self._depth += 1
        return True

    def release(self) -> None:
        outside: deque[Callable[[], object]] = deque()
        try:
            if self._depth == 1:
                while self._later:
                    self._do(self._later.popleft())
                outside, self._outside = self._outside, outside
        finally:
            self._depth -= 1
            self._lock.release()
        for step in outside:
            step()
        for tell in self._watchers:
            tell()

    def __enter__(self) -> Agenda:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _do(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:
            log.exception("kafka: %r raised; the cluster goes on", step)
