"""The delayed operation: it ends once, its callbacks come in order, its errors stop nobody else."""

from __future__ import annotations

import pytest

import sojourn
from sojourn import DelayedOperation, ManualClock, Purgatory, Timer
from sojourn.core.guard import GUARD
from sojourn.errors import AlreadyWaiting
from tests.core.noted_operation import Noted

# How it ends.


def test_only_the_first_force_complete_says_true() -> None:
    operation = Noted()
    assert [operation.force_complete() for _ in range(3)] == [True, False, False]
    assert operation.calls == ["on_complete"]


def test_an_operation_starts_out_pending() -> None:
    operation = Noted(7)
    assert not operation.is_completed
    assert not operation.is_expired
    assert operation.timeout_ms == 7
    assert "pending" in repr(operation)


def test_the_timeout_is_cancelled_before_on_complete_is_called(purgatory: Purgatory) -> None:
    seen: list[tuple[int, int, int, bool]] = []

    class Looks(DelayedOperation):
        def on_complete(self) -> None:
            seen.append(
                (len(purgatory.timer), purgatory.delayed, purgatory.watched, self.is_completed)
            )

    operation = Looks(50)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert (len(purgatory.timer), purgatory.delayed, purgatory.watched) == (1, 1, 2)
    assert operation.force_complete()
    assert seen == [(0, 0, 0, True)]


def test_expiry_calls_on_complete_and_then_on_expiration(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Noted(50)
    purgatory.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(49)
    assert operation.endings == []
    manual_clock.advance(1)
    assert operation.endings == ["on_complete", "on_expiration"]
    assert operation.is_completed
    assert operation.is_expired


def test_whether_it_expired_is_known_inside_on_complete(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    seen: list[tuple[bool, bool]] = []

    class Looks(DelayedOperation):
        def on_complete(self) -> None:
            seen.append((self.is_completed, self.is_expired))

    early, late = Looks(50), Looks(50)
    purgatory.try_complete_else_watch(early, ["a"])
    purgatory.try_complete_else_watch(late, ["a"])
    early.force_complete()
    manual_clock.advance(50)
    assert seen == [(True, False), (True, True)]


def test_a_completed_operation_does_not_expire(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Noted(50)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.force_complete()
    manual_clock.advance(1000)
    assert operation.endings == ["on_complete"]
    assert not operation.is_expired


def test_an_expiry_that_comes_too_late_calls_nothing() -> None:
    operation = Noted()
    operation.force_complete()
    operation.run()  # what the timer calls at the deadline
    assert operation.calls == ["on_complete"]
    assert not operation.is_expired


def test_an_expired_operation_cannot_be_completed(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Noted(5)
    purgatory.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(5)
    operation.ready = True
    assert not operation.force_complete()
    assert not operation.safe_try_complete()
    assert operation.endings == ["on_complete", "on_expiration"]


def test_an_operation_works_on_a_timer_without_a_purgatory(manual_clock: ManualClock) -> None:
    timer = Timer(manual_clock)
    expires, completes, gives_up = Noted(5), Noted(5), Noted(5)
    for operation in (expires, completes, gives_up):
        timer.add(operation)
    assert completes.force_complete()
    assert gives_up.cancel()
    assert len(timer) == 1
    manual_clock.advance(5)
    assert expires.calls == ["on_complete", "on_expiration"]
    assert completes.calls == ["on_complete"]
    assert gives_up.calls == []


def test_without_try_complete_of_its_own_an_operation_waits_for_others(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = DelayedOperation(5)
    assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert purgatory.check_and_complete("a") == 0
    manual_clock.advance(5)
    assert operation.is_expired


def test_on_complete_runs_once_when_every_ending_is_tried_in_turn(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Noted(5)
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert purgatory.check_and_complete("a") == 0
    assert not operation.force_complete()
    assert not operation.cancel()
    assert purgatory.cancel_for_key("a") == []
    manual_clock.advance(10)
    assert operation.endings == ["on_complete"]


def test_force_complete_from_inside_on_complete_says_false() -> None:
    answers: list[bool] = []

    class Again(DelayedOperation):
        def on_complete(self) -> None:
            answers.append(self.force_complete())

    assert Again(5).force_complete()
    assert answers == [False]


# Cancelling.


def test_cancel_says_whether_the_operation_was_waiting(purgatory: Purgatory) -> None:
    operation = Noted()
    assert not operation.cancel()
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert operation.cancel()
    assert not operation.cancel()
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)
    assert operation.endings == []
    assert not operation.is_completed


@pytest.mark.skipif(sojourn.compiled, reason="compiled, a step cannot be interrupted")
def test_a_cancel_in_the_middle_of_a_step_takes_effect_when_the_step_is_over(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    in_purgatory, on_timer, nowhere = Noted(), Noted(), Noted()
    purgatory.try_complete_else_watch(in_purgatory, ["a"])
    timer = Timer(manual_clock)
    timer.add(on_timer)
    with GUARD:  # where a signal handler may find itself
        says = [operation.cancel() for operation in (in_purgatory, on_timer, nowhere)]
        assert (purgatory.watched, len(timer)) == (1, 1)
    assert says == [True, True, False]
    assert (purgatory.watched, len(timer)) == (0, 0)
    assert in_purgatory.is_cancelled


def test_the_timeout_may_be_changed_only_while_the_operation_does_not_wait(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    in_purgatory, on_timer = Noted(5), Noted(5)
    for operation in (in_purgatory, on_timer):
        operation.timeout_ms = 50
    purgatory.try_complete_else_watch(in_purgatory, ["a"])
    Timer(manual_clock).add(on_timer)
    for operation in (in_purgatory, on_timer):
        with pytest.raises(AlreadyWaiting):
            operation.timeout_ms = 7
        assert operation.timeout_ms == 50
    manual_clock.advance(49)
    assert not in_purgatory.is_completed
    manual_clock.advance(1)
    assert in_purgatory.is_expired


def test_a_cancelled_operation_may_still_be_completed_once(purgatory: Purgatory) -> None:
    operation = Noted()
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.cancel()
    assert [operation.force_complete(), operation.force_complete()] == [True, False]
    assert operation.endings == ["on_complete"]


def test_a_try_under_way_when_the_operation_is_cancelled_does_not_complete_it(
    purgatory: Purgatory,
) -> None:
    class GivesUp(Noted):
        def try_complete(self) -> bool:
            return self.ready and self.cancel() and self.force_complete()

    operation = GivesUp()
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert not operation.is_completed
    assert operation.endings == []
    assert purgatory.metrics().cancelled == 1


# What it shows of itself.


def test_an_operation_tells_its_state_and_its_error(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    class Failing(DelayedOperation):
        def on_complete(self) -> None:
            raise ValueError("on purpose")

    operation = Failing(5)
    assert (operation.state, operation.error) == ("pending", None)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.cancel()
    assert (operation.state, operation.is_cancelled) == ("cancelled", True)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert (operation.state, operation.is_cancelled) == ("pending", False)
    manual_clock.advance(5)
    assert operation.state == "expired"
    assert isinstance(operation.error, ValueError)
    done = DelayedOperation(5)
    done.force_complete()
    assert (done.state, done.is_cancelled, done.error) == ("completed", False, None)


def test_what_an_operation_tells_of_itself_is_documented_on_its_class() -> None:
    for name, beginning in (
        ("state", "Where the operation stands"),
        ("error", "What a callback of the operation raised"),
        ("is_cancelled", "Whether the operation was cancelled"),
    ):
        assert getattr(DelayedOperation, name).__doc__.startswith(beginning)


def test_a_subclass_may_use_the_names_of_what_is_shown() -> None:
    class Order(DelayedOperation):
        def __init__(self) -> None:
            super().__init__(5)
            self.state = "paid"
            self.error = 7

    order = Order()
    assert order.force_complete()
    assert (order.state, order.error, order.is_completed) == ("paid", 7, True)
