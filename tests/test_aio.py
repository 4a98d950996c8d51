"""Timer and purgatory on an event loop; where it can, on a loop whose time is moved by hand."""

from __future__ import annotations

import asyncio
import gc
import logging
import selectors
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from sojourn import DelayedOperation, aio
from sojourn.errors import Closed, OutOfRange, WrongThread, WrongType

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

WAIT_S = 30.0
T = TypeVar("T")


class _NoWaiting(selectors.DefaultSelector):
    """Never waits: where there is nothing to do but wait, time jumps to the next thing to do."""

    loop: QuickLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self.loop.jump()
            timeout = 0
        else:
            self.loop.stand_still()
        return super().select(timeout)


class QuickLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once."""

    def __init__(self, start_s: float = 0.0) -> None:
        selector = _NoWaiting()
        selector.loop = self
        self._now_s = start_s
        self.turns_without_a_jump = 0
        super().__init__(selector)

    def time(self) -> float:
        return self._now_s

    def stand_still(self) -> None:
        self.turns_without_a_jump += 1
        if self.turns_without_a_jump == 10_000:
            self._now_s += 1.0  # so that it can at least be closed
            raise AssertionError("the loop is busy, and time stands still")

    def jump(self) -> None:
        self.turns_without_a_jump = 0
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        self._now_s = max(self._now_s, scheduled[0].when())


def run_quickly(main: Coroutine[Any, Any, T], start_s: float = 0.0) -> T:
    with asyncio.Runner(loop_factory=lambda: QuickLoop(start_s)) as runner:
        return runner.run(main)


def counts(purgatory: aio.Purgatory) -> tuple[int, int, int]:
    return purgatory.watched, purgatory.delayed, len(purgatory.timer)


def never() -> bool:
    return False


async def _step() -> None:
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


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
            await _step()
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
            assert await task is True

    run_quickly(main())


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
            await _step()
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
            await _step()
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
            await _step()
            flags.append(1)
            assert purgatory.check_and_complete("a") == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert counts(purgatory) == (0, 0, 0)
            assert purgatory.metrics().completed == 1

    run_quickly(main())


@pytest.mark.parametrize("how", ["cancel_for_key", "close"])
def test_giving_up_a_key_or_closing_cancels_those_who_wait(how: str) -> None:
    async def main() -> None:
        purgatory = aio.Purgatory()
        tasks = [
            asyncio.create_task(purgatory.wait(never, keys=["a", n], timeout=30)) for n in range(3)
        ]
        await _step()
        if how == "close":
            assert purgatory.close() == 3
        else:
            assert len(purgatory.cancel_for_key("a")) == 3
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 3
        assert counts(purgatory) == (0, 0, 0)
        purgatory.close()
        with pytest.raises(Closed):
            await purgatory.wait(never, keys=["a"], timeout=30)

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
            await _step()
            assert counts(purgatory) == (2000, 1000, 1000)
            arrived.update(range(0, 1000, 3))
            completed = sum(purgatory.check_and_complete(key) for key in range(10))
            assert completed == len(arrived)
            assert await asyncio.gather(*tasks) == [number % 3 == 0 for number in range(1000)]
            assert counts(purgatory) == (0, 0, 0)

    run_quickly(main())


def test_an_operation_of_ones_own_runs_in_the_loops_thread() -> None:
    async def main() -> None:
        threads: list[int] = []

        class Looks(DelayedOperation):
            def on_complete(self) -> None:
                threads.append(threading.get_ident())

        async with aio.Purgatory() as purgatory:
            future = purgatory.submit(Looks(5), ["a"])
            assert await asyncio.wrap_future(future) is False
        assert threads == [threading.get_ident()]

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
            await _step()
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
            await _step()

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
            await _step()
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
        await _step()
        assert len(timer) == 2
        assert list(await waits) == [False, False]
        one.close()
        timer.call_later(0.01, lambda: None)  # still open
        timer.close()
        two.close()

    run_quickly(main())


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), "1", [], 1e300], ids=repr)
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
                await purgatory.wait(True, keys=["a"])  # type: ignore[arg-type]
            with pytest.raises(OutOfRange, match="keys is empty"):
                await purgatory.wait(never, keys=[])

    run_quickly(main())


@pytest.mark.parametrize("make", [aio.Timer, aio.Purgatory])
def test_outside_a_loop_there_is_nothing_to_run_on(make: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        make()


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
        await _step()
        if ending in ("true", "raises"):
            subject.flag = True
            purgatory.check_and_complete("a")
        elif ending == "cancelled":
            task.cancel()
        elif ending == "closed":
            purgatory.close()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None or ending == "raises"
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
