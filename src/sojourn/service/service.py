"""The service: a durable purgatory, and what serves it to a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sojourn.durable import Operation, Purgatory
from sojourn.service.counts import Counts
from sojourn.service.deliveries import Deliveries
from sojourn.service.feed import Feed
from sojourn.service.polls import Polls
from sojourn.service.sample_traffic import SampleTraffic
from sojourn.service.sender import Sender
from sojourn.service.settings import Settings
from sojourn.service.state import State
from sojourn.service.webhooks import AllowList, Webhooks

T = TypeVar("T")

_READERS = 4  # threads that read the disk
_TROUBLE_S = 5.0  # how long a refused command counts as trouble


class Service:
    """What the handlers of requests use. Made and used on one event loop.

    async with Service(settings) as service:
        app = create_app(service)
    """

    purgatory: Purgatory
    sender: Sender
    feed: Feed
    polls: Polls
    state: State
    deliveries: Deliveries

    def __init__(self, settings: Settings, purgatory: Purgatory | None = None) -> None:
        self.settings = settings
        self.counts = Counts(self)
        self.connections: Callable[[], int] = lambda: 0  # how many are open
        self.streams = 0  # that are open
        self.reserved_bytes = 0  # of large bodies that are in memory
        self.is_closing = False
        self.started_ms = 0
        self._given = purgatory
        self._executor = ThreadPoolExecutor(_READERS, "sojourn-read")
        self._remove_listener: Callable[[], None] = lambda: None
        self._recorder: Any = None
        self._traffic: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the file, and everything on it."""
        settings = self.settings
        allow_list = AllowList(settings.webhook_allow)
        if self._given is None:
            self.purgatory = await asyncio.to_thread(self._open)
        else:
            self.purgatory = self._given
        try:
            webhooks = Webhooks(settings.data / "webhooks.json")
            if settings.history is not None:
                from sojourn.history import Recorder  # which needs Arrow

                self._recorder = Recorder(self.purgatory, settings.history)
                await asyncio.to_thread(self._recorder.start)
        except BaseException:
            await self._release()
            raise
        self.started_ms = self.purgatory.now_ms
        self.sender = Sender(self.purgatory)
        self.feed = Feed(self.purgatory, self._executor)
        self.polls = Polls(settings.limits.waiters)
        self.deliveries = Deliveries(self, webhooks, allow_list)
        self._remove_listener = self.purgatory.listen(self._on_news)
        self.state = State(self)
        self.counts.start()
        self.deliveries.start()
        if settings.sample_traffic:
            self._traffic = asyncio.create_task(SampleTraffic(self).run())

    def _open(self) -> Purgatory:
        self.settings.data.mkdir(parents=True, exist_ok=True)
        return Purgatory(
            self.settings.file,
            max_waiting=self.settings.max_waiting,
            retention_ms=self.settings.retention_ms,
        )

    def _on_news(self, news: Any) -> None:
        """On the writer's thread: a batch is on disk."""
        if news.outcomes:
            self.feed.on_outcomes(news.outcomes)
            self.polls.on_outcomes(news.outcomes[-1].number, news.outcomes)

    # What handlers ask.

    async def find(self, id: str) -> Operation | None:
        """The operation of this id, waiting or ended."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self.purgatory.get, id)

    async def ask(self, question: Callable[[Any], T]) -> T:
        """What the machine, which stands still meanwhile, answers."""
        return await asyncio.wrap_future(self.purgatory.inspect(question))

    def trouble(self) -> str | None:
        """Why commands are not taken; None if they are.

        A while after the disk has refused one it may be tried again, so that a service that gets
        no commands because it is not ready finds out when it is.
        """
        return self.sender.refusal(_TROUBLE_S)

    def subscribers(self) -> list[dict[str, Any]]:
        """Each subscription: its name, position, how far behind, and its webhook if it has one."""
        names = sorted(self.purgatory.subscriptions())
        return [subscriber for name in names if (subscriber := self.subscriber(name)) is not None]

    def subscriber(self, name: str) -> dict[str, Any] | None:
        """The same for one; None if there is none."""
        position = self.position(name)
        if position is None:
            return None
        return {
            "name": name,
            "position": position,
            "behind": self.purgatory.last_outcome - position,
            "webhook": self.deliveries.state(name),
        }

    def position(self, name: str) -> int | None:
        """The subscription's position; None if there is none."""
        return self.purgatory.subscriptions().get(name)

    # Ending.

    def begin_closing(self) -> None:
        """Take no more; who waits is answered at once."""
        if not self.is_closing:
            self.is_closing = True
            self.polls.close()

    async def close(self) -> None:
        """Write what is queued, and release the file."""
        self.begin_closing()
        if self._traffic is not None:
            self._traffic.cancel()
            await asyncio.gather(self._traffic, return_exceptions=True)
        await self.deliveries.close()
        self.counts.close()
        self._remove_listener()
        self.state.close()
        await self._release()

    async def _release(self) -> None:
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)
        if self._given is None:
            await asyncio.to_thread(self.purgatory.close)
        self._executor.shutdown(wait=False)

    async def __aenter__(self) -> Service:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
