"""The sender: commands go from the event loop to the writer, answers come back.

`asyncio.wrap_future` wakes the loop once for each answer, with a write to a socket. A batch on
disk answers many requests at once; here the first of them wakes the loop, for all:

    loop      send(r1)  send(r2)  send(r3)        _drain: r1, r2, r3 go on
    writer                  [batch on disk]  r1 done: wake   r2 done   r3 done
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from concurrent.futures import Future
from functools import partial

from sojourn.durable import Answer, Purgatory
from sojourn.durable.shell import Request
from sojourn.errors import Closed, NotWritten


class Sender:
    """Sends requests of one loop to one purgatory."""

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._loop = asyncio.get_running_loop()
        self._done: deque[tuple[asyncio.Future[list[Answer]], Future[list[Answer]]]] = deque()
        self._is_woken = False
        self._refusal: tuple[str, float] | None = None  # the disk's last, and when

    def refusal(self, within_s: float) -> str | None:
        """Why the disk refused the last command, if that is not longer ago."""
        if self._refusal is None or self._loop.time() - self._refusal[1] > within_s:
            return None
        return self._refusal[0]

    def send(self, request: Request) -> asyncio.Future[list[Answer]]:
        """Put the request into the next batch; the future has its answers."""
        waiter: asyncio.Future[list[Answer]] = self._loop.create_future()
        try:
            future = self._purgatory.send(request)
        except Closed as error:  # for good: the file has to be opened again
            self._refusal = str(error), math.inf
            raise
        future.add_done_callback(partial(self._on_done, waiter))
        return waiter

    def _on_done(self, waiter: asyncio.Future[list[Answer]], future: Future[list[Answer]]) -> None:
        """On the writer's thread: the answer is there."""
        self._done.append((waiter, future))
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop is closed: nobody waits
                self._done.clear()

    def _drain(self) -> None:
        self._is_woken = False  # before looking: what comes now wakes again
        done = self._done
        while done:
            waiter, future = done.popleft()
            if waiter.done():
                continue
            error = future.exception()
            if error is None:
                self._refusal = None
                waiter.set_result(future.result())
            else:
                if isinstance(error, NotWritten):
                    self._refusal = str(error), self._loop.time()
                waiter.set_exception(error)
