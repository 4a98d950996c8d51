"""The client for asyncio: takes the steps of the verbs with httpx, awaiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx

from sojourn.client.address import Address
from sojourn.client.calls import Call, NoReply, Pause, Reply, Retries, Steps, T
from sojourn.client.client import JSON, checked_timeout_ms
from sojourn.client.gathering import Gathering
from sojourn.client.pool import AsyncPool
from sojourn.client.verbs import Verbs, last_number, only
from sojourn.durable import Answer, Operation
from sojourn.durable.checks import checked_name
from sojourn.durable.purgatory import checked_after
from sojourn.errors import Closed


class AsyncClient:
    """As `Client`, for the tasks of an event loop.

        async with AsyncClient("http://127.0.0.1:8080") as waits:
            await waits.submit("order-7", [("paid", 1)], timeout_ms=30_000)

    With `gather`, single commands of tasks that run at the same time share requests: those that
    come while one is under way go with the next. A task that is cancelled stops waiting for its
    answer; the command may be carried out.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        call_timeout_ms: int = 30_000,
        gather: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._address = Address(url, token)
        self._verbs = Verbs(self._address, Retries(checked_timeout_ms(call_timeout_ms) / 1000))
        self._gathering = Gathering(self._verbs, self._take) if gather else None
        self._is_closed = False
        self._http = httpx.AsyncClient(
            headers=self._address.headers,
            transport=AsyncPool() if transport is None else transport,
        )

    # Commands.

    async def submit(
        self,
        id: str,
        requires: Iterable[tuple[str, int]],
        timeout_ms: int,
        needed: int | None = None,
        class_: str = "",
        payload: Any = None,
        traceparent: str | None = None,
    ) -> Answer:
        """As `durable.Purgatory.submit`."""
        row = (id, requires, timeout_ms, needed, class_, payload, traceparent)
        if self._gathering is not None:
            return await self._gathering.submit(row)
        return only(await self.submit_many([row]))

    async def signal(self, key: str, offset: int) -> Answer:
        """As `durable.Purgatory.signal`."""
        if self._gathering is not None:
            return await self._gathering.signal((key, offset))
        return only(await self.signal_many([(key, offset)]))

    async def cancel(self, id: str) -> Answer:
        """As `durable.Purgatory.cancel`."""
        if self._gathering is not None:
            return await self._gathering.cancel(id)
        return only(await self.cancel_many([id]))

    async def submit_many(self, rows: Iterable[Any]) -> list[Answer]:
        """As `Client.submit_many`."""
        return await self._take(self._verbs.submit_many(rows))

    async def signal_many(self, rows: Iterable[tuple[str, int]]) -> list[Answer]:
        """As `Client.signal_many`."""
        return await self._take(self._verbs.signal_many(rows))

    async def cancel_many(self, ids: Iterable[str]) -> list[Answer]:
        """As `Client.cancel_many`."""
        return await self._take(self._verbs.cancel_many(ids))

    # Reading.

    async def get(self, id: str, wait_ms: int = 0) -> Operation | None:
        """As `Client.get`."""
        return await self._take(self._verbs.get(id, wait_ms))

    async def progress(self, key: str) -> int | None:
        """As `durable.Purgatory.progress`."""
        return await self._take(self._verbs.progress(key))

    async def outcomes(
        self, after: int = 0, limit: int = 1000, wait_ms: int = 0
    ) -> list[Operation]:
        """As `durable.Purgatory.outcomes`."""
        return await self._take(self._verbs.outcomes(after, limit, wait_ms))

    async def follow(self, after: int = 0) -> AsyncIterator[Operation]:
        """As `Client.follow`, with `async for`."""
        outcomes = await self._take(self._verbs.more(checked_after(after), is_first=True))
        while True:
            for outcome in outcomes:
                yield outcome
            outcomes = await self._take(self._verbs.more(last_number(outcomes)))

    def subscription(self, name: str) -> AsyncSubscription:
        """As `Client.subscription`."""
        return AsyncSubscription(self, self._verbs, checked_name(name))

    async def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._address}{' closed' if self._is_closed else ''}>"

    # Taking steps.

    async def _take(self, steps: Steps[T]) -> T:
        reply: Reply | NoReply | None = None
        try:
            while True:
                step = steps.send(reply)
                if self._is_closed:
                    raise Closed(f"the client of {self._address} was closed")
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    reply = None
                else:
                    reply = await self._send(step)
        except StopIteration as end:
            value: T = end.value
            return value

    async def _send(self, call: Call) -> Reply | NoReply:
        request = self._http.build_request(
            call.method,
            self._address.origin + call.path,
            content=call.body,
            headers=JSON if call.body is not None else None,
            timeout=call.timeout_s,
        )
        try:
            async with asyncio.timeout(call.timeout_s):
                response = await self._http.send(request)
        except (httpx.TransportError, TimeoutError) as error:
            return NoReply(error)
        except RuntimeError as error:  # httpx's, for a client that was closed
            if not self._is_closed:
                raise
            raise Closed(f"the client of {self._address} was closed") from error
        return Reply(response.status_code, response.headers, response.content)


class AsyncSubscription:
    """As `Subscription`, awaited."""

    name: str

    def __init__(self, client: AsyncClient, verbs: Verbs, name: str) -> None:
        self._client = client
        self._verbs = verbs
        self._cursor: int | None = None
        self.name = name

    async def position(self) -> int:
        """As `Subscription.position`, which is asked of the service."""
        return await self._client._take(self._verbs.position(self.name))

    async def behind(self) -> int:
        """As `Subscription.behind`, which is asked of the service."""
        return await self._client._take(self._verbs.behind(self.name))

    async def read(self, limit: int = 1000, wait_ms: int = 0) -> list[Operation]:
        """As `Subscription.read`."""
        outcomes = await self._client.outcomes(await self._known_cursor(), limit, wait_ms)
        if outcomes:
            self._cursor = last_number(outcomes)
        return outcomes

    async def commit(self, number: int | None = None) -> None:
        """As `Subscription.commit`."""
        cursor = await self._known_cursor()
        number = cursor if number is None else checked_after(number)
        await self._client._take(self._verbs.commit(self.name, number))
        self._cursor = max(cursor, number)

    async def _known_cursor(self) -> int:
        if self._cursor is None:
            self._cursor = await self.position()
        return self._cursor

    def __repr__(self) -> str:
        return f"<AsyncSubscription {self.name!r} of {self._client!r}>"
