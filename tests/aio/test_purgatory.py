"""Waiting in a purgatory on an event loop; time is moved by hand where it can be."""

from __future__ import annotations

import asyncio
import gc
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import DelayedOperation, aio
from sojourn.errors import (
    Cancelled,
    Closed,
    Full,
    WrongType,
)
from tests import ids
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts, never

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WAIT_S = 30.0


# Waiting.


def test_a_predicate_that_holds_is_not_waited_for() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            assert await purgatory.wait(lambda: True, keys=["a"], timeout=1) is True
            assert asyncio.get_running_loop().time() == 0.0
            assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


def test_news_ends_the_wait_with_true() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            paid: set[str] = set()
            task = asyncio.create_task(
                purgatory.wait(lambda: "order" in paid, keys=["order", "shop"], timeout=30)
            )
            await step()
            assert counts(purgatory) == (2, 1, 1)
            assert purgatory.check_and_complete("order") == 0
            paid.add("order")
            assert purgatory.check_and_complete("order") == 1
            assert await task is True
            assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


@pytest.mark.parametrize("timeout", [0.001, 0.0305, 0.5, 1.001, 1.003, 8.0, 3600])
@pytest.mark.parametrize("start_s", [0.0, 0.0004, 12.3456789])
def test_without_news_the_wait_ends_with_false_when_its_time_is_over(
    timeout: float, start_s: float
) -> None:
    async def main() -> float:
        async with aio.Purgatory() as purgatory:
            loop = asyncio.get_running_loop()
            began = loop.time()
            assert await purgatory.wait(never, keys=["a"], timeout=timeout) is False
            assert counts(purgatory) == (0, 0, 0)
            return loop.time() - began

    waited = run_quickly(main(), start_s)
    assert timeout - 1e-9 <= waited <= timeout + 0.0021


@pytest.mark.parametrize("timeout", [0, -1, -0.001])
def test_without_time_the_predicate_is_looked_at_and_the_wait_is_over(timeout: float) -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            assert await purgatory.wait(never, keys=["a"], timeout=timeout) is False
            assert await purgatory.wait(lambda: True, keys=["a"], timeout=timeout) is True

    run_quickly(main())


def test_without_a_timeout_the_wait_lasts_until_there_is_news() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            done: list[int] = []
            task = asyncio.create_task(purgatory.wait(lambda: done, keys=["a"]))
            await asyncio.sleep(86_400)  # on the quick loop
            assert not task.done()
            done.append(1)
            purgatory.check_and_complete("a")
            assert await task is done

    run_quickly(main())


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ([{"order": 7}], {"order": 7}),
        ([None, 0, [], "", False, ("paid", 7)], ("paid", 7)),
        ([None, StopIteration], StopIteration),
        ([None, True], True),
        ([None, 0, []], False),  # the time runs out; never one of the empty answers
    ],
    ids=ids.plain,
)
def test_the_wait_gives_what_the_predicate_returned(answers: list[Any], result: Any) -> None:
    async def main() -> Any:
        async with aio.Purgatory() as purgatory:
            coming = iter([*answers, None])
            task = asyncio.create_task(purgatory.wait(lambda: next(coming), keys=["a"], timeout=1))
            for _ in answers:
                await step()
                purgatory.check_and_complete("a")
            return await task

    assert run_quickly(main()) == result


async def _holds() -> bool:
    return True


async def _yields() -> AsyncIterator[bool]:
    yield True


class _AsyncCall:
    async def __call__(self) -> bool:
        return True


class _Awaitable:
    def __await__(self) -> Any:
        return iter(())


@pytest.mark.parametrize(
    "predicate",
    [
        _holds,
        _yields,
        partial(_holds),
        _AsyncCall(),
        lambda: _holds(),
        lambda: _yields(),
        _Awaitable,
    ],
    ids=["def", "generator", "partial", "call", "lambda", "lambda generator", "awaitable"],
)
def test_a_predicate_that_has_to_be_awaited_is_refused(predicate: Any) -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            with pytest.raises(WrongType, match="must be a plain function"):
                await purgatory.wait(predicate, keys=["a"], timeout=1)
            assert counts(purgatory) == (0, 0, 0)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_quickly(main())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize(
    "error",
    [ValueError("its own"), StopIteration("its own"), StopAsyncIteration("its own")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_predicate_that_raises_ends_the_wait(error: Exception, at_once: bool) -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            armed = at_once

            def predicate() -> bool:
                if armed:
                    raise error
                return False

            task = asyncio.create_task(purgatory.wait(predicate, keys=["a"], timeout=1))
            beside = asyncio.create_task(purgatory.wait(lambda: armed, keys=["a"], timeout=1))
            await step()
            armed = True
            purgatory.check_and_complete("a")  # the error is for the one who waits, not for us
            assert await beside is True
            # What asyncio cannot carry (StopIteration) comes wrapped; it must come all the same.
            with pytest.raises(Exception, match=r"its own|StopIteration"):
                await asyncio.wait_for(task, 5)
            assert not isinstance(task.exception(), TimeoutError)
            assert counts(purgatory) == (0, 0, 0)
            assert purgatory.metrics().errors == 1

    run_quickly(main())


def test_a_cancelled_task_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            task = asyncio.create_task(purgatory.wait(never, keys=["a", "b"], timeout=30))
            await step()
            assert counts(purgatory) == (2, 1, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert counts(purgatory) == (0, 0, 0)
            assert purgatory.metrics().cancelled == 1

    run_quickly(main())


def test_a_wait_that_times_out_from_outside_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await purgatory.wait(never, keys=["a"])
            assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


def test_a_task_cancelled_after_the_news_is_cancelled_and_leaves_nothing() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            flags: list[int] = []
            task = asyncio.create_task(purgatory.wait(lambda: flags, keys=["a"], timeout=30))
            await step()
            flags.append(1)
            assert purgatory.check_and_complete("a") == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert counts(purgatory) == (0, 0, 0)
            assert purgatory.metrics().completed == 1

    run_quickly(main())


@pytest.mark.parametrize(
    ("how", "error"), [("cancel_for_key", Cancelled), ("close", Closed), ("cancel", Cancelled)]
)
def test_who_waits_is_told_that_the_wait_was_cancelled_or_the_purgatory_closed(
    how: str, error: type[Exception]
) -> None:
    """An error, and no CancelledError: that is for tasks that somebody cancelled."""

    async def main() -> None:
        purgatory = aio.Purgatory("orders")
        tasks = [
            asyncio.create_task(purgatory.wait(never, keys=["a", n], timeout=30)) for n in range(3)
        ]
        await step()
        if how == "close":
            assert purgatory.close() == 3
        elif how == "cancel":
            for operation in purgatory.waiting("a"):
                assert operation.cancel()
        else:
            assert len(purgatory.cancel_for_key("a")) == 3
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [error] * 3
        assert len(set(map(id, results))) == 3  # each its own, with its own traceback
        assert counts(purgatory) == (0, 0, 0)
        purgatory.close()
        with pytest.raises(Closed, match="'orders'"):
            await purgatory.wait(never, keys=["a"], timeout=30)

    run_quickly(main())


@pytest.mark.parametrize(("how", "error"), [("cancel_for_key", Cancelled), ("close", Closed)])
def test_a_task_group_hears_of_a_wait_that_was_cancelled(how: str, error: type[Exception]) -> None:
    async def main() -> None:
        purgatory = aio.Purgatory()
        went_on: list[str] = []

        async def one() -> None:
            await purgatory.wait(never, keys=["a"], timeout=30)
            went_on.append("no")

        async def all_of_them() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(one())
                group.create_task(purgatory.wait(never, keys=["a"], timeout=30))
                await step()
                if how == "close":
                    purgatory.close()
                else:
                    purgatory.cancel_for_key("a")

        with pytest.raises(ExceptionGroup) as caught:
            await all_of_them()
        assert [type(raised) for raised in caught.value.exceptions] == [error, error]
        assert went_on == []

    run_quickly(main())


def test_many_waiters_each_get_their_own_answer() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            arrived: set[int] = set()

            async def one(number: int) -> bool:
                return await purgatory.wait(
                    lambda: number in arrived, keys=[number % 10, "all"], timeout=number / 1000 + 1
                )

            tasks = [asyncio.create_task(one(number)) for number in range(1000)]
            await step()
            assert counts(purgatory) == (2000, 1000, 1000)
            arrived.update(range(0, 1000, 3))
            completed = sum(purgatory.check_and_complete(key) for key in range(10))
            assert completed == len(arrived)
            assert await asyncio.gather(*tasks) == [number % 3 == 0 for number in range(1000)]
            assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


# Looking, and limits.


def test_who_waits_can_be_looked_at_from_any_thread() -> None:
    async def main() -> None:
        async with aio.Purgatory("orders") as purgatory:
            tasks = [
                asyncio.create_task(purgatory.wait(never, keys=["a"], timeout=1)),
                asyncio.create_task(purgatory.wait(requires=[("b", 1)], timeout=2)),
            ]
            await step()
            with ThreadPoolExecutor(1) as pool:
                everyone = pool.submit(purgatory.waiting).result(WAIT_S)
                assert pool.submit(purgatory.metrics).result(WAIT_S).delayed == 2
            assert sorted(operation.timeout_ms for operation in everyone) == [1000, 2000]
            assert [wait.timeout_ms for wait in purgatory.waiting("b")] == [2000]
            assert purgatory.waiting("c") == []
            assert purgatory.waiting(None) == []  # None is a key like any other
            assert purgatory.name == "orders"
            await asyncio.gather(*tasks)
            assert purgatory.metrics().expired == 2

    run_quickly(main())


def test_beyond_the_limit_a_wait_is_refused() -> None:
    async def main() -> None:
        async with aio.Purgatory(max_waiting=1) as purgatory:
            task = asyncio.create_task(purgatory.wait(never, keys=["a"], timeout=1))
            await step()
            with pytest.raises(Full):
                await purgatory.wait(never, keys=["a"], timeout=1)
            with pytest.raises(Full):
                await purgatory.submit(DelayedOperation(5), ["a"])
            assert purgatory.metrics().refused == 2
            assert await task is False

    run_quickly(main())


def test_a_purgatory_takes_the_options_of_the_core() -> None:
    async def main() -> None:
        async with aio.Purgatory(
            tick_ms=10, wheel_size=8, audit_every_ms=50, forget_keys_after_ms=100
        ) as purgatory:
            assert purgatory.timer.snapshot().levels[0].tick_ms == 10
            purgatory.signal("a", 1)
            held: list[int] = []
            task = asyncio.create_task(purgatory.wait(lambda: held, keys=["a"], timeout=30))
            await step()
            held.append(1)  # and nobody signals: the audit finds it
            await task
            assert purgatory.metrics().missed_signals == 1
            await asyncio.sleep(1)
            purgatory.signal("b", 1)
            assert purgatory.progress("a") is None
            assert purgatory.audit() == 0

    run_quickly(main())
