"""Requests: commands on their way to a batch, and questions for the machine; how both are answered.

A request is answered by the thread that writes. Threads wait for it on a lock, which costs less
than a condition; tasks wait on a future of their loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from _thread import allocate_lock as _allocate_lock
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from sojourn.durable.answers import Answer
from sojourn.durable.machine import Machine
from sojourn.durable.submissions import Submission
from sojourn.errors import SojournError


class Request:
    """Commands that came together, and are answered together.

    A thread that sent it waits for `result`. A task has asked for its `waiter` before.
    """

    __slots__ = (
        "_answers",
        "_bell",
        "_error",
        "_waiter",
        "cancels",
        "keeper",
        "position",
        "signals",
        "submissions",
    )

    def __init__(
        self,
        signals: list[tuple[str, int]] | None = None,
        submissions: list[Submission] | None = None,
        cancels: list[str] | None = None,
        position: tuple[str, int | None] | None = None,
        keeper: tuple[str, int | None] | None = None,
    ) -> None:
        self.signals = signals
        self.submissions = submissions
        self.cancels = cancels
        self.position = position  # of a subscription; None removes it
        self.keeper = keeper  # a position in the journal; None removes it
        self._answers: list[Answer] | None = None
        self._error: SojournError | None = None
        self._waiter: asyncio.Future[list[Answer]] | None = None
        self._bell = _allocate_lock()  # taken until it is answered
        self._bell.acquire()

    def __len__(self) -> int:
        """How many commands."""
        return sum(len(rows) for rows in (self.signals, self.submissions, self.cancels) if rows)

    @property
    def is_answered(self) -> bool:
        return self._answers is not None or self._error is not None

    @property
    def error(self) -> SojournError | None:
        """Why all of it was refused, if it was. Once it is answered."""
        return self._error

    def result(self) -> list[Answer]:
        """Wait for the answers, or raise why all of it was refused."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._answers or []

    def wait(self) -> None:
        """Wait until it is answered. Any thread, and any number of them."""
        if not self.is_answered:
            self._bell.acquire()
            self._bell.release()

    def waiter(self) -> asyncio.Future[list[Answer]]:
        """Return a future of the answers, for the running loop. Before it is sent."""
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def answer(self, answers: list[Answer] | None, error: SojournError | None) -> None:
        """Tell the thread that waits. Tasks are told by `wake_loops`."""
        self._answers = answers
        self._error = error
        self._bell.release()

    def settle(self) -> None:
        """Tell the task that waits; on its loop's thread."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            if self._error is None:
                waiter.set_result(self._answers or [])
            else:
                waiter.set_exception(self._error)


def wake_loops(requests: list[Request]) -> None:
    """Have tasks told that their requests are answered.

    To wake a loop from another thread takes a write to a socket, so each is woken once for all.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in requests:
        if request._waiter is not None:
            by_loop.setdefault(request._waiter.get_loop(), []).append(request)
    for loop, its_requests in by_loop.items():
        with contextlib.suppress(RuntimeError):  # it is closed: nobody waits
            loop.call_soon_threadsafe(_settle_all, its_requests)


def _settle_all(requests: list[Request]) -> None:
    for request in requests:
        request.settle()


class Question(NamedTuple):
    """Something to be asked of the machine between batches."""

    ask: Callable[[Machine], Any]
    future: Future[Any]


def set_future(future: Future[Any], result: Any, error: BaseException | None) -> None:
    """Settle the future, unless whoever waited has cancelled it."""
    if future.set_running_or_notify_cancel():
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
