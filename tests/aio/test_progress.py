"""Waiting for progress on an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import DelayedOperation, aio
from sojourn.errors import (
    OutOfRange,
    WrongType,
)
from tests import ids
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts, never

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 30.0


def test_a_wait_for_progress_ends_when_the_progress_is_made() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            task = asyncio.create_task(purgatory.wait(requires=[("a", 10), ("b", 20)], timeout=30))
            await step()
            assert counts(purgatory) == (2, 1, 1)
            assert purgatory.signal("a", 10) == 0
            assert purgatory.signal("b", 19) == 0
            assert purgatory.signal("b", 20) == 1
            assert await task is True
            assert counts(purgatory) == (0, 0, 0)
            assert (purgatory.progress("b"), purgatory.progress("c")) == (20, None)
            # Progress that was made before counts too.
            assert await purgatory.wait(requires=[("a", 3)], timeout=0) is True
            assert await purgatory.wait(requires=[("a", 30)], timeout=0.5) is False

    run_quickly(main())


def test_some_of_the_progress_may_be_enough() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            tasks = [
                asyncio.create_task(
                    purgatory.wait(
                        requires=[("a", 1), ("b", 1), ("c", 1)], needed=needed, timeout=1
                    )
                )
                for needed in (1, 2, 3, None)
            ]
            await step()
            assert purgatory.signal_many([("c", 1), ("a", 1)]) == 2
            assert await asyncio.gather(*tasks) == [True, True, False, False]

    run_quickly(main())


def test_an_operation_of_ones_own_may_wait_for_progress() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            future = purgatory.submit(DelayedOperation(1000), requires=[("a", 1)])
            assert not purgatory.try_complete_else_watch(
                DelayedOperation(1000), requires=[("a", 1), ("b", 1)], needed=1
            )
            assert purgatory.submit_many([(DelayedOperation(1000), [("a", 1)])]) == 0
            assert purgatory.signal("a", 5) == 3
            assert await future is True

    run_quickly(main())


def test_signals_from_other_threads_reach_the_loop() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            tasks = [
                asyncio.create_task(purgatory.wait(requires=[(n, 1), ("all", n)], timeout=WAIT_S))
                for n in range(100)
            ]
            await step()
            answers: set[int] = set()

            def bring() -> None:
                for number in range(100):
                    answers.add(purgatory.signal(number, 1))
                answers.add(purgatory.signal_many([("all", 50), ("all", 100)]))
                answers.add(purgatory.signal_many([]))

            await asyncio.gather(asyncio.to_thread(bring), *tasks)
            assert answers == {0}
            assert [task.result() for task in tasks] == [True] * 100

    asyncio.run(main())


@pytest.mark.parametrize(
    ("key", "offset", "error"),
    [([], 1, WrongType), ("a", "1", WrongType), ("a", 2**63, OutOfRange)],
    ids=ids.plain,
)
def test_a_signal_that_means_nothing_is_refused_in_the_thread_that_gave_it(
    key: Any, offset: Any, error: type[Exception]
) -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            gives: list[Callable[[], int]] = [
                lambda: purgatory.signal(key, offset),
                lambda: purgatory.signal_many([("b", 1), (key, offset)]),
            ]
            for give in gives:
                with pytest.raises(error):
                    give()
                with pytest.raises(error):
                    await asyncio.to_thread(give)
            await step()
            assert purgatory.progress("b") is None

    asyncio.run(main())


def test_signals_that_are_no_list_are_refused_in_any_thread() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            no_list: Any = 5
            with pytest.raises(WrongType, match=r"must be \(key, offset\) pairs, got 5"):
                purgatory.signal_many(no_list)
            with pytest.raises(WrongType, match=r"must be \(key, offset\) pairs, got 5"):
                await asyncio.to_thread(purgatory.signal_many, no_list)

    asyncio.run(main())


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"needed": 1},
        {"keys": ["a"], "predicate": never, "needed": 1},
        {"keys": ["a"], "requires": [("a", 1)]},
        {"predicate": never, "requires": [("a", 1)]},
        {"predicate": never},
        {"keys": ["a"]},
        {"requires": 5},
        {"requires": [("a", "b")]},
    ],
    ids=ids.plain,
)
def test_a_wait_for_nothing_or_for_two_things_is_refused(what: dict[str, Any]) -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            with pytest.raises(WrongType):
                await purgatory.wait(**what, timeout=1)
            assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())
