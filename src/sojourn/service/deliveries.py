"""Deliveries: outcomes on their way to webhooks.

Each subscription with a webhook has a task. It posts the outcomes after the position, some at a
time and in order; the position moves when the receiver has answered 2xx. Otherwise it tries again,
for ever, at longer and longer intervals: 1 s, 2 s, 4 s … 5 min, each somewhat shortened at random,
so that receivers are not met by everybody at once. At least once, therefore: a receiver that must
not do things twice looks at the numbers.

    read the page after the position --> POST --> 2xx: commit the position --> next page
                                          ^         |
                                          '- wait <-+ anything else
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import msgspec

from sojourn._log import log
from sojourn.durable.requests import Request
from sojourn.errors import Closed, Missed, SojournError
from sojourn.service.webhooks import AllowList, Webhook, Webhooks, sign

if TYPE_CHECKING:
    from sojourn.service.service import Service

_POST_S = 10.0  # for the whole answer
_ANSWER_BYTES = 64 << 10  # of a receiver's answer, that are read
_IDLE_MS = 3_600_000  # a look at the feed, even if nothing is told
_LAST_POSTS_S = 5.0  # for posts that are under way at the end


class Deliveries:
    """The tasks, one for each webhook."""

    def __init__(self, service: Service, webhooks: Webhooks, allow_list: AllowList) -> None:
        settings = service.settings
        self.allow_list = allow_list
        self.webhooks = webhooks
        self._service = service
        self._slots = asyncio.Semaphore(settings.webhook_concurrency)
        self._http = httpx.AsyncClient(
            follow_redirects=False,
            trust_env=False,  # no proxy, no .netrc
            timeout=_POST_S,
            headers={"user-agent": "sojourn", "content-type": "application/json"},
            limits=httpx.Limits(max_connections=settings.webhook_concurrency),
        )
        self._running: dict[str, Delivery] = {}

    def start(self) -> None:
        """Begin with what is kept."""
        for name in self.webhooks:
            self._begin(name)

    def set(self, name: str, webhook: Webhook | None) -> str | None:
        """Keep the webhook and begin; or remove it. Return the secret if one was made."""
        new_secret = None
        if webhook is not None:
            webhook.check()
            self.allow_list.check(webhook.url)
            before = self.webhooks.get(name)
            if webhook.secret is None and self._service.settings.webhook_secret is None:
                secret = None if before is None else before.secret
                if secret is None:
                    secret = new_secret = secrets.token_hex(32)
                webhook = msgspec.structs.replace(webhook, secret=secret)
        self.webhooks.set(name, webhook)
        running = self._running.pop(name, None)
        if running is not None:
            running.is_replaced = True
            running.stop()
        if webhook is not None:
            self._begin(name)
        return new_secret

    def state(self, name: str) -> dict[str, Any] | None:
        """The webhook's settings, but for its secret, and how it goes."""
        delivery = self._running.get(name)
        return None if delivery is None else delivery.state()

    def _begin(self, name: str) -> None:
        webhook = self.webhooks.get(name)
        assert webhook is not None
        self._running[name] = Delivery(self._service, name, webhook, self)

    async def post(self, webhook: Webhook, body: bytes, headers: dict[str, str]) -> httpx.Response:
        """Post it, when there is a slot; the answer's body is read, within bounds."""
        async with self._slots, asyncio.timeout(_POST_S):
            timestamp_s = int(time.time())
            secret = webhook.secret or self._service.settings.webhook_secret
            if secret is not None:
                headers = {**headers, "sojourn-signature": sign(secret, timestamp_s, body)}
            async with self._http.stream(
                "POST", webhook.url, content=body, headers=headers
            ) as response:
                size = 0
                async for part in response.aiter_raw():
                    size += len(part)
                    if size > _ANSWER_BYTES:
                        break
                return response

    async def close(self) -> None:
        """Let posts that are under way come to an end, for a moment."""
        tasks = [delivery.stop() for delivery in self._running.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_LAST_POSTS_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()
        await self._http.aclose()


class Delivery:
    """One webhook's task."""

    def __init__(
        self, service: Service, name: str, webhook: Webhook, deliveries: Deliveries
    ) -> None:
        self._service = service
        self._name = name
        self._webhook = webhook
        self._deliveries = deliveries
        self.is_replaced = False
        self._stopping = asyncio.Event()
        self._status = "idle"
        self._delivered = 0
        self._failures = 0
        self._attempts = 0  # at the page that is under way
        self._last_status: int | None = None
        self._last_error: str | None = None
        self._next_try_ms: int | None = None
        self._missed = 0
        self._task = asyncio.create_task(self._run(), name=f"webhook-{name}")

    def state(self) -> dict[str, Any]:
        """How it goes."""
        webhook = self._webhook
        return {
            "url": webhook.url,
            "batch": webhook.batch,
            "per_second": webhook.per_second,
            "status": self._status,
            "delivered": self._delivered,
            "failures": self._failures,
            "attempts": self._attempts,
            "last_status": self._last_status,
            "last_error": self._last_error,
            "next_try_ms": self._next_try_ms,
            "missed": self._missed,
        }

    def stop(self) -> asyncio.Task[None]:
        """Post no more."""
        self._stopping.set()
        return self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._deliver_next()
            except Closed:
                return
            except Exception as error:  # whatever it is, the next try may go well
                await self._wait_and_retry(error)

    async def _deliver_next(self) -> None:
        service = self._service
        position = service.position(self._name) or 0
        with service.feed.reading():
            try:
                page = await service.feed.page(position, self._webhook.batch)
            except Missed as missed:
                log.warning("webhook %r missed outcomes: %s", self._name, missed)
                self._missed += missed.last - position
                await self._commit(missed.last)
                return
            if not page:
                self._status = "idle"
                news = asyncio.ensure_future(service.polls.follow(position + 1, _IDLE_MS))
                stopping = asyncio.ensure_future(self._stopping.wait())
                try:
                    await asyncio.wait((news, stopping), return_when=asyncio.FIRST_COMPLETED)
                    if news.done():
                        news.result()
                finally:
                    news.cancel()
                    stopping.cancel()
                return
        began_s = time.monotonic()
        await self._post(page)
        await self._commit(page[-1][0])
        self._delivered += len(page)
        self._attempts = 0
        self._last_error = None
        self._next_try_ms = None
        left_s = began_s + 1 / self._webhook.per_second - time.monotonic()
        if left_s > 0:
            await self._pause(left_s)

    async def _post(self, page: list[tuple[int, bytes]]) -> None:
        webhook = self._webhook
        if not self._deliveries.allow_list.allows(webhook.url):
            self._status = "blocked"
            raise _NotTaken("the URL is not in --webhook-allow any more")
        self._status = "delivering" if not self._attempts else "retrying"
        self._attempts += 1
        first, last = page[0][0], page[-1][0]
        body = b'{"subscription":%b,"first":%d,"last":%d,"outcomes":[%b]}' % (
            msgspec.json.encode(self._name),
            first,
            last,
            b",".join([each for _, each in page]),
        )
        headers = {
            "sojourn-subscription": quote(self._name, safe=""),
            "sojourn-outcomes": f"{first}-{last}",
        }
        traces = {_TRACE.decode(each).traceparent for _, each in page}
        if len(traces) == 1 and (trace := traces.pop()) is not None:
            headers["traceparent"] = trace
        response = await self._deliveries.post(webhook, body, headers)
        self._last_status = response.status_code
        if not response.is_success:
            retry_after = response.headers.get("retry-after", "")
            after_s = int(retry_after) if retry_after.isdecimal() else 0
            raise _NotTaken(f"the receiver answered {response.status_code}", min(after_s, 3600))

    async def _commit(self, number: int) -> None:
        if self.is_replaced:
            return  # or deleted: the position is not ours any more
        await self._service.sender.send(Request(position=(self._name, number)))

    async def _wait_and_retry(self, error: Exception) -> None:
        settings = self._service.settings
        self._failures += 1
        if self._status != "blocked":
            self._status = "retrying"
        self._last_error = str(error) or type(error).__name__
        if isinstance(error, TimeoutError):
            self._last_error = f"no answer within {_POST_S:.0f} s"
        elif not isinstance(error, (_NotTaken, httpx.HTTPError, SojournError)):
            log.error("webhook %r", self._name, exc_info=error)
        doubled_ms = settings.webhook_retry_ms * 2.0 ** min(max(self._attempts - 1, 0), 30)
        wait_s = min(doubled_ms, settings.webhook_retry_most_ms) / 1000 * random.uniform(0.5, 1)
        if isinstance(error, _NotTaken):
            wait_s = max(wait_s, error.after_s)
        self._next_try_ms = self._service.purgatory.now_ms + int(wait_s * 1000)
        log.warning("webhook %r: %s; next try in %.1f s", self._name, self._last_error, wait_s)
        await self._pause(wait_s)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


class _NotTaken(Exception):
    """The receiver did not take it."""

    def __init__(self, message: str, after_s: int = 0) -> None:
        super().__init__(message)
        self.after_s = after_s


class _Traced(msgspec.Struct):
    traceparent: str | None = None


_TRACE = msgspec.json.Decoder(_Traced)
