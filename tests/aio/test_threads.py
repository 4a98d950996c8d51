"""News and tasks that come to a loop from other threads."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from sojourn import aio
from sojourn.errors import (
    WrongType,
)
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts, never

WAIT_S = 30.0


def test_news_from_another_thread_wakes_the_loop() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            flags: list[int] = []
            looked_in: set[int] = set()

            def predicate() -> bool:
                looked_in.add(threading.get_ident())
                return bool(flags)

            task = asyncio.create_task(purgatory.wait(predicate, keys=["a"], timeout=WAIT_S))
            await step()
            answers: list[int] = []

            def bring() -> None:
                flags.append(1)
                answers.append(purgatory.check_and_complete("a"))

            thread = threading.Thread(target=bring)
            thread.start()
            assert await task is True
            thread.join(WAIT_S)
            assert answers == [0]
            assert looked_in == {threading.get_ident()}
            assert counts(purgatory) == (0, 0, 0)

    asyncio.run(main())


def test_news_from_many_threads_reaches_every_waiter() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            arrived: set[int] = set()
            tasks = [
                asyncio.create_task(
                    purgatory.wait(partial(arrived.__contains__, n), keys=[n], timeout=WAIT_S)
                )
                for n in range(400)
            ]
            await step()

            def bring(share: range) -> None:
                for number in share:
                    arrived.add(number)
                    purgatory.check_and_complete(number)

            threads = [
                threading.Thread(target=bring, args=(range(first, 400, 4),)) for first in range(4)
            ]
            for thread in threads:
                thread.start()
            assert await asyncio.gather(*tasks) == [True] * 400
            for thread in threads:
                thread.join(WAIT_S)
            assert counts(purgatory) == (0, 0, 0)

    asyncio.run(main())


def test_a_key_that_is_not_hashable_is_refused_in_the_thread_that_gave_it() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            errors: list[BaseException] = []

            def bring() -> None:
                try:
                    purgatory.check_and_complete([])  # type: ignore[arg-type]
                except WrongType as error:
                    errors.append(error)

            await asyncio.to_thread(bring)
            await step()
            assert len(errors) == 1

    asyncio.run(main())


def test_tasks_may_be_added_from_other_threads() -> None:
    async def main() -> None:
        timer = aio.Timer()
        ran: list[tuple[int, int]] = []
        all_ran = asyncio.Event()

        def note(number: int) -> None:
            ran.append((number, threading.get_ident()))
            if len(ran) == 200:
                all_ran.set()

        def add(share: range) -> None:
            for number in share:
                timer.call_later(number % 5 / 1000, note, number)

        threads = [threading.Thread(target=add, args=(range(first, 200, 4),)) for first in range(4)]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(all_ran.wait(), WAIT_S)
        for thread in threads:
            thread.join(WAIT_S)
        assert sorted(number for number, _ in ran) == list(range(200))
        assert {thread for _, thread in ran} == {threading.get_ident()}
        timer.close()

    asyncio.run(main())


def test_no_thread_is_started() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            await purgatory.wait(never, keys=["a"], timeout=0.005)
            assert set(threading.enumerate()) <= before

    before = set(threading.enumerate())
    run_quickly(main())
    assert set(threading.enumerate()) <= before
