"""Timer and purgatory on an event loop: subclasses, misuse, and what is kept alive."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import DelayedOperation, TimerTask, aio
from sojourn.errors import AlreadyInitialised, Closed, NotInitialised, WrongThread, WrongType
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts, never
from tests.core.flagged import Flagged

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 30.0


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
