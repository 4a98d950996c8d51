"""The timer on an event loop, and what tells it from the one on a thread."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

import sojourn
from sojourn import ManualClock, TimerTask, aio
from sojourn.errors import (
    Closed,
    OutOfRange,
    WrongThread,
    WrongType,
)
from tests import ids
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts, never

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 30.0


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
    with pytest.raises(WrongThread, match=r"no event loop is running here; make it inside"):
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
