"""A wait as a future, once a task waits for it, and what it is made of."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import sys
import threading
from types import BuiltinFunctionType
from typing import Any

import pytest

import sojourn
from sojourn import DelayedOperation, aio
from sojourn.errors import Cancelled, WrongType
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts, never
from tests.aio.ways_to_wait import WAIT_S, Door, awaited

# As a future, once a task waits for it.


def test_it_is_a_coroutine_until_a_task_waits_for_it() -> None:
    async def main() -> None:
        door = Door()
        wait: Any = door.wait("Ann")
        assert asyncio.iscoroutine(wait)
        assert not asyncio.isfuture(wait)
        task = asyncio.create_task(awaited(wait))
        await step()
        assert asyncio.isfuture(wait)
        assert wait.get_loop() is asyncio.get_running_loop()
        assert (wait.done(), wait.cancelled()) == (False, False)
        for ask in (wait.result, wait.exception):
            with pytest.raises(asyncio.InvalidStateError):
                ask()
        called: list[Any] = []
        wait.add_done_callback(called.append)
        wait.add_done_callback(called.append)
        wait.add_done_callback(print)
        assert wait.remove_done_callback(print) == 1
        assert wait.remove_done_callback(print) == 0
        door.open()
        assert called == []  # soon, not at once
        assert await task == "Ann"
        assert called == [wait, wait]
        assert (wait.done(), wait.cancelled(), wait.cancel(None)) == (True, False, False)
        assert (wait.result(), wait.exception()) == ("Ann", None)
        wait.add_done_callback(called.append)
        await step()
        assert called == [wait] * 3

    run_quickly(main())


def test_who_cancels_the_wait_but_not_the_task_is_not_taken_for_the_task() -> None:
    async def main() -> None:
        door = Door()
        tasks = [asyncio.create_task(awaited(door.wait())) for _ in range(3)]
        await step()
        by_operation, by_task, by_keyword = door.purgatory.waiting("door")
        future_face: Any = by_task
        assert by_operation.cancel()
        assert future_face.cancel(None)
        future_face = by_keyword
        assert future_face.cancel(msg="enough")
        assert not by_operation.cancel()
        assert not future_face.cancel("again")
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [
            Cancelled,
            asyncio.CancelledError,
            asyncio.CancelledError,
        ]
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(main())


def test_one_that_does_not_wait_yet_cannot_be_cancelled_by_others() -> None:
    async def main() -> None:
        door = Door()
        wait: Any = door.wait("Ann")
        assert not wait.cancel()
        door.open()
        assert await wait == "Ann"

    run_quickly(main())


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_callback_that_raises_keeps_nobody_from_being_told(error: type[BaseException]) -> None:
    def raises(_: object) -> None:
        raise error("its own")

    told: list[Any] = []
    handled: list[Any] = []

    async def main() -> None:
        door = Door()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: handled.append(context["exception"]))
        for callback in (told.append, raises, told.append, told.append):
            wait: Any = door.wait()
            wait.add_done_callback(callback)
        assert door.open() == 4
        await step()

    loop = asyncio.new_event_loop()
    task = loop.create_task(main())
    if error is not ValueError:
        with pytest.raises(error, match="its own"):
            loop.run_until_complete(task)
        assert len(told) == 1
    loop.run_until_complete(task)
    loop.close()
    assert len(told) == 3
    assert [type(raised) for raised in handled] == [error] * (error is ValueError)


@pytest.mark.parametrize("how", ["force_complete", "cancel"])
def test_a_wait_may_be_ended_in_any_thread(how: str) -> None:
    async def main() -> None:
        door = Door()
        task = asyncio.create_task(door.wait(timeout=WAIT_S))
        await step()
        (wait,) = door.purgatory.waiting()
        thread = threading.Thread(target=getattr(DelayedOperation, how), args=(wait,))
        thread.start()
        if how == "cancel":
            with pytest.raises(Cancelled):
                await task
        else:
            assert await task is True
        thread.join(WAIT_S)
        assert counts(door.purgatory) == (0, 0, 0)

    asyncio.run(main())


def test_what_asyncio_shows_names_it() -> None:
    async def main() -> None:
        door = Door()
        task = asyncio.create_task(door.wait(timeout=2))
        await step()
        assert "coro=<aio.Purgatory.wait()>" in repr(task)
        assert "wait_for=<Wait timeout_ms=2000 pending>" in repr(task)
        task.get_stack()
        door.open()
        await task

    run_quickly(main())


# What it is made of.


def test_it_is_made_by_its_purgatory_alone_and_not_copied() -> None:
    async def main() -> None:
        wait: Any = Door().wait()
        kind = type(wait)
        with pytest.raises(WrongType, match=r"made by aio\.Purgatory\.wait"):
            kind(30)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(WrongType, match="cannot be copied or pickled"):
                copied(wait)
        blank: Any = kind.__new__(kind)  # type: ignore[call-overload]
        for use in (
            lambda: blank.send(None),
            blank.get_loop,
            lambda: blank.add_done_callback(id),
            blank.on_complete,
            blank.force_complete,
            blank.cancel,
        ):
            with pytest.raises(sojourn.errors.NotInitialised):
                use()

    run_quickly(main())


@pytest.mark.skipif(not sojourn.compiled, reason="a claim about the compiled build")
def test_compiled_a_wait_is_one_object_of_256_bytes_at_most() -> None:
    async def main() -> None:
        door = Door()
        wait: Any = door.wait()
        assert sys.getsizeof(wait) <= 256
        assert not hasattr(wait, "__dict__")

    run_quickly(main())


@pytest.mark.skipif(not sojourn.compiled, reason="a claim about the compiled build")
def test_the_collector_sees_callbacks_again_after_the_wait() -> None:
    async def main() -> None:
        door = Door()
        task = asyncio.create_task(awaited(door.wait()))
        await step()
        wait: Any = door.purgatory.waiting()[0]
        called: list[Any] = []
        callback = called.append
        wait.remove_done_callback(None)
        late: Any = door.wait()
        late.add_done_callback(callback)
        assert type(callback) is BuiltinFunctionType
        assert not gc.is_tracked(callback)
        assert not gc.is_tracked(late)
        door.open()
        await step()
        assert called == [late]
        assert gc.is_tracked(callback)
        assert gc.is_tracked(late)
        other: Any = aio.Purgatory().wait(never, keys=["a"], timeout=30)
        other.add_done_callback(callback)
        other.add_done_callback(callback)
        assert gc.is_tracked(callback)
        assert other.cancel()
        await task

    run_quickly(main())
