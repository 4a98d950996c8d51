"""Timer and purgatory on an event loop; where it can, on a loop whose time is moved by hand."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import pickle
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import sojourn
from sojourn import DelayedOperation, ManualClock, TimerTask, aio
from sojourn.errors import (
    AlreadyInitialised,
    Cancelled,
    Closed,
    Full,
    NotInitialised,
    OutOfRange,
    WrongThread,
    WrongType,
)
from tests import ids
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts, never

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

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


# Operations of one's own.


class Flagged(DelayedOperation):
    flag = False

    def try_complete(self) -> bool:
        return self.flag and self.force_complete()


def test_an_operation_of_ones_own_can_be_awaited() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            assert await purgatory.submit(Flagged(5), ["a"]) is False
            operation = Flagged(5)
            future = purgatory.submit(operation, ["a"])
            assert isinstance(future, asyncio.Future)
            assert future.get_loop() is asyncio.get_running_loop()
            operation.flag = True
            assert purgatory.check_and_complete("a") == 1
            assert await asyncio.wait_for(future, 1) is True
            assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


def test_an_operation_of_ones_own_runs_in_the_loops_thread() -> None:
    async def main() -> None:
        threads: list[int] = []

        class Looks(DelayedOperation):
            def on_complete(self) -> None:
                threads.append(threading.get_ident())

        async with aio.Purgatory() as purgatory:
            assert await purgatory.submit(Looks(5), ["a"]) is False
        assert threads == [threading.get_ident()]

    run_quickly(main())


def test_an_error_of_a_callback_reaches_the_future(quiet_log: None) -> None:
    async def main() -> None:
        class Fails(DelayedOperation):
            def on_complete(self) -> None:
                raise ValueError("its own")

        async with aio.Purgatory() as purgatory:
            with pytest.raises(ValueError, match="its own"):
                await purgatory.submit(Fails(5), ["a"])

    run_quickly(main())


@pytest.mark.parametrize(
    ("how", "error"), [("cancel", Cancelled), ("cancel_for_key", Cancelled), ("close", Closed)]
)
def test_the_future_of_a_cancelled_operation_raises_an_error(
    how: str, error: type[Exception]
) -> None:
    async def main() -> None:
        purgatory = aio.Purgatory()
        operation = Flagged(1000)
        future = purgatory.submit(operation, ["a"])
        if how == "cancel":
            operation.cancel()
        elif how == "cancel_for_key":
            purgatory.cancel_for_key("a")
        else:
            purgatory.close()
        with pytest.raises(error):
            await future
        assert operation.state == "cancelled"

    run_quickly(main())


def test_cancelling_the_task_that_awaits_an_operation_cancels_the_operation() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            operation = Flagged(1000)

            async def one() -> bool:
                return await purgatory.submit(operation, ["a", "b"])

            task = asyncio.create_task(one())
            await step()
            assert counts(purgatory) == (2, 1, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert counts(purgatory) == (0, 0, 0)
            assert operation.state == "cancelled"

    run_quickly(main())


def test_a_cancelled_future_does_not_cancel_the_next_wait_of_its_operation() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            operation = Flagged(1000)
            first = purgatory.submit(operation, ["a"])
            first.cancel()
            operation.cancel()
            second = purgatory.submit(operation, ["a"])
            await step()
            assert counts(purgatory) == (1, 1, 1)
            operation.force_complete()
            assert await second is True

    run_quickly(main())


@pytest.mark.parametrize("how", ["force_complete", "cancel"])
def test_an_operation_may_be_ended_in_any_thread(how: str) -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            operation = Flagged(60_000)
            settled_in: list[int] = []
            future = purgatory.submit(operation, ["a"])
            future.add_done_callback(lambda _: settled_in.append(threading.get_ident()))
            thread = threading.Thread(target=getattr(operation, how))
            thread.start()
            if how == "cancel":
                with pytest.raises(Cancelled):
                    await asyncio.wait_for(future, WAIT_S)
            else:
                assert await asyncio.wait_for(future, WAIT_S) is True
            thread.join(WAIT_S)
            assert settled_in == [threading.get_ident()]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["close", "cancel_for_key", "raises"])
def test_nothing_is_logged_about_a_future_that_nobody_awaits(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        class Fails(Flagged):
            def on_complete(self) -> None:
                raise ValueError("its own")

        purgatory = aio.Purgatory()
        future = purgatory.submit(Fails(5), ["a"])
        if how == "close":
            purgatory.close()
        elif how == "cancel_for_key":
            purgatory.cancel_for_key("a")
        else:
            await asyncio.sleep(1)
        assert future.done()
        del future
        gc.collect()
        await step()

    run_quickly(main())
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


# Progress.


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


# Other threads.


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
            before = threading.active_count()
            await purgatory.wait(never, keys=["a"], timeout=0.005)
            assert threading.active_count() == before

    before = threading.active_count()
    run_quickly(main())
    assert threading.active_count() == before


# The timer.


def test_tasks_run_in_the_order_of_their_deadlines_and_never_early() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        timer = aio.Timer()
        began = loop.time()
        ran: list[tuple[float, float]] = []
        delays = [0.02, 0.001, 0.4, 0.0305, 1.001, 0.0, 8.0, 0.019]
        for delay in delays:
            timer.call_later(delay, lambda d=delay: ran.append((d, loop.time() - began)))
        assert ran == []  # not even the one without a delay: call_later does not call
        await asyncio.sleep(10)
        assert [delay for delay, _ in ran] == sorted(delays)
        for delay, after in ran:
            assert delay - 1e-9 <= after < delay + 0.0021
        assert len(timer) == 0

    run_quickly(main(), 3.00042)


def test_tasks_on_a_real_loop_are_never_early_by_its_own_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        timer = aio.Timer()
        early: list[tuple[float, float]] = []
        done = asyncio.Event()

        def ran(added: float, delay: float) -> None:
            if loop.time() - added < delay - 1e-9:
                early.append((delay, loop.time() - added))

        for number in range(200):
            delay = number % 23 / 1000 + number / 1e6
            timer.call_later(delay, ran, loop.time(), delay)
        timer.call_later(0.03, done.set)
        await asyncio.wait_for(done.wait(), WAIT_S)
        assert early == []

    asyncio.run(main())


def test_a_cancelled_task_is_not_run() -> None:
    async def main() -> None:
        timer = aio.Timer()
        ran: list[int] = []
        task = timer.call_later(0.01, ran.append, 1)
        timer.call_later(0.02, ran.append, 2)
        assert task.cancel()
        assert len(timer) == 1
        await asyncio.sleep(1)
        assert ran == [2]

    run_quickly(main())


def test_an_earlier_task_added_later_runs_first() -> None:
    async def main() -> None:
        timer = aio.Timer()
        ran: list[str] = []
        timer.call_later(0.5, ran.append, "late")
        await asyncio.sleep(0.1)
        timer.call_later(0.1, ran.append, "early")
        await asyncio.sleep(0.11)
        assert ran == ["early"]
        await asyncio.sleep(1)
        assert ran == ["early", "late"]

    run_quickly(main())


def test_a_task_may_add_tasks() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        timer = aio.Timer()
        ticks: list[float] = []

        def tick() -> None:
            ticks.append(loop.time())
            if len(ticks) < 5:
                timer.call_later(0.1, tick)

        timer.call_later(0.1, tick)
        await asyncio.sleep(1)
        assert ticks == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], abs=0.006)

    run_quickly(main())


def test_a_task_that_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        timer = aio.Timer()
        ran: list[int] = []
        timer.call_later(0.01, lambda: 1 / 0)
        timer.call_later(0.01, ran.append, 1)
        timer.call_later(0.02, ran.append, 2)
        await asyncio.sleep(1)
        assert ran == [1, 2]
        assert timer.errors == 1

    run_quickly(main())
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == [
        "sojourn"
    ]


def test_purgatories_share_a_timer() -> None:
    async def main() -> None:
        timer = aio.Timer()
        one, two = aio.Purgatory("one", timer), aio.Purgatory("two", timer)
        waits = asyncio.gather(
            one.wait(never, keys=["a"], timeout=0.01), two.wait(never, keys=["a"], timeout=0.01)
        )
        await step()
        assert len(timer) == 2
        assert list(await waits) == [False, False]
        one.close()
        timer.call_later(0.01, lambda: None)  # still open
        timer.close()
        two.close()

    run_quickly(main())


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), "1", [], 1e300], ids=ids.plain)
def test_seconds_that_mean_nothing_are_refused(seconds: Any) -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            with pytest.raises(OutOfRange):
                aio.Timer().call_later(seconds, print)
            with pytest.raises(OutOfRange):
                await purgatory.wait(never, keys=["a"], timeout=seconds)
            assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


def test_a_predicate_that_cannot_be_called_is_refused() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            with pytest.raises(WrongType, match="predicate must be callable"):
                await purgatory.wait(True, keys=["a"])  # type: ignore[call-overload]
            with pytest.raises(OutOfRange, match="keys is empty"):
                await purgatory.wait(never, keys=[])

    run_quickly(main())


@pytest.mark.parametrize("make", [aio.Timer, aio.Purgatory])
def test_outside_a_loop_there_is_nothing_to_run_on(make: Callable[[], object]) -> None:
    with pytest.raises(WrongThread, match=r"no running event loop; make it inside a coroutine"):
        make()


# Two kinds of timers.


def test_a_timer_that_takes_seconds_is_not_one_that_takes_milliseconds() -> None:
    async def main() -> None:
        timer = aio.Timer(name="seconds")
        assert not isinstance(timer, sojourn.Timer)
        assert not isinstance(aio.Purgatory(), sojourn.Purgatory)
        with pytest.raises(WrongType, match=r"must be a sojourn\.Timer, got <aio\.Timer 'seconds'"):
            sojourn.Purgatory(timer=timer)  # type: ignore[arg-type]
        core = sojourn.Timer(ManualClock())
        with pytest.raises(WrongType, match=r"must be an aio\.Timer, got <Timer"):
            aio.Purgatory(timer=core)  # type: ignore[arg-type]
        with pytest.raises(WrongType, match="to the timer"):
            aio.Purgatory(timer=timer, tick_ms=5)

    run_quickly(main())


def test_a_timer_of_another_loop_is_refused() -> None:
    async def make() -> aio.Timer:
        return aio.Timer()

    async def use(timer: aio.Timer) -> None:
        with pytest.raises(WrongThread, match="another event loop"):
            aio.Purgatory(timer=timer)

    run_quickly(use(run_quickly(make())))


def test_a_timer_runs_timer_tasks_too() -> None:
    async def main() -> None:
        ran: list[float] = []
        async with aio.Timer() as timer:
            timer.add(TimerTask(20, lambda: ran.append(asyncio.get_running_loop().time())))
            assert (len(timer), bool(timer)) == (1, True)
            await asyncio.sleep(1)
            assert ran == pytest.approx([0.02], abs=0.002)
            assert timer.expired_buckets > 0
            timer.call_later(5, print)
            with pytest.raises(OutOfRange, match="drop=False"):
                timer.close(drop=False)
        with pytest.raises(Closed):
            timer.call_later(0, print)

    run_quickly(main())


# Subclasses, and misuse.


def test_a_subclass_may_use_any_name() -> None:
    names = ["loop", "core", "home", "thread", "closed", "own_timer", "owns_timer", "clock"]

    class Mine(aio.Purgatory):
        def __init__(self) -> None:
            for name in names:
                setattr(self, name, "mine")
                setattr(self, f"_{name}", "mine")
            super().__init__()

    class MyTimer(aio.Timer):
        def __init__(self) -> None:
            for name in names:
                setattr(self, name, "mine")
                setattr(self, f"_{name}", "mine")
            super().__init__()

    async def main() -> None:
        async with Mine() as purgatory:
            assert await purgatory.wait(never, keys=["a"], timeout=0.01) is False
            assert purgatory.signal("a", 1) == 0
        async with MyTimer() as timer, aio.Purgatory(timer=timer) as purgatory:
            assert await purgatory.wait(never, keys=["a"], timeout=0.01) is False
            assert {vars(timer)[name] for name in names} == {"mine"}

    run_quickly(main())


@pytest.mark.parametrize("kind", [aio.Timer, aio.Purgatory])
def test_one_that_was_never_initialised_says_so(kind: type[Any]) -> None:
    class Forgets(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

    calls: list[Callable[[Any], object]] = [
        lambda it: it.close(),
        lambda it: it.name,
        lambda it: it.call_later(1, print) if kind is aio.Timer else it.check_and_complete("a"),
        lambda it: len(it) if kind is aio.Timer else it.wait(never, keys=["a"]),
        lambda it: it.add(TimerTask(1)) if kind is aio.Timer else it.submit(Flagged(1), ["a"]),
        lambda it: it.snapshot() if kind is aio.Timer else it.signal("a", 1),
        lambda it: it.errors if kind is aio.Timer else it.metrics(),
        lambda it: it.__enter__() if kind is aio.Timer else it.timer,
    ]
    makes: list[Callable[[], Any]] = [Forgets, lambda: object.__new__(kind)]
    for make in makes:
        for call in calls:
            with pytest.raises(NotInitialised, match=r"super\(\).__init__\(\)"):
                call(make())
        assert "not initialised" in repr(make())


@pytest.mark.parametrize("kind", [aio.Timer, aio.Purgatory])
def test_one_is_initialised_once_and_not_copied(kind: type[Any]) -> None:
    async def main() -> None:
        it = kind()
        with pytest.raises(AlreadyInitialised):
            it.__init__()
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(WrongType, match="cannot be copied or pickled"):
                copied(it)
        it.close()

    run_quickly(main())


@pytest.mark.parametrize("handover", ["check_and_complete", "signal", "signal_many"])
def test_news_for_a_loop_that_is_closed_is_refused(handover: str) -> None:
    async def main() -> aio.Purgatory:
        return aio.Purgatory("orders")

    purgatory = asyncio.run(main())
    args: Any = {"check_and_complete": ["a"], "signal": ["a", 1], "signal_many": [[("a", 1)]]}
    with ThreadPoolExecutor(1) as pool, pytest.raises(Closed, match="event loop is closed"):
        pool.submit(getattr(purgatory, handover), *args[handover]).result(WAIT_S)
    with pytest.raises(Closed, match="event loop is closed"):
        purgatory.submit(DelayedOperation(5), ["a"])
    with pytest.raises(Closed, match="event loop is closed"):
        purgatory.timer.call_later(5, print)
    with ThreadPoolExecutor(1) as pool, pytest.raises(Closed, match="event loop is closed"):
        pool.submit(purgatory.timer.add, TimerTask(5)).result(WAIT_S)
    assert purgatory.close() == 0


# What is kept alive.


@pytest.mark.parametrize("ending", ["true", "false", "raises", "cancelled", "closed"])
def test_nothing_keeps_what_a_finished_wait_was_about(ending: str) -> None:
    class Subject:
        flag = False

        def look(self) -> bool:
            if ending == "raises" and self.flag:
                raise ValueError("its own")
            return self.flag

    async def main() -> None:
        purgatory = aio.Purgatory()
        subject = Subject()
        gone = weakref.ref(subject)
        task = asyncio.create_task(purgatory.wait(subject.look, keys=["a", subject], timeout=1))
        await step()
        if ending in ("true", "raises"):
            subject.flag = True
            purgatory.check_and_complete("a")
        elif ending == "cancelled":
            task.cancel()
        elif ending == "closed":
            purgatory.close()
        await asyncio.wait([task])
        assert task.cancelled() or (task.exception() is None) == (ending in ("true", "false"))
        del task, subject
        gc.collect()
        assert gone() is None
        assert counts(purgatory) == (0, 0, 0)

    log = logging.getLogger("sojourn")
    log.disabled = True  # a log record that is kept keeps the traceback's frames
    try:
        run_quickly(main())
    finally:
        log.disabled = False


def test_all_but_signals_belong_to_the_thread_of_the_loop() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            for call in (
                lambda: purgatory.cancel_for_key("a"),
                purgatory.close,
                lambda: purgatory.submit(DelayedOperation(10), ["a"]),
                lambda: purgatory.try_complete_else_watch(DelayedOperation(10), ["a"]),
            ):
                with pytest.raises(WrongThread, match="check_and_complete"):
                    await asyncio.to_thread(call)
            assert (purgatory.watched, purgatory.delayed) == (0, 0)

    asyncio.run(main())


def test_a_cancelled_task_does_not_stand_in_the_way_of_later_ones() -> None:
    """Its bucket is still queued when nothing waits; the next task needs an alarm all the same."""

    async def main() -> None:
        with aio.Timer() as timer:
            ran = asyncio.Event()
            first, later = asyncio.Event(), timer.call_later(0.1, never)
            timer.call_later(0.001, first.set)
            later.cancel()
            await first.wait()
            timer.call_later(0.15, ran.set)
            async with asyncio.timeout(20):
                await ran.wait()

    asyncio.run(main())
