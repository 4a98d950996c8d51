"""The verbs as steps: what to send, and what the replies mean. Sends nothing itself.

Rows go out in requests of at most so many rows and so many bytes:

    rows     r r x r r r r r r          x is wrong: refused here
    requests [r r   r] [r r r] [r r]
    answers  a a ! a    a a a   a a     in the order of the rows

A service that takes less says so (413): the request is cut in two, and so are those that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from operator import index
from typing import Any, NamedTuple
from urllib.parse import urlencode

from sojourn._log import log
from sojourn.client import wire
from sojourn.client.address import Address
from sojourn.client.calls import Call, NoReply, Pause, Reply, Retries, Steps
from sojourn.core.millis import checked_count
from sojourn.durable import Answer, Operation
from sojourn.durable.answers import REFUSED, WAITING
from sojourn.durable.checks import LONGEST_MS, checked_id, checked_name, checked_signal
from sojourn.durable.purgatory import checked_after, checked_limit
from sojourn.errors import Full, NotWritten, OutOfRange, SojournError, Unreachable

ROWS_MOST = 1_000
BYTES_MOST = 1 << 20  # of a request with more than one row
_BYTES_LEAST = 1 << 16  # if a service takes no more, it is one row that is too large
PAGE_MOST = 1_000  # outcomes in one reply
WAIT_AT_ONCE_MS = 20_000  # less than proxies allow a request


_NONE_YET = Answer(REFUSED)


class Row(NamedTuple):
    """A row on its way, and whose answer it gets."""

    at: int
    text: bytes


class Page(NamedTuple):
    """Some outcomes, and the number of the last one that there is."""

    outcomes: list[Operation]
    last: int


class Verbs:
    """What a client can do, as steps for its face to take."""

    def __init__(self, address: Address, retries: Retries) -> None:
        self._address = address
        self._retries = retries
        self._rows_most = ROWS_MOST
        self._bytes_most = BYTES_MOST

    # Commands.

    def submit_many(self, rows: Iterable[Any]) -> Steps[list[Answer]]:
        return self._send_all("operations", wire.submission_row, rows)

    def signal_many(self, rows: Iterable[Any]) -> Steps[list[Answer]]:
        return self._send_all("signals", wire.signal_row, rows)

    def cancel_many(self, ids: Iterable[Any]) -> Steps[list[Answer]]:
        return self._send_all("cancels", wire.cancel_row, ids)

    def send(self, place: str, rows: list[bytes]) -> Steps[list[Answer]]:
        """Send rows that are checked and encoded."""
        return self._send_all(place, bytes, rows)

    def _send_all(
        self, place: str, encode: Callable[[Any], bytes], rows: Iterable[Any]
    ) -> Steps[list[Answer]]:
        answers: list[Answer] = []
        request: list[Row] = []
        size = 0
        for row in rows:
            try:
                text = encode(row)
            except SojournError as error:
                answers.append(Answer(REFUSED, None, None, error))
                continue
            full = len(request) >= self._rows_most or size + len(text) > self._bytes_most
            if request and full:
                yield from self._send(place, request, answers)
                request, size = [], 0
            request.append(Row(len(answers), text))
            size += len(text) + 1
            answers.append(_NONE_YET)
        if request:
            yield from self._send(place, request, answers)
        return answers

    def _send(self, place: str, rows: list[Row], answers: list[Answer]) -> Steps[None]:
        """Send the rows and note their answers; those for which there is no room, again."""
        until_s = self._retries.until_s()
        attempt = 0
        while True:
            new_answers = yield from self._post(place, rows, until_s)
            for row, answer in zip(rows, new_answers, strict=True):
                answers[row.at] = answer
            rows = [row for row in rows if isinstance(answers[row.at].error, Full)]
            pause_s = self._retries.pause_s(attempt)
            if not rows or self._retries.now_s() + pause_s >= until_s:
                return
            yield Pause(pause_s)
            attempt += 1

    def _post(self, place: str, rows: list[Row], until_s: float) -> Steps[list[Answer]]:
        body = b"[" + b",".join(row.text for row in rows) + b"]"
        if len(rows) > self._rows_most or (len(body) > self._bytes_most and len(rows) > 1):
            return (yield from self._post_halves(place, rows, until_s))
        path = self._address.path("v1", place)
        reply = yield from self._retries.ask(Call("POST", path, body), until_s)
        if isinstance(reply, Reply) and reply.status == 413 and len(rows) > 1:
            if wire.code(reply) == "too_many_rows":
                self._rows_most = min(self._rows_most, len(rows) // 2)
            else:
                self._bytes_most = min(self._bytes_most, max(len(body) // 2, _BYTES_LEAST))
            return (yield from self._post_halves(place, rows, until_s))
        try:
            value = self._read(reply)
        except NotWritten as error:
            return [Answer(REFUSED, None, None, error)] * len(rows)
        except OutOfRange as error:
            if isinstance(reply, Reply) and reply.status == 413:  # the row by itself
                return [Answer(REFUSED, None, None, error)]
            raise
        with wire.understanding(self._address.url):
            return wire.read_answers(value, len(rows))

    def _post_halves(self, place: str, rows: list[Row], until_s: float) -> Steps[list[Answer]]:
        half = len(rows) // 2
        answers = yield from self._post(place, rows[:half], until_s)
        answers += yield from self._post(place, rows[half:], until_s)
        return answers

    # Reading.

    def get(self, id: str, wait_ms: int = 0) -> Steps[Operation | None]:
        wait = LongPoll(self._retries, wait_ms)
        path = self._address.path("v1", "operations", checked_id(id))
        while True:
            reply = yield from self._get(path, wait)
            if wire.is_unknown(reply, id):
                return None
            value = self._read(reply)
            with wire.understanding(self._address.url):
                operation = wire.read_operation(value)
            if operation.status != WAITING or wait.is_over:
                return operation
            yield from wait.go_on()

    def progress(self, key: str) -> Steps[int | None]:
        path = self._address.path("v1", "keys", checked_signal(key, 0)[0])
        reply = yield from self._get(path)
        progress: int | None = self._field(reply, "progress")
        return progress

    def outcomes(self, after: int, limit: int, wait_ms: int) -> Steps[list[Operation]]:
        after, limit = checked_after(after), checked_limit(limit)
        wait = LongPoll(self._retries, wait_ms)
        outcomes = (yield from self._page(after, limit, wait)).outcomes
        page_length = len(outcomes)
        while page_length == PAGE_MOST and len(outcomes) < limit:
            page = yield from self._page(last_number(outcomes), limit - len(outcomes))
            page_length = len(page.outcomes)
            outcomes += page.outcomes
        return outcomes

    def _page(self, after: int, limit: int, wait: LongPoll | None = None) -> Steps[Page]:
        """The outcomes behind `after`, once there are some or the wait is over."""
        query = {"after": after, "limit": min(limit, PAGE_MOST)}
        path = self._address.path("v1", "outcomes")
        while True:
            value = self._read((yield from self._get(path, wait, query)))
            with wire.understanding(self._address.url):
                outcomes = [wire.read_operation(each) for each in value["outcomes"]]
                page = Page(outcomes, index(value["last"]))
            if page.outcomes or wait is None or wait.is_over:
                return page
            yield from wait.go_on()

    def more(self, after: int, *, is_first: bool = False) -> Steps[list[Operation]]:
        """The outcomes behind `after`, once there are some, however long that takes.

        A service that cannot be reached is waited for too. First, and whenever it was away, it is
        asked at once where its feed ends: a feed that ends before `after` is another one.
        """
        attempt = 0
        at_once = is_first
        while True:
            wait = None if at_once else LongPoll(self._retries, WAIT_AT_ONCE_MS)
            try:
                page = yield from self._page(after, PAGE_MOST, wait)
            except Unreachable as error:
                log.warning("%s; still trying, to go on after outcome %d", error, after)
                yield Pause(self._retries.pause_s(attempt))
                attempt += 1
                at_once = True
                continue
            if page.last < after:
                raise OutOfRange(
                    f"after is {after}, and the last outcome of {self._address} is {page.last}; "
                    "is it another service, or restored from a backup? go on from what it has"
                )
            if page.outcomes:
                return page.outcomes
            attempt = 0
            at_once = False

    # Subscriptions.

    def position(self, name: str) -> Steps[int]:
        path = self._address.path("v1", "subscriptions", checked_name(name))
        reply = yield from self._get(path)
        position: int = 0 if wire.is_unknown(reply, name) else self._field(reply, "position")
        return position

    def behind(self, name: str) -> Steps[int]:
        path = self._address.path("v1", "subscriptions", checked_name(name))
        reply = yield from self._get(path)
        if wire.is_unknown(reply, name):
            return (yield from self._page(0, 1)).last
        behind: int = self._field(reply, "behind")
        return behind

    def commit(self, name: str, number: int) -> Steps[None]:
        path = self._address.path("v1", "subscriptions", checked_name(name), "position")
        call = Call("PUT", path, wire.position_row(number))
        self._read((yield from self._retries.ask(call, self._retries.until_s())))

    # One request.

    def _get(
        self, path: str, wait: LongPoll | None = None, query: dict[str, int] | None = None
    ) -> Steps[Reply | NoReply]:
        wait_ms = 0
        query = dict(query or {})
        if wait is not None and (wait_ms := wait.begin()):
            query["wait_ms"] = wait_ms
        target = f"{path}?{urlencode(query)}" if query else path
        until_s = self._retries.until_s()
        return (yield from self._retries.ask(Call("GET", target, wait_ms=wait_ms), until_s))

    def _field(self, reply: Reply | NoReply, name: str) -> Any:
        value = self._read(reply)
        with wire.understanding(self._address.url):
            return value[name]

    def _read(self, reply: Reply | NoReply) -> dict[str, Any]:
        return wire.read(reply, self._address.url)


class LongPoll:
    """A wait that a service keeps in several requests, each shorter than proxies allow."""

    def __init__(self, retries: Retries, wait_ms: int) -> None:
        wait_ms = checked_count(wait_ms, "wait_ms", 0, LONGEST_MS, "0 means not to wait")
        self._retries = retries
        self._until_s = retries.now_s() + wait_ms / 1000
        self._asked_ms = 0

    def begin(self) -> int:
        """How long to ask the service to wait now."""
        left_ms = ceil((self._until_s - self._retries.now_s()) * 1000)
        self._asked_ms = max(0, min(left_ms, WAIT_AT_ONCE_MS))
        self._began_s = self._retries.now_s()
        return self._asked_ms

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to wait for."""
        return self._asked_ms == 0 or self._retries.now_s() >= self._until_s

    def go_on(self) -> Steps[None]:
        """If the service replied too soon, give it time."""
        waited_ms = (self._retries.now_s() - self._began_s) * 1000
        if waited_ms < self._asked_ms / 2:
            left_s = self._until_s - self._retries.now_s()
            yield Pause(max(0.0, min(self._retries.pause_s(0), left_s)))


def last_number(outcomes: list[Operation]) -> int:
    """The number of the last of them."""
    number = outcomes[-1].number
    assert number is not None
    return number


def only(answers: list[Answer]) -> Answer:
    """The one answer; its error is raised."""
    if answers[0].error is not None:
        raise answers[0].error
    return answers[0]
