"""The audit: operations whose condition holds and that nobody has signalled."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory
from tests.core.flagged import Flagged
from tests.core.waits import WAIT_S


@pytest.fixture
def purgatory(manual_clock: ManualClock) -> Purgatory:
    """Audits once a second, and looks at what expires."""
    return Purgatory(clock=manual_clock, audit_every_ms=1_000)


def submit_unsignalled(purgatory: Purgatory, operation: Flagged) -> Flagged:
    """Submit an operation, and set its flag without a signal."""
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.flag = True
    return operation


def test_the_audit_completes_what_nobody_signalled_and_names_the_keys(
    manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with Purgatory(clock=manual_clock, audit_every_ms=10) as purgatory:
        forgotten, waits = Flagged(), Flagged()
        purgatory.try_complete_else_watch(forgotten, ["order-7", ("region", 2)])
        purgatory.try_complete_else_watch(waits, ["order-8"])
        forgotten.flag = True
        manual_clock.advance(9)
        assert forgotten.state == "pending"
        with caplog.at_level(logging.WARNING, "sojourn"):
            manual_clock.advance(1)
        assert (forgotten.state, waits.state) == ("completed", "pending")
        assert "order-7" in caplog.text
        assert "('region', 2)" in caplog.text
        assert "order-8" not in caplog.text
        assert purgatory.metrics().missed_signals == 1
        assert purgatory.check_and_complete("order-8") == 0
        manual_clock.advance(80)
        assert purgatory.metrics().missed_signals == 1


def test_an_audit_looks_at_a_bounded_sample_and_goes_on_where_it_ended(
    manual_clock: ManualClock,
) -> None:
    looked_at: list[int] = []

    class Numbered(DelayedOperation):
        def __init__(self, number: int) -> None:
            super().__init__(1_000)
            self.number = number

        def try_complete(self) -> bool:
            looked_at.append(self.number)
            return False

    with Purgatory(clock=manual_clock) as purgatory:
        for number in range(50):
            purgatory.try_complete_else_watch(Numbered(number), ["a", number])
        looked_at.clear()
        for _ in range(20):
            before = len(looked_at)
            assert purgatory.audit(10) == 0
            assert len(looked_at) - before <= 10
        assert set(looked_at) == set(range(50))


def test_an_audit_looks_at_a_hundred_operations_unless_told_otherwise(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    looked_at: list[DelayedOperation] = []

    class Seen(DelayedOperation):
        def try_complete(self) -> bool:
            looked_at.append(self)
            return False

    for _ in range(250):
        purgatory.try_complete_else_watch(Seen(10_000), ["a"])
    for look in (lambda: manual_clock.advance(1_000), purgatory.audit):
        looked_at.clear()
        look()
        assert len(looked_at) == len(set(looked_at)) == 100


def test_an_audit_returns_how_many_held(purgatory: Purgatory) -> None:
    for _ in range(2):
        submit_unsignalled(purgatory, Flagged())
    purgatory.try_complete_else_watch(Flagged(), ["a"])
    assert [purgatory.audit(), purgatory.audit()] == [2, 0]


def test_what_expires_with_its_condition_true_is_counted_apart(
    manual_clock: ManualClock, purgatory: Purgatory, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    class Told(Flagged):
        def on_complete(self) -> None:
            ended.append(self.state)

    forgotten, other = Told(5), Told(5)
    purgatory.try_complete_else_watch(forgotten, ["order-7"])
    purgatory.try_complete_else_watch(other, ["order-8"])
    forgotten.flag = True
    manual_clock.advance(5)
    assert ended == ["expired", "expired"]
    counts = purgatory.metrics()
    assert (counts.expired, counts.expired_holding, counts.missed_signals) == (2, 1, 0)
    assert "order-7" in caplog.text
    assert "order-8" not in caplog.text


def test_a_condition_holds_at_the_deadline_if_it_says_so_or_would_complete(
    manual_clock: ManualClock,
) -> None:
    completes: list[bool] = []

    class SaysSo(Flagged):
        def try_complete(self) -> bool:
            return self.flag

    class Completes(Flagged):
        def try_complete(self) -> bool:
            if self.flag:
                completes.append(self.force_complete())
                self.force_complete()  # once more ends it no more than the first did
            return False

    for kind in (SaysSo, Completes):
        with Purgatory(clock=manual_clock, audit_every_ms=1_000) as purgatory:
            submit_unsignalled(purgatory, kind(5))
            manual_clock.advance(5)
            counts = purgatory.metrics()
            assert (counts.expired, counts.expired_holding, counts.completed) == (1, 1, 0)
    assert completes == [True]


class Fickle(Flagged):
    """Can be told to cancel itself when it is looked at."""

    cancels = False

    def try_complete(self) -> bool:
        if self.cancels:
            self.cancel()
        return super().try_complete()


def test_what_is_cancelled_as_its_deadline_is_looked_at_may_be_submitted_again(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Fickle(5)
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.cancels = True
    manual_clock.advance(5)
    assert operation.state == "cancelled"
    operation.cancels = False
    assert not purgatory.try_complete_else_watch(operation, ["a"])
    operation.flag = True
    with ThreadPoolExecutor(1) as another:  # no lock of ours is still held here
        assert another.submit(purgatory.check_and_complete, "a").result(WAIT_S) == 1
    assert operation.state == "completed"


def test_what_held_at_an_earlier_deadline_counts_for_nothing_when_it_is_submitted_again(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    def held_at_a_deadline(purgatory: Purgatory) -> Fickle:
        operation = Fickle(5)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.flag = operation.cancels = True
        manual_clock.advance(5)
        assert operation.is_cancelled
        operation.flag = operation.cancels = False
        return operation

    operation = held_at_a_deadline(purgatory)
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.flag = True
    assert purgatory.check_and_complete("a") == 1
    assert operation.state == "completed"
    operation = held_at_a_deadline(purgatory)
    purgatory.try_complete_else_watch(operation, requires=[("a", 1)])
    manual_clock.advance(5)
    assert operation.state == "expired"
    assert purgatory.metrics().expired_holding == 0


@pytest.mark.parametrize("holds", [True, False])
def test_an_operation_whose_time_runs_out_while_it_is_tried_expires(
    manual_clock: ManualClock, purgatory: Purgatory, holds: bool
) -> None:
    class Late(Flagged):
        def try_complete(self) -> bool:
            if self.flag and manual_clock.now_ms == 0:
                manual_clock.advance(5)  # its deadline comes while it is being tried
            return self.flag and holds

    operation = submit_unsignalled(purgatory, Late(5))
    assert purgatory.check_and_complete("a") == 0
    assert operation.state == "expired"
    assert purgatory.metrics().expired_holding == holds


def test_an_audit_passes_over_an_operation_that_has_moved_to_another_purgatory(
    manual_clock: ManualClock,
) -> None:
    class Moves(Flagged):
        moved: Flagged | None = None

        def try_complete(self) -> bool:
            if self.moved is not None:
                assert self.moved.cancel()
                for n in range(20):
                    another.try_complete_else_watch(Flagged(), [n])
                another.try_complete_else_watch(self.moved, ["b"])
                self.moved = None
            return False

    with Purgatory(clock=manual_clock) as purgatory, Purgatory(clock=manual_clock) as another:
        first, second = Moves(), Flagged()
        purgatory.try_complete_else_watch(first, ["a"])
        purgatory.try_complete_else_watch(second, ["a"])
        first.moved, second.flag = second, False
        assert purgatory.audit() == 0
        assert another.waiting("b") == [second]


def test_a_condition_that_raises_at_the_deadline_is_an_error_and_does_not_hold(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    class Broken(Flagged):
        def try_complete(self) -> bool:
            if self.flag:
                raise ValueError("on purpose")
            return False

    operation = submit_unsignalled(purgatory, Broken(5))
    manual_clock.advance(5)
    counts = purgatory.metrics()
    assert (counts.expired, counts.expired_holding, counts.errors) == (1, 0, 1)
    assert isinstance(operation.error, ValueError)


def test_what_another_thread_is_trying_at_the_deadline_is_not_looked_at(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    inside, leave = threading.Event(), threading.Event()

    class Slow(Flagged):
        def try_complete(self) -> bool:
            if self.flag:
                inside.set()
                assert leave.wait(WAIT_S)
            return False

    submit_unsignalled(purgatory, Slow(5))
    trying = threading.Thread(target=purgatory.check_and_complete, args=["a"])
    trying.start()
    assert inside.wait(WAIT_S)
    manual_clock.advance(5)
    leave.set()
    trying.join(WAIT_S)
    counts = purgatory.metrics()
    assert (counts.expired, counts.expired_holding, counts.completed) == (1, 0, 0)


def test_without_an_audit_nothing_is_tried_at_the_deadline(manual_clock: ManualClock) -> None:
    with Purgatory(clock=manual_clock) as purgatory:
        operation = submit_unsignalled(purgatory, Flagged(5))
        manual_clock.advance(5)
        assert operation.state == "expired"
        assert purgatory.metrics().expired_holding == 0
