"""A purgatory that is closed, and a timer that several share."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory, Timer
from sojourn.errors import Closed
from tests.core.waits import WAIT_S, Waits, counts

# Sharing.


def test_purgatories_share_a_timer_and_keep_their_own_counts(manual_clock: ManualClock) -> None:
    timer = Timer(manual_clock)
    fetch, produce = Purgatory("fetch", timer), Purgatory("produce", timer)
    fetch.try_complete_else_watch(Waits(10), ["a"])
    produce.try_complete_else_watch(Waits(10), ["a", "b"])
    produce.try_complete_else_watch(Waits(20), ["a"])
    assert len(timer) == 3
    assert (fetch.watched, fetch.delayed) == (1, 1)
    assert (produce.watched, produce.delayed) == (3, 2)
    assert produce.close() == 2
    assert len(timer) == 1
    manual_clock.advance(10)
    assert fetch.metrics().expired == 1
    assert produce.metrics().expired == 0


def test_closing_a_purgatory_leaves_a_timer_that_was_given_open(manual_clock: ManualClock) -> None:
    timer = Timer(manual_clock)
    Purgatory(timer=timer).close()
    ran: list[int] = []
    timer.call_later(1, ran.append, 1)
    manual_clock.advance(1)
    assert ran == [1]


def test_closing_takes_the_audit_off_a_timer_that_was_given(manual_clock: ManualClock) -> None:
    timer = Timer(manual_clock)
    purgatory = Purgatory(timer=timer, audit_every_ms=10)
    assert len(timer) == 1
    purgatory.close()
    assert len(timer) == 0


@pytest.mark.parametrize("wait_for", [{"keys": ["a"]}, {"requires": [("a", 1)]}])
def test_a_submission_on_a_closed_timer_raises_and_leaves_nothing(
    manual_clock: ManualClock, wait_for: dict[str, Any]
) -> None:
    timer = Timer(manual_clock)
    purgatory = Purgatory(timer=timer)
    timer.close()
    operation = Waits()
    with pytest.raises(Closed):
        purgatory.try_complete_else_watch(operation, **wait_for)
    assert counts(purgatory) == (0, 0, 0)
    assert not operation.is_completed


@pytest.mark.parametrize("wait_for", [{"keys": ["a"]}, {"requires": [("a", 1)]}])
def test_what_a_closed_timer_refused_is_cancelled_and_no_longer_the_purgatorys(
    manual_clock: ManualClock, wait_for: dict[str, Any]
) -> None:
    timer = Timer(manual_clock)
    purgatory = Purgatory(timer=timer, max_waiting=1)
    timer.close()
    operation = Waits()
    future: Future[bool] = Future()
    for _ in range(2):  # the second finds no less room
        with pytest.raises(Closed):
            purgatory.submit_into(future, operation, **wait_for)
        assert operation.is_cancelled
    assert operation.force_complete()
    assert purgatory.metrics().completed == 0
    assert future.cancelled() or not future.done()


def test_a_shared_timer_keeps_a_purgatory_alive_only_while_something_waits_there(
    manual_clock: ManualClock,
) -> None:
    timer = Timer(manual_clock)
    purgatories = [Purgatory(timer=timer) for _ in range(3)]
    operations = [Waits(100) for _ in purgatories]
    for purgatory, operation in zip(purgatories, operations, strict=True):
        purgatory.try_complete_else_watch(operation, ["a"])
        purgatory.try_complete_else_watch(Waits(5), ["a"])
    manual_clock.advance(5)
    alive = [weakref.ref(purgatory) for purgatory in purgatories]
    del purgatory
    purgatories.clear()
    for number in (0, 2, 1):  # the first, the last and the only one that the timer has
        gc.collect()
        assert alive[number]() is not None
        assert operations[number].force_complete()
        gc.collect()
        assert alive[number]() is None


# Closing.


def test_close_drops_what_waits_says_how_many_and_cancels_their_futures(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operations = [Waits(10) for _ in range(3)]
    futures = [
        purgatory.submit(operation, ["a", "b", index]) for index, operation in enumerate(operations)
    ]
    assert purgatory.close() == 3
    assert counts(purgatory) == (0, 0, 0)
    assert all(future.cancelled() for future in futures)
    with pytest.raises(CancelledError):
        futures[0].result(timeout=0)
    manual_clock.advance(100)
    assert [operation.endings for operation in operations] == [[]] * 3


def test_after_close_submitting_raises_and_signalling_does_nothing(purgatory: Purgatory) -> None:
    purgatory.close()
    operation = Waits()
    with pytest.raises(Closed):
        purgatory.try_complete_else_watch(operation, ["a"])
    with pytest.raises(Closed):
        purgatory.submit(operation, ["a"])
    assert operation.tries == 0
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.cancel_for_key("a") == []
    assert "closed" in repr(purgatory)


def test_closing_again_drops_nothing(purgatory: Purgatory) -> None:
    purgatory.try_complete_else_watch(Waits(), ["a"])
    assert [purgatory.close(), purgatory.close()] == [1, 0]


def test_a_purgatory_closes_at_the_end_of_its_with_block(manual_clock: ManualClock) -> None:
    with Purgatory(clock=manual_clock) as purgatory:
        future = purgatory.submit(Waits(), ["a"])
    assert future.cancelled()
    with pytest.raises(Closed):
        purgatory.submit(Waits(), ["a"])


def test_what_was_dropped_by_close_may_wait_elsewhere(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Waits(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.close()
    other = Purgatory(clock=manual_clock)
    other.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(10)
    assert operation.is_expired


@pytest.mark.parametrize("at_try", [1, 2])
def test_a_purgatory_that_is_closed_as_an_operation_comes_in_does_not_keep_it(
    purgatory: Purgatory, at_try: int
) -> None:
    class Closes(Waits):
        def try_complete(self) -> bool:
            self.tries += 1
            purgatory.check_and_complete("elsewhere")  # a reason for a second try
            if self.tries == at_try:
                purgatory.close()
            return False

    operation = Closes()
    if at_try == 1:
        with pytest.raises(Closed):
            purgatory.try_complete_else_watch(operation, ["a"])
    else:  # it was on the lists already, and is dropped like the others there
        assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert counts(purgatory) == (0, 0, 0)
    assert not operation.is_completed


def test_a_purgatory_on_a_shared_timer_that_is_closed_during_a_submission_starts_no_timeout(
    manual_clock: ManualClock,
) -> None:
    timer = Timer(manual_clock)
    purgatory = Purgatory(timer=timer)

    class Closes(Waits):
        def try_complete(self) -> bool:
            purgatory.close()
            return False

    with pytest.raises(Closed, match="as the operation came in"):
        purgatory.try_complete_else_watch(Closes(), ["a"])
    assert counts(purgatory) == (0, 0, 0)


def test_close_waits_for_the_callback_that_is_running() -> None:
    purgatory = Purgatory()
    running, go_on = threading.Event(), threading.Event()
    operation = Waits(1)

    def hold_up() -> None:
        running.set()
        assert go_on.wait(WAIT_S)

    operation.then = hold_up
    purgatory.try_complete_else_watch(operation, ["a"])
    assert running.wait(WAIT_S)
    closing = threading.Thread(target=purgatory.close)
    closing.start()
    assert closing.is_alive()
    go_on.set()
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert operation.endings == ["on_complete", "on_expiration"]


# Dropping.


@pytest.mark.parametrize("how", ["keys", "requires"])
def test_a_purgatory_dropped_while_something_waits_is_collected(
    how: str, manual_clock: ManualClock
) -> None:
    purgatory = Purgatory(clock=manual_clock)
    operation = DelayedOperation(1_000)
    what: dict[str, Any] = {"keys": ["a"]} if how == "keys" else {"requires": [("a", 1)]}
    future = purgatory.submit(operation, **what)
    gone = weakref.ref(purgatory)
    timer = weakref.ref(purgatory.timer)
    del purgatory
    gc.collect()
    assert gone() is None
    gc.collect()
    assert timer() is None
    assert future.cancelled()
    assert operation.is_cancelled
    manual_clock.advance(2_000)
    assert operation.is_cancelled
    with Purgatory(clock=manual_clock) as another:
        another.try_complete_else_watch(operation, ["a"])
        manual_clock.advance(1_000)
    assert operation.is_expired


def test_a_purgatory_on_the_system_clock_lives_until_what_waits_there_has_ended() -> None:
    purgatory = Purgatory()
    gone = weakref.ref(purgatory)
    operation = DelayedOperation(60_000)
    purgatory.try_complete_else_watch(operation, ["a"])
    del purgatory
    gc.collect()
    assert gone() is not None
    assert operation.force_complete()
    gc.collect()
    assert gone() is None
