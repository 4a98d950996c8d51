"""The sender: commands go from the event loop to the writer, and the disk's refusals are noted."""

from __future__ import annotations

import asyncio
import math

from sojourn.durable import Answer, Purgatory
from sojourn.durable.requests import Request
from sojourn.errors import Closed, NotWritten


class Sender:
    """Sends requests of one loop to one purgatory."""

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._loop = asyncio.get_running_loop()
        self._refusal: tuple[str, float] | None = None  # the disk's last, and when

    def refusal(self, within_s: float) -> str | None:
        """Why the disk refused the last command, if that is not longer ago."""
        if self._refusal is None or self._loop.time() - self._refusal[1] > within_s:
            return None
        return self._refusal[0]

    async def send(self, request: Request) -> list[Answer]:
        """Put the request into the next batch; return its answers."""
        try:
            answers = await self._purgatory.send(request)
        except Closed as error:  # for good: the file has to be opened again
            self._refusal = str(error), math.inf
            raise
        except NotWritten as error:
            self._refusal = str(error), self._loop.time()
            raise
        self._refusal = None
        return answers
