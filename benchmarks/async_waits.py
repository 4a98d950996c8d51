"""Very many coroutines that wait, each for its own key and for at most 30 s.

Timed as one: a task is made for each wait, all of them come to rest, each is completed by news
about its key, all are gathered. Every contender does so as a careful user would write it:

- `aio.Purgatory.wait` with a predicate: the key goes into a set, then the purgatory is told;
- `aio.Purgatory.wait` with a progress condition: one signal;
- asyncio alone: a future in a dict under the key, awaited inside `asyncio.timeout`;
- `aio.Timer` and a future in a dict: the timer gives the future its answer at the deadline;
- a future in a dict and no timeout at all: what the tasks themselves cost.

Memory is the growth of the process's peak, from before the tasks are made; the keys exist by then.
Every contender has a process of its own and starts on fresh memory, after a thousand waits to
warm up. With the garbage collector at its default, about half the time goes into its passes over
all the tasks that rest, whoever they wait for; without it the contenders themselves are seen.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from benchmarks.case import Skipped
from benchmarks.memory import peak_bytes, resident_bytes
from benchmarks.stopwatch import Stopwatch
from sojourn import aio

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from benchmarks.case import Row

_TIMEOUT_S = 30.0
_WARMUPS = 1_000


def measure(name: str, params: dict[str, Any]) -> Row:
    keys = [f"key-{n}" for n in range(params["waits"])]
    if not params["collect"]:
        gc.disable()
    return asyncio.run(play(_WAITS[name], keys))


async def play(kind: type[Waits], keys: list[str]) -> Row:
    await wait_for_all(kind(), keys[:_WARMUPS])
    waits = kind()
    gc.collect()
    before = resident_bytes()
    parking, completing = await wait_for_all(waits, keys)
    return {
        "each_us": (parking.wall_ns + completing.wall_ns) / 1e3 / len(keys),
        "cpu_us": (parking.cpu_ns + completing.cpu_ns) / 1e3 / len(keys),
        "park_us": parking.wall_ns / 1e3 / len(keys),
        "park_cpu_us": parking.cpu_ns / 1e3 / len(keys),
        "bytes_each": (peak_bytes() - before) / len(keys),
        "peak_mb": (peak_bytes() - before) / 1e6,
    }


async def wait_for_all(waits: Waits, keys: list[str]) -> tuple[Stopwatch, Stopwatch]:
    """Make the tasks and let them come to rest, then complete them; the time of both."""
    parking, completing = Stopwatch(), Stopwatch()
    with parking:
        tasks = [asyncio.create_task(waits.wait(key)) for key in keys]
        await asyncio.sleep(0)  # the loop goes round once: each task runs up to its wait
    with completing:
        waits.complete_all(keys)
        answers = await asyncio.gather(*tasks)
    if answers.count(True) != len(keys):
        raise AssertionError(f"{answers.count(True)} of {len(keys)} were completed")
    waits.close()
    return parking, completing


class Waits(ABC):
    """A way for coroutines to wait for news about a key."""

    @abstractmethod
    def wait(self, key: str) -> Coroutine[Any, Any, bool]:
        """Wait for the key; True if it came, False after 30 s."""

    @abstractmethod
    def complete_all(self, keys: list[str]) -> None:
        """Bring the news about each key."""

    def close(self) -> None:  # noqa: B027
        """Stop what runs beside the loop."""


class Predicates(Waits):
    """`aio.Purgatory` and a predicate."""

    def __init__(self) -> None:
        self._purgatory = aio.Purgatory("bench")
        self._come: set[str] = set()

    def wait(self, key: str) -> Coroutine[Any, Any, bool]:
        come = self._come
        return self._purgatory.wait(lambda: key in come, keys=(key,), timeout=_TIMEOUT_S)

    def complete_all(self, keys: list[str]) -> None:
        add, check = self._come.add, self._purgatory.check_and_complete
        for key in keys:
            add(key)
            check(key)

    def close(self) -> None:
        self._purgatory.close()


class Progress(Waits):
    """`aio.Purgatory` and a progress condition."""

    def __init__(self) -> None:
        self._purgatory = aio.Purgatory("bench")
        if "requires" not in inspect.signature(self._purgatory.wait).parameters:
            raise Skipped("this sojourn has no progress conditions")

    def wait(self, key: str) -> Coroutine[Any, Any, bool]:
        return self._purgatory.wait(requires=((key, 1),), timeout=_TIMEOUT_S)

    def complete_all(self, keys: list[str]) -> None:
        signal = self._purgatory.signal
        for key in keys:
            signal(key, 1)

    def close(self) -> None:
        self._purgatory.close()


class Futures(Waits):
    """A dict of futures, and nothing that ends a wait but news."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._futures: dict[str, asyncio.Future[bool]] = {}

    async def wait(self, key: str) -> bool:
        future = self._future(key)
        try:
            return await future
        finally:
            del self._futures[key]

    def _future(self, key: str) -> asyncio.Future[bool]:
        future: asyncio.Future[bool] = self._loop.create_future()
        self._futures[key] = future
        return future

    def complete_all(self, keys: list[str]) -> None:
        futures = self._futures
        for key in keys:
            future = futures[key]
            if not future.done():
                future.set_result(True)


class Timeouts(Futures):
    """A dict of futures under `asyncio.timeout`."""

    async def wait(self, key: str) -> bool:
        future = self._future(key)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await future
        except TimeoutError:
            return False
        finally:
            del self._futures[key]


class Timers(Futures):
    """A dict of futures, and an `aio.Timer` that answers them at the deadline."""

    def __init__(self) -> None:
        super().__init__()
        self._timer = aio.Timer(name="bench")

    async def wait(self, key: str) -> bool:
        future = self._future(key)
        expiry = self._timer.call_later(_TIMEOUT_S, _expire, future)
        try:
            return await future
        finally:
            expiry.cancel()
            del self._futures[key]

    def close(self) -> None:
        self._timer.close()


def _expire(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)


_WAITS: dict[str, type[Waits]] = {
    "aio-purgatory": Predicates,
    "aio-progress": Progress,
    "asyncio-timeout": Timeouts,
    "aio-timer": Timers,
    "bare-futures": Futures,
}
