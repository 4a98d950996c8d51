"""The client for threads: takes the steps of the verbs with httpx, and sleeps between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpx

from sojourn.client.address import Address
from sojourn.client.calls import Call, NoReply, Pause, Reply, Retries, Steps, T
from sojourn.client.pool import Pool
from sojourn.client.verbs import Verbs, last_number, only
from sojourn.core.millis import checked_count
from sojourn.durable import Answer, Operation
from sojourn.durable.checks import LONGEST_MS, checked_name
from sojourn.durable.purgatory import checked_after
from sojourn.errors import Closed


class Client:
    """A service of `sojourn serve`, with the verbs and the answers of `durable.Purgatory`.

    `url` and `token` are by default those of the environment, SOJOURN_URL and SOJOURN_TOKEN. A
    call that gets no answer, or "try later", is sent again with growing pauses until
    `call_timeout_ms` have passed; then it raises `Unreachable`, or what the service said.
    Sending again is safe, and a submission that had arrived is then a "duplicate". `transport`
    is httpx's, for tests and for TLS settings of your own. Every method: any thread.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        call_timeout_ms: int = 30_000,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._address = Address(url, token)
        self._verbs = Verbs(self._address, Retries(checked_timeout_ms(call_timeout_ms) / 1000))
        self._closing = threading.Event()
        self._http = httpx.Client(
            headers=self._address.headers,
            transport=Pool() if transport is None else transport,
        )

    # Commands.

    def submit(
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
        return only(self.submit_many([row]))

    def signal(self, key: str, offset: int) -> Answer:
        """As `durable.Purgatory.signal`."""
        return only(self.signal_many([(key, offset)]))

    def cancel(self, id: str) -> Answer:
        """As `durable.Purgatory.cancel`."""
        return only(self.cancel_many([id]))

    def submit_many(self, rows: Iterable[Any]) -> list[Answer]:
        """As `durable.Purgatory.submit_many`, in as many requests as it takes.

        `call_timeout_ms` is for each of them. If one fails, that is raised; send all rows again,
        those that had arrived are duplicates.
        """
        return self._take(self._verbs.submit_many(rows))

    def signal_many(self, rows: Iterable[tuple[str, int]]) -> list[Answer]:
        """As `durable.Purgatory.signal_many`, in as many requests as it takes."""
        return self._take(self._verbs.signal_many(rows))

    def cancel_many(self, ids: Iterable[str]) -> list[Answer]:
        """As `durable.Purgatory.cancel_many`, in as many requests as it takes."""
        return self._take(self._verbs.cancel_many(ids))

    # Reading.

    def get(self, id: str, wait_ms: int = 0) -> Operation | None:
        """The operation, ended or, when `wait_ms` have passed, as it is then; None if unknown."""
        return self._take(self._verbs.get(id, wait_ms))

    def progress(self, key: str) -> int | None:
        """As `durable.Purgatory.progress`."""
        return self._take(self._verbs.progress(key))

    def outcomes(self, after: int = 0, limit: int = 1000, wait_ms: int = 0) -> list[Operation]:
        """As `durable.Purgatory.outcomes`."""
        return self._take(self._verbs.outcomes(after, limit, wait_ms))

    def follow(self, after: int = 0) -> Iterator[Operation]:
        """Every outcome with a number above `after`, in order, each once, without an end.

        Where the service cannot be reached it is waited for, and the reading goes on where it
        was. Raises `Missed` if retention has removed what comes next.
        """
        outcomes = self._take(self._verbs.more(checked_after(after), is_first=True))
        while True:
            yield from outcomes
            outcomes = self._take(self._verbs.more(last_number(outcomes)))

    def subscription(self, name: str) -> Subscription:
        """The subscription of that name, at its position; a new one starts at the oldest."""
        return Subscription(self, self._verbs, checked_name(name))

    def close(self) -> None:
        """Close the connections. Calls of other threads that wait are ended with `Closed`."""
        self._closing.set()
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._address}{' closed' if self._closing.is_set() else ''}>"

    # Taking steps.

    def _take(self, steps: Steps[T]) -> T:
        reply: Reply | NoReply | None = None
        try:
            while True:
                step = steps.send(reply)
                if self._closing.is_set() or (
                    isinstance(step, Pause) and self._closing.wait(step.seconds)
                ):
                    raise Closed(f"the client of {self._address} was closed")
                reply = self._send(step) if isinstance(step, Call) else None
        except StopIteration as end:
            value: T = end.value
            return value

    def _send(self, call: Call) -> Reply | NoReply:
        request = self._http.build_request(
            call.method,
            self._address.origin + call.path,
            content=call.body,
            headers=JSON if call.body is not None else None,
            timeout=call.timeout_s,
        )
        until_s = time.monotonic() + call.timeout_s
        try:
            response = self._http.send(request, stream=True)
            try:
                body = b"".join(_in_time(response, until_s))
            finally:
                response.close()
        except httpx.TransportError as error:
            return NoReply(error)
        except RuntimeError as error:  # httpx's, for a client that was closed
            if not self._closing.is_set():
                raise
            raise Closed(f"the client of {self._address} was closed") from error
        return Reply(response.status_code, response.headers, body)


class Subscription:
    """As `durable.Subscription`, kept by the service: a reader of outcomes with a name.

    `read` goes on where this object has come to, and begins at the position that was committed;
    `commit` makes that durable. Not for several threads at once.
    """

    name: str

    def __init__(self, client: Client, verbs: Verbs, name: str) -> None:
        self._client = client
        self._verbs = verbs
        self._cursor: int | None = None
        self.name = name

    @property
    def position(self) -> int:
        """The number of the last outcome that was committed; 0 before the first."""
        return self._client._take(self._verbs.position(self.name))

    @property
    def behind(self) -> int:
        """How many outcomes have not been committed."""
        return self._client._take(self._verbs.behind(self.name))

    def read(self, limit: int = 1000, wait_ms: int = 0) -> list[Operation]:
        """Return the next outcomes, in order; wait up to `wait_ms` if there are none yet."""
        outcomes = self._client.outcomes(self._known_cursor(), limit, wait_ms)
        if outcomes:
            self._cursor = last_number(outcomes)
        return outcomes

    def commit(self, number: int | None = None) -> None:
        """Keep the position: by default that of all that were read."""
        cursor = self._known_cursor()
        number = cursor if number is None else checked_after(number)
        self._client._take(self._verbs.commit(self.name, number))
        self._cursor = max(cursor, number)

    def _known_cursor(self) -> int:
        if self._cursor is None:
            self._cursor = self.position
        return self._cursor

    def __repr__(self) -> str:
        return f"<Subscription {self.name!r} of {self._client!r}>"


def _in_time(response: httpx.Response, until_s: float) -> Iterator[bytes]:
    """The body. httpx's own timeout is for each part of it, and one that trickles never ends."""
    for part in response.iter_bytes():
        if time.monotonic() > until_s:
            raise httpx.ReadTimeout("the reply took too long", request=response.request)
        yield part


JSON = {"content-type": "application/json"}


def checked_timeout_ms(call_timeout_ms: Any) -> int:
    return checked_count(
        call_timeout_ms, "call_timeout_ms", 1, LONGEST_MS, "the default is 30 seconds"
    )
