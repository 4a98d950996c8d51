"""Long polls: requests that wait, as delayed requests on our own purgatory.

    GET /v1/operations/order-7?wait_ms=…    waits on the key of the operation, for its end
    GET /v1/outcomes?after=41&wait_ms=…     waits for progress: of the feed, to 42

The writer's thread says what has ended; one call to the loop tells all who wait. An operation is
watched before it is looked up, so an end in between is not missed:

    request   watch(id)   get(id): waits                  wait
    writer                                 id has ended: tell
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from sojourn import aio
from sojourn.durable import Operation
from sojourn.errors import Closed, Full
from sojourn.service.errors import Refusal

_FEED = "the feed"  # the key of its progress


class Polls:
    """Who waits, and for what. Made on the loop; `on_outcomes` may be called by any thread."""

    def __init__(self, most: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._most = most
        self._waits = aio.Purgatory("long-polls", max_waiting=most)
        self._followers = aio.Purgatory("followers")  # streams and webhooks, which are few
        self._is_closed = False
        self._watched: dict[str, int] = {}  # by id: how many requests
        self._ended: dict[str, Operation] = {}  # of those that are watched
        self._told: deque[tuple[int, list[Operation]]] = deque()

    def __len__(self) -> int:
        return self._waits.delayed

    # News.

    def on_outcomes(self, last: int, outcomes: Iterable[Operation]) -> None:
        """On the writer's thread: these are on disk, and `last` is the feed's last number."""
        watched = self._watched
        ended = [one for one in outcomes if one.id in watched] if watched else []
        self._told.append((last, ended))
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if self._is_closed:
            return
        while self._told:
            last, ended = self._told.popleft()
            for operation in ended:
                if operation.id in self._watched:
                    self._ended[operation.id] = operation
                    self._waits.check_and_complete(operation.id)
            self._waits.signal(_FEED, last)
            self._followers.signal(_FEED, last)

    # Waiting.

    @contextlib.contextmanager
    def watching(self, id: str) -> Any:
        """Ends of the operation are noticed from here on."""
        self._watched[id] = self._watched.get(id, 0) + 1
        try:
            yield
        finally:
            self._watched[id] -= 1
            if not self._watched[id]:
                del self._watched[id]
                self._ended.pop(id, None)

    async def until_ended(self, id: str, wait_ms: int, request: Request) -> Operation | None:
        """The operation, which is watched, as it ended; None if it did not in that time."""
        ended = self._waits.wait(
            lambda: self._ended.get(id) or False, keys=[id], timeout=wait_ms / 1000
        )
        return await self._while_connected(ended, request) or None

    async def until_told(self, number: int, wait_ms: int, request: Request) -> bool:
        """Whether the feed came to that number in that time."""
        wait = self._waits.wait(requires=[(_FEED, number)], timeout=wait_ms / 1000)
        return bool(await self._while_connected(wait, request))

    async def follow(self, number: int, wait_ms: int) -> bool:
        """The same for those who follow the feed as long as they live. Raises `Closed`."""
        return await self._followers.wait(requires=[(_FEED, number)], timeout=wait_ms / 1000)

    async def _while_connected(self, wait: Coroutine[Any, Any, Any], request: Request) -> Any:
        """What is waited for; False if the service closes; raises if the client goes away."""
        request.scope["sojourn.waited"] = True
        waiting = asyncio.ensure_future(wait)
        leaving = asyncio.ensure_future(until_disconnected(request.receive))
        try:
            await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise ClientDisconnect
            return waiting.result()
        except Closed:
            return False
        except Full:
            raise Refusal(
                429,
                "too_many_waiters",
                f"{self._most} requests wait already, and no more may (limit waiters)",
                do="ask again later, or without wait_ms",
                headers=[(b"retry-after", b"1")],
            ) from None
        finally:
            waiting.cancel()
            leaving.cancel()

    def close(self) -> None:
        """Everybody who waits goes on, as if their time had run out."""
        self._is_closed = True
        self._waits.close()
        self._followers.close()


async def until_disconnected(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
