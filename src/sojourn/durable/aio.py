"""The durable purgatory for asyncio: the same verbs, awaited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from sojourn.core.millis import checked_count
from sojourn.durable.answers import Answer, Operation
from sojourn.durable.checks import LONGEST_MS, checked_id, checked_signal
from sojourn.durable.payloads import Payload
from sojourn.durable.purgatory import Purgatory, checked_after, checked_limit
from sojourn.durable.requests import Request
from sojourn.durable.rows import Rows, only
from sojourn.durable.submissions import checked_submission
from sojourn.durable.subscription import Subscription
from sojourn.errors import SojournError, WrongType


class AsyncPurgatory:
    """A durable purgatory, for the tasks of an event loop; threads may use it beside them.

        async with AsyncPurgatory(Purgatory("waits.db")) as waits:
            await waits.submit("order-7", [("paid", 1)], timeout_ms=30_000)

    Commands share batches with everybody else's. What reads the disk runs in the loop's executor.
    A task that is cancelled stops waiting for its answer; the command may be carried out.
    """

    purgatory: Purgatory

    def __init__(self, purgatory: Purgatory) -> None:
        if not isinstance(purgatory, Purgatory):
            raise WrongType(
                f"AsyncPurgatory takes a durable.Purgatory, got {purgatory!r}; "
                "AsyncPurgatory(Purgatory(path)) opens the file"
            )
        self.purgatory = purgatory

    async def submit(
        self,
        id: str,
        requires: Iterable[tuple[str, int]],
        timeout_ms: int,
        needed: int | None = None,
        class_: str = "",
        payload: Payload = None,
        traceparent: str | None = None,
    ) -> Answer:
        """As `Purgatory.submit`."""
        submission = checked_submission(
            id, requires, timeout_ms, needed, class_, payload, traceparent
        )
        return only(await self._send(Request(submissions=[submission])))

    async def signal(self, key: str, offset: int) -> Answer:
        """As `Purgatory.signal`."""
        return only(await self._send(Request(signals=[checked_signal(key, offset)])))

    async def cancel(self, id: str) -> Answer:
        """As `Purgatory.cancel`."""
        return only(await self._send(Request(cancels=[checked_id(id)])))

    async def submit_many(self, rows: Iterable[tuple[Any, ...]]) -> list[Answer]:
        """As `Purgatory.submit_many`."""
        return await self._send_all(Rows.of_submissions(rows))

    async def signal_many(self, rows: Iterable[tuple[str, int]]) -> list[Answer]:
        """As `Purgatory.signal_many`."""
        return await self._send_all(Rows.of_signals(rows))

    async def cancel_many(self, ids: Iterable[str]) -> list[Answer]:
        """As `Purgatory.cancel_many`."""
        return await self._send_all(Rows.of_cancels(ids))

    async def get(self, id: str) -> Operation | None:
        """As `Purgatory.get`."""
        return await asyncio.to_thread(self.purgatory.get, id)

    async def outcomes(
        self, after: int = 0, limit: int = 1000, wait_ms: int = 0
    ) -> list[Operation]:
        """As `Purgatory.outcomes`; many can wait, and no thread does."""
        after, limit = checked_after(after), checked_limit(limit)
        wait_ms = checked_count(wait_ms, "wait_ms", 0, LONGEST_MS, "0 means not to wait")
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_ms / 1000
        while True:
            last = self.purgatory.last_outcome
            outcomes = await asyncio.to_thread(self.purgatory.read, after, last, limit)
            left_s = until_s - loop.time()
            if outcomes or left_s <= 0:
                return outcomes
            with contextlib.suppress(TimeoutError):
                news = asyncio.wrap_future(self.purgatory.follow(max(after, last)))
                await asyncio.wait_for(news, left_s)

    def subscription(self, name: str) -> AsyncSubscription:
        """As `Purgatory.subscription`."""
        return AsyncSubscription(self, self.purgatory.subscription(name))

    async def close(self) -> None:
        """As `Purgatory.close`."""
        await asyncio.to_thread(self.purgatory.close)

    async def __aenter__(self) -> AsyncPurgatory:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, request: Request) -> list[Answer]:
        return await self.purgatory.send(request)

    async def _send_all(self, rows: Rows) -> list[Answer]:
        waiters = [self.purgatory.send(request) for request in rows.requests]
        if len(waiters) == 1:
            with contextlib.suppress(SojournError):  # the answers tell
                await waiters[0]
        else:
            await asyncio.gather(*waiters, return_exceptions=True)
        return rows.answers()


class AsyncSubscription:
    """As `Subscription`, awaited."""

    def __init__(self, purgatory: AsyncPurgatory, subscription: Subscription) -> None:
        self._purgatory = purgatory
        self._subscription = subscription

    @property
    def name(self) -> str:
        """Its name."""
        return self._subscription.name

    @property
    def position(self) -> int:
        """As `Subscription.position`."""
        return self._subscription.position

    async def read(self, limit: int = 1000, wait_ms: int = 0) -> list[Operation]:
        """As `Subscription.read`."""
        cursor = self._subscription.cursor
        outcomes = await self._purgatory.outcomes(cursor, limit, wait_ms)
        self._subscription.move_past(outcomes)
        return outcomes

    async def commit(self, number: int | None = None) -> None:
        """As `Subscription.commit`."""
        request = self._subscription.commit_request(number)
        await self._purgatory.purgatory.send(request)
