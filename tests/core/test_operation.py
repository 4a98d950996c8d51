"""The delayed operation: it ends once, its callbacks come in order, its errors stop nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType

import pytest

import sojourn
from sojourn import DelayedOperation, ManualClock, Purgatory, Timer
from sojourn.core.guard import GUARD
from sojourn.errors import AlreadyWaiting

WAIT_S = 30.0


class Oops(BaseException):
    """Neither an Exception nor an interrupt."""


class Noted(DelayedOperation):
    """Notes what is called, in order; completes once `ready`."""

    def __init__(self, timeout_ms: int = 100, lock: CountingLock | None = None) -> None:
        super().__init__(timeout_ms, lock)
        self.calls: list[str] = []
        self.ready = False

    def try_complete(self) -> bool:
        self.calls.append("try_complete")
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.calls.append("on_complete")

    def on_expiration(self) -> None:
        self.calls.append("on_expiration")

    @property
    def endings(self) -> list[str]:
        return [call for call in self.calls if call != "try_complete"]


class CountingLock:
    """A re-entrant lock of a user's that knows how deep it is held."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.depth = 0
        self.taken = 0

    def acquire(self) -> bool:
        self._lock.acquire()
        self.depth += 1
        self.taken += 1
        return True

    def release(self) -> None:
        self.depth -= 1
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class Failing(Noted):
    """Raises where it is told to, once it is ready."""

    def __init__(self, where: str, error: BaseException, timeout_ms: int = 100) -> None:
        super().__init__(timeout_ms)
        self.where = where
        self.error = error

    def _maybe(self, here: str) -> None:
        if self.ready and self.where == here:
            raise self.error

    def try_complete(self) -> bool:
        self.calls.append("try_complete")
        self._maybe("try_complete")
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        super().on_complete()
        self._maybe("on_complete")

    def on_expiration(self) -> None:
        super().on_expiration()
        self._maybe("on_expiration")


@pytest.fixture
def purgatory(manual_clock: ManualClock) -> Purgatory:
    return Purgatory(clock=manual_clock)


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


# How it is tried.


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


# Errors.

ERRORS = [ValueError("an error"), Oops("a base exception")]
INTERRUPTS = [KeyboardInterrupt("ctrl-c"), SystemExit("enough")]
WHERE = ["try_complete", "on_complete", "on_expiration"]


def _ends(operation: Failing, purgatory: Purgatory, clock: ManualClock) -> Callable[[], object]:
    """What makes the operation come to the place where it raises."""
    if operation.where == "on_expiration":
        return lambda: clock.advance(operation.timeout_ms)
    return lambda: purgatory.check_and_complete("a")


@pytest.mark.parametrize("error", ERRORS + INTERRUPTS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", WHERE)
def test_an_operation_that_raises_is_ended_logged_counted_and_its_future_told(
    manual_clock: ManualClock,
    purgatory: Purgatory,
    caplog: pytest.LogCaptureFixture,
    where: str,
    error: BaseException,
) -> None:
    operation = Failing(where, error)
    future = purgatory.submit(operation, ["a", "b"])
    operation.ready = True
    end = _ends(operation, purgatory, manual_clock)
    if error in INTERRUPTS:
        with pytest.raises(type(error)):
            end()
    else:
        end()
    assert operation.is_completed
    assert operation.is_expired == (where == "on_expiration")
    assert operation.endings == ["on_complete", "on_expiration"][: 1 + operation.is_expired]
    assert future.exception(timeout=0) is error
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)
    assert purgatory.metrics().errors == 1
    own = [record for record in caplog.records if "raised in" in record.getMessage()]
    assert [record.name for record in own] == ["sojourn"]
    assert where in own[0].getMessage()
    assert "Failing" in own[0].getMessage()
    assert own[0].exc_info is not None
    assert own[0].exc_info[1] is error


def test_a_future_that_its_owner_has_cancelled_is_left_alone(purgatory: Purgatory) -> None:
    loop = asyncio.new_event_loop()
    for future in (loop.create_future(), Future[bool]()):
        operation = Noted()
        purgatory.submit_into(future, operation, ["a"])
        future.cancel()
        assert operation.force_complete()
        assert operation.endings == ["on_complete"]
        assert future.cancelled()
    loop.close()


def test_the_future_of_an_operation_that_raises_stop_iteration_gets_an_error_it_may_raise(
    purgatory: Purgatory,
) -> None:
    error = StopIteration("mine")
    operation = Failing("on_complete", error)
    operation.ready = True
    told = purgatory.submit(operation, ["a"]).exception(timeout=0)
    assert isinstance(told, RuntimeError)
    assert told.__cause__ is error


@pytest.mark.parametrize("error", ERRORS + INTERRUPTS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["try_complete", "on_complete"])
def test_the_others_on_the_key_are_tried_all_the_same(
    purgatory: Purgatory, where: str, error: BaseException
) -> None:
    before, failing, after = Noted(), Failing(where, error), Noted()
    for operation in (before, failing, after):
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True
    if error in INTERRUPTS:
        with pytest.raises(type(error)):
            purgatory.check_and_complete("a")
    else:
        assert purgatory.check_and_complete("a") == 3
    assert [before.endings, failing.endings, after.endings] == [["on_complete"]] * 3
    assert purgatory.metrics().completed == 3


@pytest.mark.parametrize("error", ERRORS + INTERRUPTS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["on_complete", "on_expiration"])
@pytest.mark.parametrize("apart_ms", [0, 1])
def test_the_others_on_the_timer_expire_all_the_same(
    manual_clock: ManualClock,
    purgatory: Purgatory,
    where: str,
    error: BaseException,
    apart_ms: int,
) -> None:
    failing, after = Failing(where, error, 5), Noted(5 + apart_ms)
    for operation in (failing, after):
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True
    if error in INTERRUPTS:
        with pytest.raises(type(error)):
            manual_clock.advance(10)
    else:
        manual_clock.advance(10)
    manual_clock.advance(0)  # an interrupt may have cut the way short
    manual_clock.advance(10)
    assert failing.endings == ["on_complete", "on_expiration"]
    assert after.endings == ["on_complete", "on_expiration"]
    assert purgatory.metrics().expired == 2


def test_on_expiration_is_called_though_on_complete_raised(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Failing("on_complete", ValueError("an error"), 5)
    operation.ready = False
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.ready = True
    manual_clock.advance(5)
    assert operation.endings == ["on_complete", "on_expiration"]


@pytest.mark.parametrize("error", INTERRUPTS, ids=lambda error: type(error).__name__)
def test_an_interrupt_during_submission_comes_out_of_it(
    purgatory: Purgatory, error: BaseException
) -> None:
    operation = Failing("try_complete", error)
    operation.ready = True
    with pytest.raises(type(error)):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.endings == ["on_complete"]
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)


def test_an_error_in_the_first_try_ends_the_submission(purgatory: Purgatory) -> None:
    error = ValueError("an error")
    operation = Failing("try_complete", error)
    operation.ready = True
    future = purgatory.submit(operation, ["a"])
    assert future.exception(timeout=0) is error
    assert operation.endings == ["on_complete"]
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_an_error_of_an_earlier_life_does_not_reach_a_later_future(purgatory: Purgatory) -> None:
    class FailsOnce(Noted):
        def try_complete(self) -> bool:
            if self.ready:
                self.ready = False
                self.cancel()
                raise ValueError("as it was cancelled")
            return False

    operation = FailsOnce()
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.ready = True
    purgatory.check_and_complete("a")
    assert not operation.is_completed

    future = purgatory.submit(operation, ["a"])
    assert operation.force_complete()
    assert future.result(timeout=0) is True


def test_what_try_complete_returns_may_raise_when_looked_at(purgatory: Purgatory) -> None:
    class NoBool:
        def __bool__(self) -> bool:
            raise ValueError("neither true nor false")

    class Odd(Noted):
        def try_complete(self) -> bool:
            return NoBool()  # type: ignore[return-value]

    operation = Odd()
    future = purgatory.submit(operation, ["a"])
    with pytest.raises(ValueError, match="neither true nor false"):
        future.result(timeout=0)
    assert operation.endings == ["on_complete"]


def test_an_error_on_the_background_thread_stops_nothing() -> None:
    class Raises(DelayedOperation):
        def __init__(self, error: BaseException) -> None:
            super().__init__(1)
            self.error = error

        def on_complete(self) -> None:
            raise self.error

    errors: list[BaseException] = [*ERRORS, *INTERRUPTS]
    with Purgatory() as purgatory:
        futures = [purgatory.submit(Raises(error), ["a"]) for error in errors]
        assert [future.exception(timeout=WAIT_S) for future in futures] == errors
        last = purgatory.submit(Noted(1), ["a"])
        assert last.result(timeout=WAIT_S) is False
        assert purgatory.metrics().errors == len(errors)
