"""Operations of one's own in a purgatory on an event loop, and their futures."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from sojourn import DelayedOperation, aio
from sojourn.errors import Cancelled, Closed
from tests.aio.quick_loop import run_quickly, step
from tests.aio.waits import counts
from tests.core.flagged import Flagged

WAIT_S = 30.0


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
