"""Futures of operations, and operations over futures."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
import weakref
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import DelayedFuture, DelayedOperation, ManualClock, Purgatory, aio
from sojourn.errors import AlreadyWaiting, NotInitialised, WrongType
from tests import ids
from tests.core.flagged import Flagged
from tests.core.waits import counts

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 30.0


# The future of an operation.


def test_the_result_is_true_when_the_operation_completes(purgatory: Purgatory) -> None:
    operation = Flagged(100)
    future = purgatory.submit(operation, ["a"])
    assert not future.done()
    operation.flag = True
    purgatory.check_and_complete("a")
    assert future.result(timeout=0) is True


def test_the_result_is_true_when_the_operation_completes_at_once(purgatory: Purgatory) -> None:
    operation = Flagged(100)
    operation.flag = True
    assert purgatory.submit(operation, ["a"]).result(timeout=0) is True
    assert counts(purgatory) == (0, 0, 0)


def test_the_result_is_false_when_the_operation_expires(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    future = purgatory.submit(Flagged(100), ["a"])
    manual_clock.advance(99)
    assert not future.done()
    manual_clock.advance(1)
    assert future.result(timeout=0) is False
    assert purgatory.submit(Flagged(0), ["a"]).result(timeout=0) is False


def test_the_future_is_settled_after_the_callbacks(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    settled: list[bool] = []

    class Looks(DelayedOperation):
        future: Future[bool]

        def on_complete(self) -> None:
            settled.append(self.future.done())

        def on_expiration(self) -> None:
            settled.append(self.future.done())

    for timeout_ms in (5, 100):
        operation = Looks(timeout_ms)
        operation.future = purgatory.submit(operation, ["a"])
    manual_clock.advance(5)
    operation.force_complete()
    assert settled == [False, False, False]
    assert operation.future.done()


def test_cancelling_the_future_cancels_the_operation(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Flagged(100)
    future = purgatory.submit(operation, ["a", "b"])
    assert future.cancel()
    assert counts(purgatory) == (0, 0, 0)
    assert purgatory.metrics().cancelled == 1
    manual_clock.advance(100)
    assert not operation.is_completed


@pytest.mark.parametrize("how", ["cancel", "cancel_for_key", "close"])
def test_cancelling_the_operation_cancels_the_future(purgatory: Purgatory, how: str) -> None:
    operation = Flagged(100)
    future = purgatory.submit(operation, ["a"])
    if how == "cancel":
        operation.cancel()
    elif how == "cancel_for_key":
        purgatory.cancel_for_key("a")
    else:
        purgatory.close()
    with pytest.raises(CancelledError):
        future.result(timeout=0)


def test_a_future_that_is_done_cannot_be_cancelled(purgatory: Purgatory) -> None:
    operation = Flagged(100)
    future = purgatory.submit(operation, ["a"])
    operation.force_complete()
    assert not future.cancel()
    assert future.result(timeout=0) is True
    assert purgatory.metrics().cancelled == 0


def test_cancelling_the_future_inside_a_callback_is_too_late_for_the_operation(
    purgatory: Purgatory,
) -> None:
    class Cancels(DelayedOperation):
        future: Future[bool]

        def on_complete(self) -> None:
            self.future.cancel()

    operation = Cancels(100)
    operation.future = purgatory.submit(operation, ["a"])
    assert operation.force_complete()
    assert operation.is_completed
    assert operation.future.cancelled()
    metrics = purgatory.metrics()
    assert (metrics.completed, metrics.expired, metrics.cancelled) == (1, 0, 0)


def test_an_operation_submitted_again_has_a_new_future(purgatory: Purgatory) -> None:
    operation = Flagged(100)
    first = purgatory.submit(operation, ["a"])
    purgatory.cancel_for_key("a")
    second = purgatory.submit(operation, ["a"])
    first.cancel()  # over, and nothing to do with the second
    assert counts(purgatory) == (1, 1, 1)
    operation.force_complete()
    assert first.cancelled()
    assert second.result(timeout=0) is True


def test_an_operation_submitted_again_without_a_future_leaves_the_old_one_cancelled(
    purgatory: Purgatory,
) -> None:
    operation = Flagged(100)
    first = purgatory.submit(operation, ["a"])
    operation.cancel()
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.force_complete()
    assert first.cancelled()


def test_an_ended_operation_has_no_second_future(purgatory: Purgatory) -> None:
    operation = Flagged(100)
    operation.force_complete()
    with pytest.raises(AlreadyWaiting):
        purgatory.submit(operation, ["a"])


def test_a_thread_may_wait_on_the_future() -> None:
    with Purgatory() as purgatory, ThreadPoolExecutor(1) as pool:
        operation = Flagged(60_000)
        future = purgatory.submit(operation, ["a"])
        waiting = pool.submit(future.result, WAIT_S)
        operation.flag = True
        purgatory.check_and_complete("a")
        assert waiting.result(WAIT_S) is True
        assert purgatory.submit(Flagged(1), ["a"]).result(timeout=WAIT_S) is False


def test_a_future_of_the_callers_own_is_settled_too(purgatory: Purgatory) -> None:
    operation = Flagged(100)
    mine: Future[bool] = Future()
    purgatory.submit_into(mine, operation, ["a"])
    operation.force_complete()
    assert mine.result(timeout=0) is True


# An operation over futures.


def _unfinished(number: int) -> list[Future[int]]:
    return [Future() for _ in range(number)]


def test_it_completes_when_the_last_future_is_done(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    futures = _unfinished(3)
    calls: list[list[Future[Any]]] = []
    outcome = DelayedFuture(futures, 100, calls.append).watch_in(purgatory)
    for number, future in enumerate(futures):
        assert not outcome.done()
        future.set_result(number)
    assert outcome.result(timeout=0) is True
    assert calls == [futures]
    assert [future.result(timeout=0) for future in calls[0]] == [0, 1, 2]
    assert counts(purgatory) == (0, 0, 0)
    manual_clock.advance(1000)
    assert len(calls) == 1


def test_futures_that_failed_or_were_cancelled_are_done(purgatory: Purgatory) -> None:
    fails, is_cancelled = _unfinished(2)
    outcome = DelayedFuture([fails, is_cancelled], 100).watch_in(purgatory)
    fails.set_exception(ValueError("its own"))
    assert is_cancelled.cancel()
    assert outcome.result(timeout=0) is True
    with pytest.raises(ValueError, match="its own"):
        fails.result(timeout=0)


@pytest.mark.parametrize("number", [0, 1, 5])
def test_when_all_are_done_it_completes_at_once(purgatory: Purgatory, number: int) -> None:
    futures = _unfinished(number)
    for future in futures:
        future.set_result(1)
    calls: list[list[Future[Any]]] = []
    assert DelayedFuture(futures, 100, calls.append).watch_in(purgatory).result(timeout=0) is True
    assert calls == [futures]
    assert counts(purgatory) == (0, 0, 0)


def test_at_the_deadline_those_who_wait_are_told_and_see_what_is_late(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    finished, failed, running, queued = _unfinished(4)
    finished.set_result(1)
    failed.set_exception(ValueError("its own"))
    running.set_running_or_notify_cancel()
    calls: list[list[Future[Any]]] = []
    wait = DelayedFuture([finished, failed, running, queued], 100, calls.append)
    outcome = wait.watch_in(purgatory)
    manual_clock.advance(99)
    assert not outcome.done()
    assert wait.late == []
    manual_clock.advance(1)
    assert outcome.result(timeout=0) is False
    assert wait.is_expired
    assert wait.late == [running, queued]
    assert calls == [[finished, failed, running, queued]]
    assert counts(purgatory) == (0, 0, 0)
    assert finished.result(timeout=0) == 1
    assert isinstance(failed.exception(timeout=0), ValueError)
    assert queued.cancelled()  # nobody needs to start it any more
    running.set_result(3)  # its own, and too late for us
    assert running.result(timeout=0) == 3
    assert len(calls) == 1


def test_a_pool_whose_work_is_late_goes_on() -> None:
    with Purgatory() as purgatory, ThreadPoolExecutor(1) as pool:
        go_on = threading.Event()
        running = pool.submit(go_on.wait, WAIT_S)
        queued = pool.submit(pow, 2, 2)
        wait = DelayedFuture([running, queued], 5)
        assert wait.watch_in(purgatory).result(timeout=WAIT_S) is False
        assert wait.late == [running, queued]
        go_on.set()
        assert running.result(timeout=WAIT_S) is True
        assert queued.cancelled()
        assert pool.submit(pow, 3, 2).result(timeout=WAIT_S) == 9


def test_futures_that_others_settle_can_be_left_alone_altogether(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    (promise,) = _unfinished(1)
    wait = DelayedFuture([promise], 100, cancel_late=False)
    outcome = wait.watch_in(purgatory)
    manual_clock.advance(100)
    assert outcome.result(timeout=0) is False
    assert wait.late == [promise]
    promise.set_result(1)  # by somebody who does not ask whether it was cancelled
    assert promise.result(timeout=0) == 1


@pytest.mark.parametrize("futures", [None, 5, "ab", [None], [Future], Future()], ids=ids.plain)
def test_what_is_not_a_list_of_futures_is_refused(futures: Any) -> None:
    with pytest.raises(WrongType, match="futures must be"):
        DelayedFuture(futures, 5)


def test_an_on_done_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(WrongType, match="on_done must be callable"):
        DelayedFuture([], 5, on_done=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("purgatory", [None, "here", ManualClock()], ids=ids.plain)
def test_what_is_not_a_purgatory_is_refused(purgatory: Any) -> None:
    with pytest.raises(WrongType, match="purgatory must be"):
        DelayedFuture([], 5).watch_in(purgatory)


def test_a_subclass_may_use_any_name_and_compare_as_it_likes(purgatory: Purgatory) -> None:
    class Mine(DelayedFuture):
        def __init__(self, futures: list[Future[Any]], timeout_ms: int) -> None:
            for name in ("on_done", "done", "late", "futures", "outcome", "cancel_late"):
                setattr(self, name, "mine")
                setattr(self, f"_{name}", "mine")
            super().__init__(futures, timeout_ms)

        def __eq__(self, other: object) -> bool:  # so that it is not hashable
            raise AssertionError("nobody asked")

    (future,) = _unfinished(1)
    outcome = Mine([future], 100).watch_in(purgatory)
    future.set_result(1)
    assert outcome.result(timeout=0) is True


def test_one_that_was_never_initialised_says_so(purgatory: Purgatory) -> None:
    wait = DelayedFuture.__new__(DelayedFuture)
    for use in (lambda: wait.watch_in(purgatory), lambda: wait.late, lambda: wait.futures):
        with pytest.raises(NotInitialised):
            use()


def test_one_is_not_copied() -> None:
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(WrongType, match="cannot be copied or pickled"):
            copied(DelayedFuture([], 5))


def test_each_future_is_asked_a_few_times_however_many_there_are(purgatory: Purgatory) -> None:
    asked = 0

    class Asked(Future[int]):
        def done(self) -> bool:
            nonlocal asked
            asked += 1
            return super().done()

    futures = [Asked() for _ in range(500)]
    outcome = DelayedFuture(futures, 100).watch_in(purgatory)
    for future in futures:
        future.set_result(1)
    assert outcome.result(timeout=0) is True
    assert asked <= 4 * len(futures)


def test_it_waits_on_an_event_loop_too() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            with ThreadPoolExecutor(2) as pool:
                futures = [pool.submit(pow, n, 2) for n in range(10)]
                wait = DelayedFuture(futures, 30_000)
                assert await wait.watch_in(purgatory) is True
            (late,) = _unfinished(1)
            assert await DelayedFuture([late], 5).watch_in(purgatory) is False

    asyncio.run(main())


def test_a_future_that_is_done_just_as_it_is_looked_at_is_not_missed(
    purgatory: Purgatory,
) -> None:
    """1. It is tried and watched: the future is not done.
    2. Another thread sets the future's result.
    3. The future is asked to bring news: it is done already, and may bring none.
    """

    class DoneMeanwhile(Future[int]):
        def done(self) -> bool:
            self._be_done_once_watched()
            return super().done()

        def add_done_callback(self, fn: Callable[[Future[int]], object]) -> None:
            self._be_done_once_watched()
            super().add_done_callback(fn)

        def _be_done_once_watched(self) -> None:
            if purgatory.delayed and not super().done():
                self.set_result(1)

    outcome = DelayedFuture([DoneMeanwhile()], 100).watch_in(purgatory)
    assert outcome.result(timeout=0) is True
    assert counts(purgatory) == (0, 0, 0)


def test_the_same_future_may_be_waited_for_twice(purgatory: Purgatory) -> None:
    (future,) = _unfinished(1)
    outcomes = [DelayedFuture([future, future], 100).watch_in(purgatory) for _ in range(2)]
    future.set_result(1)
    assert [outcome.result(timeout=0) for outcome in outcomes] == [True, True]


def test_cancelling_the_outcome_leaves_the_futures_alone(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    futures = _unfinished(2)
    calls: list[list[Future[Any]]] = []
    outcome = DelayedFuture(futures, 100, calls.append).watch_in(purgatory)
    assert outcome.cancel()
    assert counts(purgatory) == (0, 0, 0)
    manual_clock.advance(100)
    assert not any(future.done() for future in futures)
    for future in futures:
        future.set_result(1)
    assert calls == []


def test_an_on_done_that_raises_reaches_the_outcome(purgatory: Purgatory) -> None:
    def on_done(_: list[Future[Any]]) -> None:
        raise ValueError("on_done's own")

    (future,) = _unfinished(1)
    outcome = DelayedFuture([future], 100, on_done).watch_in(purgatory)
    future.set_result(1)
    with pytest.raises(ValueError, match="on_done's own"):
        outcome.result(timeout=0)
    assert purgatory.metrics().errors == 1


@pytest.mark.parametrize("ending", ["done", "expired", "cancelled"])
def test_nothing_is_left_of_it_when_it_and_its_futures_are_let_go(
    manual_clock: ManualClock, purgatory: Purgatory, ending: str
) -> None:
    futures = _unfinished(2)
    wait = DelayedFuture(futures, 100)
    outcome = wait.watch_in(purgatory)
    if ending == "done":
        for future in futures:
            future.set_result(1)
    elif ending == "expired":
        manual_clock.advance(100)
    else:
        outcome.cancel()
    gone: list[weakref.ref[Any]] = [
        weakref.ref(wait),
        weakref.ref(outcome),
        *(weakref.ref(f) for f in futures),
    ]
    del wait, outcome, futures
    if ending == "done":
        del future
    gc.collect()
    assert [reference() for reference in gone] == [None] * 4
    assert counts(purgatory) == (0, 0, 0)


@pytest.mark.parametrize("ending", ["expired", "cancelled", "closed"])
def test_a_future_that_is_still_running_keeps_neither_the_wait_nor_its_purgatory(
    ending: str,
) -> None:
    clock = ManualClock()
    purgatory = Purgatory(clock=clock)
    (running,) = _unfinished(1)
    running.set_running_or_notify_cancel()
    wait = DelayedFuture([running], 100)
    outcome = wait.watch_in(purgatory)
    if ending == "expired":
        clock.advance(100)
    elif ending == "cancelled":
        outcome.cancel()
    else:
        purgatory.close()
    gone: list[weakref.ref[Any]] = [
        weakref.ref(wait),
        weakref.ref(purgatory),
        weakref.ref(outcome),
    ]
    del wait, purgatory, outcome
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3
    running.set_result(1)


def test_it_completes_once_with_futures_finishing_in_many_threads() -> None:
    with Purgatory() as purgatory, ThreadPoolExecutor(4) as pool:
        for round_ in range(100):
            futures = _unfinished(8)
            calls: list[list[Future[Any]]] = []
            start = threading.Barrier(4)

            def finish(
                mine: list[Future[int]], start: threading.Barrier = start, number: int = round_
            ) -> None:
                start.wait(WAIT_S)
                for future in mine:
                    future.set_result(number)

            finishing = [pool.submit(finish, futures[share::4]) for share in range(4)]
            outcome = DelayedFuture(futures, 60_000, calls.append).watch_in(purgatory)
            assert outcome.result(timeout=WAIT_S) is True
            for part in finishing:
                part.result(WAIT_S)
            assert len(calls) == 1
        assert counts(purgatory) == (0, 0, 0)
