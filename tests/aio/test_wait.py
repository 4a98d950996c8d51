"""The object that `aio.Purgatory.wait` returns: a coroutine to all, a future to its task."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import sys
import threading
import warnings
import weakref
from random import Random
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import pytest

import sojourn
from sojourn import DelayedOperation, aio
from sojourn.errors import AlreadyWaiting, Cancelled, Closed, WrongThread, WrongType
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts, never

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


# With everything that asyncio has for coroutines.


def _await(wait: Any) -> Coroutine[Any, Any, Any]:
    async def one() -> Any:
        return await wait

    return one()


async def _in_a_group(wait: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(wait)
    return task.result()


async def _gathered(wait: Any) -> Any:
    return (await asyncio.gather(wait, asyncio.sleep(0)))[0]


async def _first_completed(wait: Any) -> Any:
    return await next(iter(asyncio.as_completed([wait])))


async def _under_a_timeout(wait: Any) -> Any:
    async with asyncio.timeout(60):
        return await wait


async def _ensured(wait: Any) -> Any:
    return await asyncio.ensure_future(wait)


async def _shielded(wait: Any) -> Any:
    return await asyncio.shield(wait)


async def _delegated(wait: Any) -> Any:
    class Delegates:
        def __await__(self) -> Any:
            return (yield from wait)

    return await Delegates()


def _given_up_soon(wait: Any) -> Coroutine[Any, Any, Any]:
    return asyncio.wait_for(wait, 0.002)


AROUND: list[Callable[[Any], Coroutine[Any, Any, Any]]] = [
    lambda wait: wait,
    _await,
    _in_a_group,
    _gathered,
    _first_completed,
    lambda wait: asyncio.wait_for(wait, 60),
    lambda wait: asyncio.wait_for(wait, None),
    _under_a_timeout,
    _ensured,
    _shielded,
    _delegated,
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
        if around in (_shielded, _first_completed):  # they let it go on
            assert counts(door.purgatory) == (1, 1, 1)
            assert door.open() == 1
            await step()
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(main())


def test_the_message_of_a_cancelled_task_is_kept() -> None:
    async def main() -> None:
        task = asyncio.create_task(_await(Door().wait()))
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
        waiting = [asyncio.create_task(door.wait("Ann")), asyncio.create_task(_await(door.wait()))]
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
        tasks += [asyncio.create_task(_await(door.wait(str(n)))) for n in range(10, 20)]
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
        tasks = [asyncio.create_task(door.wait("Ann")), asyncio.create_task(_await(door.wait()))]
        await step()
        assert type(tasks[0]) is python_task
        tasks[1].cancel()
        door.open()
        assert await tasks[0] == "Ann"
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]

    run_quickly(main())


# Cancelled in every state.


def test_a_task_cancelled_before_its_first_step_never_waits() -> None:
    async def main() -> None:
        door = Door()
        looks: list[int] = []
        for around in (lambda wait: wait, _await):
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
        task = asyncio.create_task(wait if direct else _await(wait))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("order", ["news first", "cancel first"])
def test_a_task_cancelled_beside_its_news_is_cancelled(direct: bool, order: str) -> None:
    async def main() -> None:
        door = Door()
        task = asyncio.create_task(door.wait() if direct else _await(door.wait()))
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
        task = asyncio.create_task(door.wait() if direct else _await(door.wait()))
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
            one = _await(door.wait())
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
            _await(door.wait()).throw(LookupError("door"))
        assert counts(door.purgatory) == (0, 0, 0)

    run_quickly(main())


# Awaited once, or never.


def test_awaiting_it_twice_is_an_error() -> None:
    async def main() -> None:
        door = Door()
        wait = door.wait("Ann")
        first = asyncio.create_task(_await(wait))
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


# As a future, once a task waits for it.


def test_it_is_a_coroutine_until_a_task_waits_for_it() -> None:
    async def main() -> None:
        door = Door()
        wait: Any = door.wait("Ann")
        assert asyncio.iscoroutine(wait)
        assert not asyncio.isfuture(wait)
        task = asyncio.create_task(_await(wait))
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
        tasks = [asyncio.create_task(_await(door.wait())) for _ in range(3)]
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
        task = asyncio.create_task(_await(door.wait()))
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
