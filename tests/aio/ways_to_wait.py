"""The ways in which a program awaits a wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import aio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


WAIT_S = 30.0


class Door:
    """Something to wait for: who comes through once it is open is let in by name."""

    def __init__(self) -> None:
        self.purgatory = aio.Purgatory("door")
        self.is_open = False

    def wait(self, who: str = "guest", timeout: float | None = 30) -> Coroutine[Any, Any, Any]:
        return self.purgatory.wait(lambda: self.is_open and who, keys=["door"], timeout=timeout)

    def open(self) -> int:
        self.is_open = True
        return self.purgatory.check_and_complete("door")


def awaited(wait: Any) -> Coroutine[Any, Any, Any]:
    async def one() -> Any:
        return await wait

    return one()


async def in_a_group(wait: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(wait)
    return task.result()


async def gathered(wait: Any) -> Any:
    return (await asyncio.gather(wait, asyncio.sleep(0)))[0]


async def first_completed(wait: Any) -> Any:
    return await next(iter(asyncio.as_completed([wait])))


async def under_a_timeout(wait: Any) -> Any:
    async with asyncio.timeout(60):
        return await wait


async def ensured(wait: Any) -> Any:
    return await asyncio.ensure_future(wait)


async def shielded(wait: Any) -> Any:
    return await asyncio.shield(wait)


async def delegated(wait: Any) -> Any:
    class Delegates:
        def __await__(self) -> Any:
            return (yield from wait)

    return await Delegates()


AROUND: list[Callable[[Any], Coroutine[Any, Any, Any]]] = [
    lambda wait: wait,
    awaited,
    in_a_group,
    gathered,
    first_completed,
    lambda wait: asyncio.wait_for(wait, 60),
    lambda wait: asyncio.wait_for(wait, None),
    under_a_timeout,
    ensured,
    shielded,
    delegated,
]


AROUND_NAMES = [
    "a task",
    "await",
    "TaskGroup",
    "gather",
    "as_completed",
    "wait_for",
    "wait_for without a limit",
    "timeout",
    "ensure_future",
    "shield",
    "yield from",
]


around = pytest.mark.parametrize("around", AROUND, ids=AROUND_NAMES)
