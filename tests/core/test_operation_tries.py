"""How an operation is tried: what completes it, by whom, and under which lock."""

from __future__ import annotations

import threading

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory
from tests.core.noted_operation import WAIT_S, CountingLock, Failing, Noted


def test_try_complete_that_only_returns_true_completes_the_operation() -> None:
    class JustTrue(Noted):
        def try_complete(self) -> bool:
            return True

    operation = JustTrue()
    assert operation.safe_try_complete()
    assert operation.is_completed
    assert operation.endings == ["on_complete"]


def test_a_try_does_not_claim_what_another_thread_completed_meanwhile() -> None:
    class Overtaken(Noted):
        def try_complete(self) -> bool:
            other = threading.Thread(target=self.force_complete)
            other.start()
            other.join(WAIT_S)
            return True

    operation = Overtaken()
    assert not operation.safe_try_complete()
    assert operation.endings == ["on_complete"]


def test_a_signal_during_the_second_try_makes_a_third(purgatory: Purgatory) -> None:
    """It cannot have the operation's lock, so it leaves its mark (KAFKA-8334)."""

    class Signalled(Noted):
        def try_complete(self) -> bool:
            self.calls.append("try_complete")
            tries = len(self.calls)
            if tries == 1:
                purgatory.check_and_complete("another")  # so that there is a second
            if tries == 2:
                other = threading.Thread(target=purgatory.check_and_complete, args=("a",))
                other.start()
                other.join(WAIT_S)
            return tries == 3 and self.force_complete()

    operation = Signalled()
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.calls == ["try_complete"] * 3 + ["on_complete"]


def test_a_signal_does_not_count_what_was_cancelled_during_the_try(purgatory: Purgatory) -> None:
    class GivesUp(Noted):
        def try_complete(self) -> bool:
            return self.ready and self.cancel()

    operation = GivesUp()
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert not operation.is_completed


def test_a_signal_does_not_count_what_expired_during_the_try(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    class Slow(Noted):
        def try_complete(self) -> bool:
            if self.ready:
                manual_clock.advance(100)
            return self.ready

    operation = Slow(100)
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert operation.is_expired
    assert operation.endings == ["on_complete", "on_expiration"]


@pytest.mark.parametrize("with_action", [False, True])
def test_news_that_comes_during_a_try_of_ones_own_is_tried_with_before_it_returns(
    purgatory: Purgatory, with_action: bool
) -> None:
    class Overtaken(Noted):
        def try_complete(self) -> bool:
            self.calls.append("try_complete")
            if len(self.calls) == 2:
                self.ready = True
                signal = threading.Thread(target=purgatory.check_and_complete, args=["a"])
                signal.start()
                signal.join(WAIT_S)
                return False  # it had looked before the news came
            return self.ready and len(self.calls) > (3 if with_action else 2)

    operation = Overtaken()
    purgatory.try_complete_else_watch(operation, ["a"])
    if with_action:
        assert operation.safe_try_complete_or_else(lambda: None)
    else:
        assert operation.safe_try_complete()
    assert operation.endings == ["on_complete"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_try_comes_out_of_it(interrupt: type[BaseException]) -> None:
    for attempt in (
        DelayedOperation.safe_try_complete,
        lambda operation: operation.safe_try_complete_or_else(lambda: None),
    ):
        operation = Failing("try_complete", interrupt())
        operation.ready = True
        with pytest.raises(interrupt):
            attempt(operation)
        assert operation.is_completed


def test_an_ended_operation_is_not_tried_again() -> None:
    operation = Noted()
    operation.force_complete()
    assert not operation.safe_try_complete()
    assert operation.calls == ["on_complete"]


def test_safe_try_complete_or_else_tries_acts_and_tries_again() -> None:
    operation = Noted()
    assert not operation.safe_try_complete_or_else(lambda: operation.calls.append("action"))
    assert operation.calls == ["try_complete", "action", "try_complete"]


def test_safe_try_complete_or_else_does_not_act_when_the_first_try_succeeds() -> None:
    operation = Noted()
    operation.ready = True
    assert operation.safe_try_complete_or_else(lambda: operation.calls.append("action"))
    assert operation.calls == ["try_complete", "on_complete"]


def test_what_the_action_makes_true_completes_the_operation() -> None:
    operation = Noted()
    assert operation.safe_try_complete_or_else(lambda: setattr(operation, "ready", True))
    assert operation.calls == ["try_complete", "try_complete", "on_complete"]


def test_an_action_that_raises_leaves_the_operation_pending_and_its_lock_free() -> None:
    operation = Noted()

    def action() -> None:
        raise ValueError("the action's own")

    with pytest.raises(ValueError, match="the action's own"):
        operation.safe_try_complete_or_else(action)
    operation.ready = True
    answers: list[bool] = []
    other = threading.Thread(target=lambda: answers.append(operation.safe_try_complete()))
    other.start()
    other.join(WAIT_S)
    assert answers == [True]


def test_news_that_comes_while_the_action_runs_is_not_lost_when_the_action_raises(
    purgatory: Purgatory,
) -> None:
    operation = Noted()
    purgatory.try_complete_else_watch(operation, ["a"])

    def action() -> None:
        operation.ready = True
        signaller = threading.Thread(target=purgatory.check_and_complete, args=("a",))
        signaller.start()
        signaller.join(WAIT_S)  # it does not wait for the lock that we hold
        assert not signaller.is_alive()
        raise ValueError("the action's own")

    with pytest.raises(ValueError, match="the action's own"):
        operation.safe_try_complete_or_else(action)
    assert operation.is_completed


@pytest.mark.parametrize("how", ["submit", "signal", "safe_try_complete", "or_else"])
def test_try_complete_is_called_under_the_lock_that_was_given(
    purgatory: Purgatory, how: str
) -> None:
    lock = CountingLock()
    depths: list[int] = []

    class Looks(DelayedOperation):
        def try_complete(self) -> bool:
            depths.append(lock.depth)
            return False

    operation = Looks(100, lock)
    if how == "submit":
        purgatory.try_complete_else_watch(operation, ["a"])
    elif how == "signal":
        purgatory.try_complete_else_watch(operation, ["a"])
        purgatory.check_and_complete("a")
    elif how == "safe_try_complete":
        operation.safe_try_complete()
    else:
        operation.safe_try_complete_or_else(lambda: depths.append(lock.depth))
    assert depths
    assert min(depths) >= 1
    assert lock.depth == 0


def test_the_lock_is_let_go_of_after_a_try_that_raises(purgatory: Purgatory) -> None:
    lock = CountingLock()

    class Raises(DelayedOperation):
        def try_complete(self) -> bool:
            raise ValueError("mine")

    purgatory.try_complete_else_watch(Raises(100, lock), ["a"])
    assert lock.taken >= 1
    assert lock.depth == 0


def test_one_thread_at_a_time_is_inside_try_complete() -> None:
    inside = [0]
    most = [0]

    class Crowded(DelayedOperation):
        def try_complete(self) -> bool:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            for _ in range(20):
                pass
            inside[0] -= 1
            return False

    operation = Crowded(100)
    start = threading.Barrier(4)

    def hammer() -> None:
        start.wait(WAIT_S)
        for _ in range(300):
            operation.safe_try_complete()

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert most == [1]


@pytest.mark.parametrize("given", [False, True])
def test_the_lock_may_be_taken_again_by_its_own_thread(given: bool) -> None:
    class Nested(Noted):
        def try_complete(self) -> bool:
            self.calls.append("try_complete")
            if len(self.calls) == 1:
                return self.safe_try_complete()
            return self.force_complete()

    operation = Nested(100, CountingLock() if given else None)
    assert operation.safe_try_complete()
    assert operation.calls == ["try_complete", "try_complete", "on_complete"]
