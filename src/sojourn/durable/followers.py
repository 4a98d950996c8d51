"""Followers: readers of outcomes who wait for the next one."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from sojourn.durable.requests import set_future


class Followers:
    """Who waits for which outcome, and the last one that may be read. Any thread."""

    last_outcome: int  # its number

    def __init__(self, last_outcome: int) -> None:
        self.last_outcome = last_outcome
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, Future[None]]] = []  # for an outcome beyond the number
        self._is_closed = False

    def follow(self, after: int) -> Future[None]:
        """Return a future that is done when there is an outcome beyond `after`, or no more."""
        future: Future[None] = Future()
        with self._lock:
            if after < self.last_outcome or self._is_closed:
                future.set_result(None)
            else:
                self._waiting = [waiter for waiter in self._waiting if not waiter[1].done()]
                self._waiting.append((after, future))
        return future

    def move_to(self, last_outcome: int) -> None:
        """Outcomes up to this one may be read: wake who waited for them."""
        with self._lock:
            self.last_outcome = last_outcome
            ready = [future for after, future in self._waiting if after < last_outcome]
            self._waiting = [waiter for waiter in self._waiting if waiter[0] >= last_outcome]
        for future in ready:
            set_future(future, None, None)

    def close(self) -> None:
        """There will be no more: wake everybody."""
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            set_future(future, None, None)
