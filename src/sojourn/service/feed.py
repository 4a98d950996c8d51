"""The feed: outcomes as they are told, from memory at its end and from disk before that.

Each outcome is encoded once for all who follow the end of the feed. What is kept in memory is
bounded, and nothing is kept while nobody reads. A reader has a position and asks for what comes
next; one that never reads holds nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor

from sojourn.durable import Operation, Purgatory
from sojourn.service.replies import encode
from sojourn.service.wire import operation_out

_TAIL_BYTES = 8 << 20
_TAIL_MOST = 10_000
_PAGE_BYTES = 4 << 20  # after which a page has no more
_FIRST_READ = 64  # rows read from disk at once, at first

Told = tuple[int, bytes]  # number, JSON


class Feed:
    """The outcomes of one purgatory. `on_outcomes`: the writer's thread; the rest: the loop's."""

    def __init__(self, purgatory: Purgatory, executor: Executor) -> None:
        self._purgatory = purgatory
        self._executor = executor
        self._readers = 0
        self._lock = threading.Lock()  # guards the next two
        self._fresh: deque[tuple[int, list[Operation]]] = deque()  # with their bytes
        self._fresh_bytes = 0
        self._tail: deque[Told] = deque()  # without a gap, up to the last that came
        self._tail_bytes = 0

    @property
    def last(self) -> int:
        """The number of the last outcome."""
        return self._purgatory.last_outcome

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Somebody follows: outcomes that come are kept for a while."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._take_fresh()
                self._tail.clear()
                self._tail_bytes = 0

    def on_outcomes(self, outcomes: list[Operation]) -> None:
        """Take note of what is on disk now. Those that are too many to keep are read from disk."""
        if not self._readers:
            return
        tail = outcomes[-_TAIL_MOST:]
        size = sum([len(each.content) for each in tail])
        with self._lock:
            self._fresh.append((size, tail))
            self._fresh_bytes += size
            while self._fresh_bytes > _TAIL_BYTES:
                self._fresh_bytes -= self._fresh.popleft()[0]

    def _take_fresh(self) -> list[list[Operation]]:
        with self._lock:
            fresh = [outcomes for _, outcomes in self._fresh]
            self._fresh.clear()
            self._fresh_bytes = 0
        return fresh

    async def page(self, after: int, limit: int) -> list[Told]:
        """Outcomes with numbers above `after`, in order, `limit` at most; none if there are none.

        Raises `Missed` if retention has removed the one that follows `after`.
        """
        if after >= self.last:
            return []
        self._encode()
        if self._tail and self._tail[0][0] <= after + 1 <= self._tail[-1][0]:
            return self._from_tail(after, limit)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._from_disk, after, limit)

    def _encode(self) -> None:
        for outcomes in self._take_fresh():
            for operation in outcomes:
                number = operation.number
                assert number is not None
                if self._tail and self._tail[-1][0] != number - 1:
                    self._tail.clear()  # a gap: some were too many to keep
                    self._tail_bytes = 0
                written = encode(operation_out(operation))
                self._tail.append((number, written))
                self._tail_bytes += len(written)
            while self._tail_bytes > _TAIL_BYTES or len(self._tail) > _TAIL_MOST:
                self._tail_bytes -= len(self._tail.popleft()[1])

    def _from_tail(self, after: int, limit: int) -> list[Told]:
        start = after + 1 - self._tail[0][0]
        page: list[Told] = []
        size = 0
        for at in range(start, min(start + limit, len(self._tail))):
            page.append(self._tail[at])
            size += len(self._tail[at][1])
            if size > _PAGE_BYTES:
                break
        return page

    def _from_disk(self, after: int, limit: int) -> list[Told]:
        page: list[Told] = []
        size = 0
        at_once = _FIRST_READ
        until = self._purgatory.last_outcome
        while len(page) < limit and size <= _PAGE_BYTES:
            rows = self._purgatory.read(after, until, min(at_once, limit - len(page)))
            for operation in rows:
                assert operation.number is not None
                after = operation.number
                page.append((after, encode(operation_out(operation))))
                size += len(page[-1][1])
            if len(rows) < at_once:
                break
            at_once *= 4
        return page
