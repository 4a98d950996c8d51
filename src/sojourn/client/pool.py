"""The pool: connections to one service, each for one request at a time, the last used first.

httpx's own pool looks at every connection, for every connection, before and after each request:
with 64 tasks a request took six times the processor time that it takes with this one. So each
connection is a pool of httpx's with room for one, and which one is taken is decided here, in O(1).
What a connection does, and that a stale one is not used, stays httpx's business.

    idle    [ a  b  c ]       a request takes c; when its reply is read, c is the last again
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import httpx

_KEPT_MOST = 64  # idle connections
_ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=30)


class Pool(httpx.BaseTransport):
    """For threads."""

    def __init__(self) -> None:
        self._context = httpx.create_ssl_context()
        self._idle: deque[httpx.HTTPTransport] = deque()
        self._is_closed = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request over a connection that has nothing to do, or over a new one."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = httpx.HTTPTransport(verify=self._context, limits=_ONE)
        try:
            response = connection.handle_request(request)
        except BaseException:
            connection.close()
            raise
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _Read(response.stream, lambda: self._give_back(connection))
        return response

    def _give_back(self, connection: httpx.HTTPTransport) -> None:
        if self._is_closed or len(self._idle) >= _KEPT_MOST:
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Close those that are idle; the others close when their replies are read."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()


class AsyncPool(httpx.AsyncBaseTransport):
    """The same for the tasks of an event loop."""

    def __init__(self) -> None:
        self._context = httpx.create_ssl_context()
        self._idle: deque[httpx.AsyncHTTPTransport] = deque()
        self._is_closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As `Pool.handle_request`."""
        if self._idle:
            connection = self._idle.pop()
        else:
            connection = httpx.AsyncHTTPTransport(verify=self._context, limits=_ONE)
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            await connection.aclose()
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _AsyncRead(response.stream, lambda: self._give_back(connection))
        return response

    async def _give_back(self, connection: httpx.AsyncHTTPTransport) -> None:
        if self._is_closed or len(self._idle) >= _KEPT_MOST:
            await connection.aclose()
        else:
            self._idle.append(connection)

    async def aclose(self) -> None:
        """As `Pool.close`."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().aclose()


class _Read(httpx.SyncByteStream):
    """A reply's body; when it has been read, the connection is free."""

    def __init__(self, stream: httpx.SyncByteStream, on_close: Callable[[], None]) -> None:
        self._stream = stream
        self._on_close = on_close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._on_close()


class _AsyncRead(httpx.AsyncByteStream):
    """The same, awaited."""

    def __init__(
        self, stream: httpx.AsyncByteStream, on_close: Callable[[], Awaitable[None]]
    ) -> None:
        self._stream = stream
        self._on_close = on_close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            await self._on_close()
