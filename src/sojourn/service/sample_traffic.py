"""Sample traffic: a shop, its warehouse and its approvals, so that there is something to look at.

order       waits until it is paid and in stock; one in twelve never is, and expires
delivery    waits until 2 of 3 regions have confirmed it; some regions are slow
approval    waits for a person; one in ten is cancelled
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from sojourn.durable.checks import checked_signal
from sojourn.durable.requests import Request
from sojourn.durable.submissions import checked_submission
from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.service.service import Service

_REGIONS = ("eu", "us", "ap")
_MUGS = 7  # kinds of them


class SampleTraffic:
    """Submits and signals, some `per_second`, until it is cancelled."""

    def __init__(self, service: Service, per_second: float = 20.0, seed: int = 7) -> None:
        self._service = service
        self._per_second = per_second
        self._random = random.Random(seed)
        self._stock = [0] * _MUGS
        self._later: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Go on for as long as it is let."""
        kinds: tuple[Callable[[str], Awaitable[None]], ...] = (
            self._order,
            self._order,
            self._order,
            self._delivery,
            self._approval,
        )
        run = format(self._service.started_ms, "x")  # another run has other ids
        number = 0
        try:
            while True:
                await asyncio.sleep(self._random.expovariate(self._per_second))
                number += 1
                await self._random.choice(kinds)(f"{run}-{number}")
        finally:
            for task in self._later:
                task.cancel()

    async def _order(self, name: str) -> None:
        mug = self._random.randrange(_MUGS)
        self._stock[mug] += 1
        requires = [(f"order/{name}/paid", 1), (f"stock/mug-{mug}", self._stock[mug])]
        await self._submit(f"order/{name}", requires, 20_000, "order", {"mug": mug})
        if self._random.random() > 1 / 12:
            self._signal_later(f"order/{name}/paid", 1, self._random.expovariate(1 / 4))
        self._signal_later(f"stock/mug-{mug}", self._stock[mug], self._random.uniform(0.5, 8))

    async def _delivery(self, name: str) -> None:
        requires = [(f"delivery/{name}/{region}", 1) for region in _REGIONS]
        await self._submit(f"delivery/{name}", requires, 3_000, "delivery", None, 2)
        for region in _REGIONS:
            slow = 0.4 if region == "ap" else 0.05
            wait_s = 6 if self._random.random() < slow else self._random.expovariate(1 / 0.3)
            self._signal_later(f"delivery/{name}/{region}", 1, wait_s)

    async def _approval(self, name: str) -> None:
        key = f"approval/{name}"
        await self._submit(key, [(key, 1)], 120_000, "approval", "please look at this")
        if self._random.random() < 0.1:
            self._later_do(self._random.uniform(1, 20), Request(cancels=[key]))
        else:
            self._signal_later(key, 1, self._random.expovariate(1 / 30))

    async def _submit(
        self,
        id: str,
        requires: list[tuple[str, int]],
        timeout_ms: int,
        class_: str,
        payload: object,
        needed: int | None = None,
    ) -> None:
        submission = checked_submission(id, requires, timeout_ms, needed, class_, payload)
        await self._send(Request(submissions=[submission]))

    def _signal_later(self, key: str, offset: int, wait_s: float) -> None:
        self._later_do(wait_s, Request(signals=[checked_signal(key, offset)]))

    def _later_do(self, wait_s: float, request: Request) -> None:
        async def do() -> None:
            await asyncio.sleep(wait_s)
            await self._send(request)

        task = asyncio.create_task(do())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _send(self, request: Request) -> None:
        try:
            await self._service.sender.send(request)
        except SojournError:
            return  # full, or closing: it is only a sample
