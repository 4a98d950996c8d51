"""Cancelled operations: who gets them back, where they may wait next, and races on the way out."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory, Timer, compiled
from sojourn.errors import AlreadyWaiting
from tests.core.waits import WAIT_S, Waits, counts

if TYPE_CHECKING:
    from collections.abc import Iterator


class Blocking:
    """A key whose comparison with another of its kind waits for the other's `door`."""

    def __init__(self) -> None:
        self.held = threading.Event()
        self.door = threading.Event()

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Blocking) and other is not self:
            other.held.set()
            assert other.door.wait(WAIT_S)
        return self is other


@contextmanager
def look_up_under_way(purgatory: Purgatory) -> Iterator[None]:
    """A thread is inside the look-up of a key, where code of the user's runs, and does not return.

    Whatever a look-up held, nobody else would get in the meantime. One operation waits here now.
    """
    purgatory.try_complete_else_watch(Waits(), [Blocking()])
    key = Blocking()
    with ThreadPoolExecutor(1) as pool:
        look_up = pool.submit(purgatory.check_and_complete, key)
        assert key.held.wait(WAIT_S)
        yield
        key.door.set()
        assert look_up.result(WAIT_S) == 0


def test_cancel_for_key_returns_the_operations_not_completed_in_order(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operations = [Waits(10) for _ in range(4)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    other = Waits(10)
    purgatory.try_complete_else_watch(other, ["b"])
    assert purgatory.cancel_for_key("a") == operations
    assert counts(purgatory) == (1, 1, 1)
    manual_clock.advance(10)
    assert [operation.endings for operation in operations] == [[]] * 4
    assert not any(operation.is_completed for operation in operations)
    assert other.is_expired
    assert purgatory.cancel_for_key("a") == []


def test_a_cancelled_operation_may_be_submitted_again(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Waits(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(9)
    purgatory.cancel_for_key("a")
    assert not purgatory.try_complete_else_watch(operation, ["b", "c"])
    assert counts(purgatory) == (2, 1, 1)
    manual_clock.advance(9)
    assert not operation.is_completed  # its time runs from the second submission
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("c") == 1


def test_a_cancelled_operation_may_wait_in_another_purgatory(manual_clock: ManualClock) -> None:
    here, there = Purgatory(clock=manual_clock), Purgatory(clock=manual_clock)
    operation = Waits(10)
    here.try_complete_else_watch(operation, ["a"])
    here.cancel_for_key("a")
    there.try_complete_else_watch(operation, ["a"])
    assert counts(here) == (0, 0, 0)
    assert counts(there) == (1, 1, 1)
    manual_clock.advance(10)
    assert operation.endings == ["on_complete", "on_expiration"]
    assert (here.metrics().expired, there.metrics().expired) == (0, 1)


@pytest.mark.parametrize("wait_for", [{"keys": ["a"]}, {"requires": [("a", 1)]}])
def test_a_cancelled_operation_that_is_on_a_timer_by_itself_stays_there(
    manual_clock: ManualClock, purgatory: Purgatory, wait_for: dict[str, Any]
) -> None:
    operation = Waits(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.cancel()
    with Timer(manual_clock) as timer:
        timer.add(operation)
        with pytest.raises(AlreadyWaiting):
            purgatory.submit(operation, **wait_for)
        assert len(timer) == 1
    assert counts(purgatory) == (0, 0, 0)


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("wait_for", [{"keys": ["a"]}, {"requires": [("a", 1)]}])
def test_what_an_operation_raised_before_it_was_submitted_again_is_forgotten(
    purgatory: Purgatory, wait_for: dict[str, Any]
) -> None:
    class GivesUp(Waits):
        is_first = True

        def try_complete(self) -> bool:
            if self.is_first:
                self.is_first = False
                self.cancel()
                raise ValueError("no longer of interest")
            return super().try_complete()

    operation = GivesUp(10)
    assert not purgatory.try_complete_else_watch(operation, ["b"])
    future = purgatory.submit(operation, **wait_for)
    operation.ready = True
    purgatory.check_and_complete("a")
    purgatory.signal("a", 1)
    assert future.result(0) is True


def test_an_operation_that_is_due_at_once_leaves_its_place_once(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    for _ in range(3):
        due = Waits(0)
        assert not purgatory.try_complete_else_watch(due, requires=[("a", 1)])
        manual_clock.advance(0)
        assert due.is_expired
    operations = [Waits(10) for _ in range(6)]
    for number, operation in enumerate(operations):
        purgatory.try_complete_else_watch(operation, requires=[(number, 1)])
    for number, operation in enumerate(operations):
        assert purgatory.signal(number, 1) == 1
        assert operation.is_completed


def test_a_cancelled_operation_waits_its_whole_time_when_it_is_submitted_as_it_falls_due(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    """The timer has taken it off the list and is about to run it when another thread acts:

    1. The timer takes the operation, which is due, off its ready list.
    2. Another thread cancels the operation and submits it again.
    3. The timer runs it. That was its former time, so it goes on waiting.
    """

    class ActsFirst(Waits):
        def run(self) -> None:
            if not self.endings and manual_clock.now_ms == 10:
                assert self.cancel()
                assert not purgatory.try_complete_else_watch(self, ["a"])
            super().run()

    operation = ActsFirst(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(10)
    assert operation.endings == []
    manual_clock.advance(9)
    assert operation.endings == []
    manual_clock.advance(1)
    assert operation.endings == ["on_complete", "on_expiration"]


def test_an_operation_on_its_way_into_a_purgatory_is_not_submitted_to_another(
    manual_clock: ManualClock,
) -> None:
    here, there = Purgatory(clock=manual_clock), Purgatory(clock=manual_clock)

    class Twice(Waits):
        def try_complete(self) -> bool:
            with pytest.raises(AlreadyWaiting):
                there.try_complete_else_watch(self, ["a"])
            return False

    assert not here.try_complete_else_watch(Twice(), ["a"])
    assert (counts(here), counts(there)) == ((1, 1, 1), (0, 0, 0))


@pytest.mark.parametrize("at_try", [1, 2])
def test_an_operation_that_starts_over_inside_a_try_is_counted_once(
    manual_clock: ManualClock, purgatory: Purgatory, at_try: int
) -> None:
    """As when another thread cancels and submits it again while it is being submitted."""

    class StartsOver(Waits):
        def try_complete(self) -> bool:
            self.tries += 1
            purgatory.check_and_complete("elsewhere")  # a reason for a second try
            if self.tries == at_try:
                assert self.cancel()
                purgatory.try_complete_else_watch(self, ["b"])
            return False

    operation = StartsOver(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert counts(purgatory) == (1, 1, 1)  # on the key of the second submission
    manual_clock.advance(10)
    assert operation.endings == ["on_complete", "on_expiration"]
    assert counts(purgatory) == (0, 0, 0)


def test_an_operation_on_its_way_out_does_not_get_lost_on_its_way_in(
    manual_clock: ManualClock,
) -> None:
    """1. A thread is held up in one purgatory, in the middle of a look-up.
    2. The operation is cancelled there and submitted to another purgatory. Neither waits.
    3. The thread goes on: it must not take the operation out of the other purgatory.
    """
    here, there = Purgatory(clock=manual_clock), Purgatory(clock=manual_clock)
    operation = Waits(10)
    here.try_complete_else_watch(operation, ["a"])
    with look_up_under_way(here):
        assert operation.cancel()
        assert not there.try_complete_else_watch(operation, ["b"])
    assert counts(here) == (1, 1, 1)  # the other one
    assert counts(there) == (1, 1, 1)
    manual_clock.advance(10)
    assert operation.is_expired


def test_an_operation_completed_while_it_is_being_cancelled_is_counted_once(
    purgatory: Purgatory,
) -> None:
    """1. A cancels the operation.
    2. B completes it: allowed, as after any cancel.
    3. It left the purgatory once, so one total went up, whoever was first.
    """
    operation = Waits(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    with look_up_under_way(purgatory), ThreadPoolExecutor(2) as pool:
        cancelled = pool.submit(operation.cancel)
        completed = pool.submit(operation.force_complete)
        assert completed.result(WAIT_S)
        cancelled.result(WAIT_S)
    metrics = purgatory.metrics()
    assert metrics.completed + metrics.cancelled == 1
    assert operation.endings == ["on_complete"]
    assert counts(purgatory) == (1, 1, 1)  # the other one


def test_a_future_that_is_settled_by_somebody_else_does_not_cancel_its_operation(
    purgatory: Purgatory,
) -> None:
    operation = Waits(10)
    future = purgatory.submit(operation, ["a"])
    future.set_result(True)
    assert operation.state == "pending"
    operation.ready = True
    assert purgatory.check_and_complete("a") == 1


@pytest.mark.skipif(compiled, reason="compiled, there is no line between two steps to stop at")
def test_a_stale_expiry_never_ends_an_operation_that_was_submitted_again(
    manual_clock: ManualClock,
) -> None:
    for point in range(10_000):
        purgatory = Purgatory(clock=manual_clock)
        operation = _Held(10)
        purgatory.try_complete_else_watch(operation, ["a"])
        manual_clock.advance(10)  # taken off the timer, and held up just before it expires
        assert operation.held == 1
        operation.cancel()
        expiry = threading.Thread(target=DelayedOperation.run, args=(operation,))
        with _AtLine(point, expiry):
            purgatory.try_complete_else_watch(operation, ["a"])
        started = expiry.ident is not None
        if started:
            expiry.join(WAIT_S)
        assert operation.state == "pending", f"expired at line event {point}"
        purgatory.close()
        if not started:  # past the last line
            assert point > 50
            return


class _Held(DelayedOperation):
    held = 0

    def run(self) -> None:
        self.held += 1


class _AtLine:
    """Starts a thread at the n-th line of ours that this one comes to, and lets it run a little."""

    def __init__(self, number: int, thread: threading.Thread) -> None:
        self.left = number
        self.thread = thread

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self.trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def trace(self, frame: Any, event: str, arg: object) -> Any:
        if event == "line" and "sojourn" in frame.f_code.co_filename:
            if self.left == 0:
                self.thread.start()
                self.thread.join(0.002)
            self.left -= 1
        return self.trace
