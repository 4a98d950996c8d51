"""The agenda: a cluster's one lock, and steps to be done before it is released.

All state of a cluster's brokers is guarded by this lock. One lock and not one for each broker,
because changes cross brokers: an append on the leader lets a follower's fetch
complete, whose next fetch moves the high watermark, which lets a produce complete.

As nested calls this would be a deep stack, each step in the middle of the one before. So steps
that follow from a change are put on the agenda:

    with agenda:                     # a request is handled, a timeout runs, a test moves a leader
        log.append(...)
        agenda.defer(signal)         # not now: when this is finished
                                     # on leaving the outermost `with`: signal(), and the steps
                                     # that it defers in turn, until none is left

When the outermost `with` is left, all that follows has happened. This makes a test with a clock
moved by hand deterministic: `clock.advance(ms)` returns when the brokers have nothing left to do.
Only what goes through sockets comes later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sojourn._log import log


class Agenda:
    """A re-entrant lock that does the deferred steps before it is released."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._owner: int | None = None  # the thread that holds the lock
        self._deferred: deque[Callable[[], object]] = deque()
        self._unlocked: deque[Callable[[], object]] = deque()
        self._watchers: list[Callable[[], object]] = []  # replaced, never changed

    def defer(self, step: Callable[[], object]) -> None:
        """Do the step when the present one is finished; under the lock, in order."""
        self._deferred.append(step)
        if self._owner != threading.get_ident():
            self.acquire()
            self.release()

    def call_unlocked(self, step: Callable[[], object]) -> None:
        """Do the step when this thread does not hold the lock: now, or once it is released.

        For steps that wait for another thread, which may be waiting for the lock.
        """
        with self:
            if self._depth > 1:
                self._unlocked.append(step)
                return
        step()

    @contextmanager
    def notifying(self, watcher: Callable[[], object]) -> Iterator[None]:
        """Call the watcher, inside this block, whenever something may have changed."""
        with self:
            self._watchers = [*self._watchers, watcher]
        try:
            yield
        finally:
            with self:
                self._watchers = [one for one in self._watchers if one is not watcher]

    def acquire(self) -> bool:
        self._lock.acquire()
        self._owner = threading.get_ident()
        self._depth += 1
        return True

    def release(self) -> None:
        unlocked: deque[Callable[[], object]] = deque()
        try:
            if self._depth == 1:
                while self._deferred:
                    self._do(self._deferred.popleft())
                unlocked, self._unlocked = self._unlocked, unlocked
        finally:
            self._depth -= 1
            if not self._depth:
                self._owner = None
            self._lock.release()
        for step in unlocked:
            step()
        for notify in self._watchers:
            notify()

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
