"""Operations that raise: they end, their errors are told, and nobody else is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory
from tests.core.noted_operation import WAIT_S, Failing, Noted


class Oops(BaseException):
    """Neither an Exception nor an interrupt."""


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


@pytest.mark.parametrize("error", INTERRUPTS, ids=lambda error: type(error).__name__)
def test_an_interrupt_comes_out_of_a_signal_when_the_others_have_ended(
    purgatory: Purgatory, error: BaseException
) -> None:
    before, failing, after = Noted(), Failing("on_complete", error), Noted()
    for operation in (before, failing, after):
        purgatory.try_complete_else_watch(operation, requires=[("a", 1)])
    failing.ready = True
    with pytest.raises(type(error)):
        purgatory.signal("a", 1)
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
    trying, completed = Failing("try_complete", error), Failing("on_complete", error)
    trying.ready = completed.ready = True
    with pytest.raises(type(error)):
        purgatory.try_complete_else_watch(trying, ["a"])
    purgatory.signal("a", 1)
    with pytest.raises(type(error)):
        purgatory.try_complete_else_watch(completed, requires=[("a", 1)])
    assert [trying.endings, completed.endings] == [["on_complete"]] * 2
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
