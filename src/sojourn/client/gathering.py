"""Gathering: single commands of many tasks, in few requests.

    task 1   submit a ---> [a]               request 1: a
    task 2   submit b ---> [b]     waits     |
    task 3   submit c ---> [b c]   waits     v
                                             request 2: b c

Nothing waits for more rows: the first goes at once, and what comes while a request is
under way goes with the next. Each task gets the answer, or the error, of its own row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from sojourn.client import wire
from sojourn.client.calls import Steps
from sojourn.client.verbs import Verbs, only
from sojourn.durable import Answer

Take = Callable[[Steps[list[Answer]]], Awaitable[list[Answer]]]


class Gathering:
    """A queue for each kind of command."""

    def __init__(self, verbs: Verbs, take: Take) -> None:
        self._submissions = SendQueue(partial(verbs.send, "operations"), take)
        self._signals = SendQueue(partial(verbs.send, "signals"), take)
        self._cancels = SendQueue(partial(verbs.send, "cancels"), take)

    async def submit(self, row: Any) -> Answer:
        return await self._submissions.send(wire.submission_row(row))

    async def signal(self, row: Any) -> Answer:
        return await self._signals.send(wire.signal_row(row))

    async def cancel(self, id: Any) -> Answer:
        return await self._cancels.send(wire.cancel_row(id))


class SendQueue:
    """Rows that wait for the next request."""

    def __init__(self, send: Callable[[list[bytes]], Steps[list[Answer]]], take: Take) -> None:
        self._send = send
        self._take = take
        self._rows: list[tuple[bytes, asyncio.Future[Answer]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def send(self, row: bytes) -> Answer:
        """The answer to the row, which goes with the next request."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._rows.append((row, answer))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_rows(), name="sojourn-client-gathering")
        return only([await answer])

    async def _send_rows(self) -> None:
        rows: list[tuple[bytes, asyncio.Future[Answer]]] = []
        try:
            while self._rows:
                rows, self._rows = self._rows, []
                try:
                    answers = await self._take(self._send([row for row, _ in rows]))
                except Exception as error:
                    for _, future in rows:
                        if not future.done():
                            future.set_exception(error)
                else:
                    for (_, future), answer in zip(rows, answers, strict=True):
                        if not future.done():
                            future.set_result(answer)
        finally:
            self._sending = None
            for _, future in rows + self._rows:  # some are left only if the loop is being ended
                future.cancel()
            self._rows.clear()
