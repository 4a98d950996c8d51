"""A wait whose task is cancelled, in every state; and a wait that is awaited twice or never."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
import weakref
from typing import Any

import pytest

from sojourn import aio
from sojourn.errors import AlreadyWaiting, Cancelled, Closed, WrongThread
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts, never
from tests.aio.ways_to_wait import WAIT_S, Door, awaited

# Cancelled in every state.


def test_a_task_cancelled_before_its_first_step_never_waits() -> None:
    async def main() -> None:
        door = Door()
        looks: list[int] = []
        for around in (lambda wait: wait, awaited):
            task = asyncio.create_task(
                around(door.purgatory.wait(lambda: looks.append(1), keys=["a"], timeout=30))
            )
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert looks == []
        assert counts(door.purgatory) == (0, 0, 0)
        assert door.purgatory.metrics().cancelled == 0

    run_quickly(main())


@pytest.mark.parametrize("direct", [True, False])
def test_a_task_cancelled_by_its_own_predicate_is_cancelled(direct: bool) -> None:
    async def main() -> None:
        purgatory = aio.Purgatory()
        task: asyncio.Task[Any]

        def cancels() -> bool:
            task.cancel()
            return False

        wait = purgatory.wait(cancels, keys=["a"], timeout=30)
        task = asyncio.create_task(wait if direct else awaited(wait))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("order", ["news first", "cancel first"])
def test_a_task_cancelled_beside_its_news_is_cancelled(direct: bool, order: str) -> None:
    async def main() -> None:
        door = Door()
        task = asyncio.create_task(door.wait() if direct else awaited(door.wait()))
        await step()
        if order == "news first":
            assert door.open() == 1
            assert task.cancel()
        else:
            assert task.cancel()
            assert door.open() == 0
        with pytest.raises(asyncio.CancelledError):
            await task
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(main())


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("how", ["cancel", "force_complete"])
def test_a_task_cancelled_before_the_loop_hears_that_a_thread_ended_its_wait_is_cancelled(
    how: str, direct: bool
) -> None:
    async def main() -> None:
        door = Door()
        task = asyncio.create_task(door.wait() if direct else awaited(door.wait()))
        await step()
        (wait,) = door.purgatory.waiting()
        thread = threading.Thread(target=getattr(wait, how))
        thread.start()
        thread.join(WAIT_S)  # the loop stands still meanwhile
        assert task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert counts(door.purgatory) == (0, 0, 0)

    asyncio.run(main())


@pytest.mark.parametrize(("how", "error"), [("close", Closed), ("cancel_for_key", Cancelled)])
def test_a_predicate_may_end_its_own_wait(how: str, error: type[Exception]) -> None:
    async def main() -> None:
        purgatory = aio.Purgatory()
        looks: list[int] = []

        def ends() -> bool:
            looks.append(1)
            if len(looks) == 2:
                if how == "close":
                    purgatory.close()
                else:
                    purgatory.cancel_for_key("a")
            return len(looks) > 1

        task = asyncio.create_task(purgatory.wait(ends, keys=["a"], timeout=30))
        await step()
        assert purgatory.check_and_complete("a") == 0
        with pytest.raises(error):
            await task
        assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


def test_a_coroutine_that_is_closed_or_dropped_while_it_waits_leaves_nothing_behind() -> None:
    async def main() -> None:
        door = Door()
        for drop in (lambda one: one.close(), lambda one: None):
            one = awaited(door.wait())
            one.send(None)
            assert counts(door.purgatory) == (1, 1, 1)
            drop(one)
            del one
            assert counts(door.purgatory) == (0, 0, 0)
        wait: Any = door.wait()
        wait.send(None)
        wait.close()
        assert counts(door.purgatory) == (0, 0, 0)
        wait = door.wait()
        wait.send(None)
        with pytest.raises(ZeroDivisionError):
            wait.throw(ZeroDivisionError)
        with pytest.raises(LookupError, match="door"):
            awaited(door.wait()).throw(LookupError("door"))
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(main())


# Awaited once, or never.


def test_awaiting_it_twice_is_an_error() -> None:
    async def main() -> None:
        door = Door()
        wait = door.wait("Ann")
        first = asyncio.create_task(awaited(wait))
        await step()
        with pytest.raises(AlreadyWaiting, match="awaited already; call wait"):
            await wait
        with pytest.raises(AlreadyWaiting, match="awaited already"):
            await asyncio.create_task(wait)
        door.open()
        assert await first == "Ann"  # which the others did not disturb
        with pytest.raises(AlreadyWaiting, match="awaited already"):
            await wait
        with pytest.raises(AlreadyWaiting, match="awaited already"):
            await asyncio.create_task(wait)

    run_quickly(main())


def test_one_that_is_never_awaited_does_nothing_and_nobody_complains() -> None:
    class Subject:
        def look(self) -> bool:
            raise AssertionError("nobody asked")

    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            subject = Subject()
            gone = weakref.ref(subject)
            wait = purgatory.wait(subject.look, keys=["a"], timeout=30)
            await step()
            assert counts(purgatory) == (0, 0, 0)
            del wait, subject
            assert gone() is None
            closed: Any = purgatory.wait(never, keys=["a"])
            closed.close()
            with pytest.raises(AlreadyWaiting):
                await closed

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_quickly(main())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_it_starts_in_the_thread_of_its_loop_only() -> None:
    async def main() -> None:
        door = Door()
        wait: Any = door.wait()
        with pytest.raises(WrongThread):
            await asyncio.to_thread(wait.send, None)
        assert counts(door.purgatory) == (0, 0, 0)

    asyncio.run(main())


def test_a_task_of_another_loop_is_refused() -> None:
    async def make() -> Door:
        return Door()

    async def use(door: Door) -> None:
        for wait in (door.wait, lambda: asyncio.create_task(door.wait())):
            with pytest.raises(WrongThread, match="belongs to another event loop"):
                await wait()
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(use(run_quickly(make())))
