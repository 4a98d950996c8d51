"""The object that `aio.Purgatory.wait` returns: a coroutine to all, a future to its task."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import DelayedOperation, aio
from sojourn.errors import Closed
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
from tests.aio.ways_to_wait import AROUND, WAIT_S, Door, around, awaited, first_completed, shielded

# With everything that asyncio has for coroutines.


def _given_up_soon(wait: Any) -> Coroutine[Any, Any, Any]:
    return asyncio.wait_for(wait, 0.002)


@around
def test_the_value_comes_through(around: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
    async def main() -> None:
        door = Door()
        task = asyncio.create_task(around(door.wait("Ann")))
        await step()
        assert counts(door.purgatory) == (1, 1, 1)
        assert door.open() == 1
        assert await task == "Ann"
        assert await around(door.wait("Bob")) == "Bob"  # without waiting
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(main())


@around
def test_the_end_of_its_time_comes_through(
    around: Callable[[Any], Coroutine[Any, Any, Any]],
) -> None:
    async def main() -> None:
        door = Door()
        assert await around(door.wait(timeout=0.5)) is False
        assert await around(door.wait(timeout=0)) is False
        assert asyncio.get_running_loop().time() == pytest.approx(0.5, abs=0.01)
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(main())


@around
def test_an_error_comes_through(
    around: Callable[[Any], Coroutine[Any, Any, Any]], quiet_log: None
) -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            armed: list[int] = []

            def fails() -> bool:
                if armed:
                    raise LookupError("no such door")
                return False

            task = asyncio.create_task(around(purgatory.wait(fails, keys=["a"], timeout=30)))
            await step()
            armed.append(1)
            purgatory.check_and_complete("a")
            error = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(error, ExceptionGroup):
                (error,) = error.exceptions
            assert isinstance(error, LookupError)
            assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


@around
def test_cancelling_the_task_leaves_nothing_behind(
    around: Callable[[Any], Coroutine[Any, Any, Any]],
) -> None:
    async def main() -> None:
        door = Door()
        task = asyncio.create_task(around(door.wait()))
        await step()
        assert counts(door.purgatory) == (1, 1, 1)
        assert task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        if around in (shielded, first_completed):  # they let it go on
            assert counts(door.purgatory) == (1, 1, 1)
            assert door.open() == 1
            await step()
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(main())


def test_the_message_of_a_cancelled_task_is_kept() -> None:
    async def main() -> None:
        task = asyncio.create_task(awaited(Door().wait()))
        await step()
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task

    run_quickly(main())


def test_wait_for_cancels_a_wait_that_takes_too_long() -> None:
    async def main() -> None:
        door = Door()
        for timeout in (0.5, 0):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(door.wait(), timeout)
            assert counts(door.purgatory) == (0, 0, 0)
        door.open()
        assert await asyncio.wait_for(door.wait("Ann"), 0.5) == "Ann"

    run_quickly(main())


def test_another_thread_may_have_the_loop_wait() -> None:
    async def main() -> None:
        door = Door()
        loop = asyncio.get_running_loop()
        answer = asyncio.run_coroutine_threadsafe(door.wait("Ann"), loop)
        await step()
        door.open()
        assert await asyncio.wrap_future(answer) == "Ann"

    asyncio.run(main())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_an_eager_task_waits_at_once_and_is_done_at_once_if_it_can_be() -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        door = Door()
        waiting = [asyncio.create_task(door.wait("Ann")), asyncio.create_task(awaited(door.wait()))]
        assert counts(door.purgatory) == (2, 2, 2)
        waiting[1].cancel()
        door.open()
        done = asyncio.create_task(door.wait("Bob"))
        assert done.done()
        assert await done == "Bob"
        assert await waiting[0] == "Ann"
        with pytest.raises(asyncio.CancelledError):
            await waiting[1]
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(main())


def test_it_runs_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        door = Door()
        tasks = [asyncio.create_task(door.wait(str(n))) for n in range(10)]
        tasks += [asyncio.create_task(awaited(door.wait(str(n)))) for n in range(10, 20)]
        await step()
        tasks[3].cancel()
        tasks[13].cancel()
        thread = threading.Thread(target=door.open)
        thread.start()
        names = await asyncio.gather(*tasks, return_exceptions=True)
        thread.join(WAIT_S)
        assert [type(names.pop(n)) for n in (13, 3)] == [asyncio.CancelledError] * 2
        assert names == [str(n) for n in range(20) if n not in (3, 13)]
        door.is_open = False
        assert await door.wait(timeout=0.01) is False
        door.purgatory.close()
        with pytest.raises(Closed):
            await door.wait()
        assert counts(door.purgatory) == (0, 0, 0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_it_runs_in_tasks_written_in_python() -> None:
    async def main() -> None:
        python_task: Any = asyncio.tasks._PyTask  # type: ignore[attr-defined]
        asyncio.get_running_loop().set_task_factory(
            lambda loop, coroutine, **options: python_task(coroutine, loop=loop, **options)
        )
        door = Door()
        tasks = [asyncio.create_task(door.wait("Ann")), asyncio.create_task(awaited(door.wait()))]
        await step()
        assert type(tasks[0]) is python_task
        tasks[1].cancel()
        door.open()
        assert await tasks[0] == "Ann"
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]

    run_quickly(main())


# All of it at once.


@pytest.mark.parametrize("seed", range(4))
def test_whatever_ends_the_waits_nothing_is_left_of_them(seed: int, quiet_log: None) -> None:
    """Tasks wait in every way there is; two threads and the loop end them as the seed has it."""
    random = Random(seed)

    async def main() -> weakref.ref[aio.Purgatory]:
        purgatory = aio.Purgatory()
        arrived: set[int] = set()

        def wait(number: int) -> Coroutine[Any, Any, Any]:
            timeout = random.choice([None, 0, 0.001, 0.005, WAIT_S])
            key = number % 7
            if random.random() < 0.3:
                requires = [(key, number), ("x", 1)]
                return purgatory.wait(requires=requires, needed=1, timeout=timeout)
            return purgatory.wait(lambda: number in arrived, keys=[key, "all"], timeout=timeout)

        async def one(number: int) -> Any:
            around = random.choice([*AROUND, _given_up_soon])
            if random.random() < 0.2:
                return await purgatory.submit(
                    DelayedOperation(random.choice([1, 5, 1000])), ["all"]
                )
            return await around(wait(number))

        tasks = [asyncio.create_task(one(number)) for number in range(60)]
        over = threading.Event()

        def bring(random: Random) -> None:
            while not over.wait(0.0001):
                number = random.randrange(60)
                arrived.add(number)
                purgatory.check_and_complete(number % 7)
                purgatory.signal(number % 7, number)
                for operation in purgatory.waiting(number % 7)[:1]:
                    random.choice([operation.force_complete, operation.cancel])()

        threads = [threading.Thread(target=bring, args=(Random(seed + n),)) for n in (10, 20)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            await asyncio.sleep(random.choice([0, 0.0005]))
            random.choice(tasks).cancel()
            if random.random() < 0.1:
                purgatory.cancel_for_key(random.randrange(7))
        over.set()
        for thread in threads:
            thread.join(WAIT_S)
        await step()
        purgatory.close()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S)
        await step()
        assert counts(purgatory) == (0, 0, 0)
        return weakref.ref(purgatory)

    gone = asyncio.run(main())
    gc.collect()
    assert gone() is None
