"""What an operation or a purgatory cannot use, it refuses, and says what to do."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from sojourn import DelayedFuture, DelayedOperation, ManualClock, Purgatory, SojournError, Timer
from sojourn.errors import NotInitialised, OutOfRange, WrongType
from tests import ids
from tests.core.public_classes import PURGATORY_CALLS, Call
from tests.core.waits import counts

LIMIT_MS = 2**61 - 1


@pytest.mark.parametrize(
    "call",
    [pytest.param(c, id=n) for n, c in PURGATORY_CALLS.items() if n not in {"name", "timer"}],
)
def test_a_purgatory_that_was_never_initialised_says_so(call: Call) -> None:
    with pytest.raises(NotInitialised):
        call(Purgatory.__new__(Purgatory))


@pytest.mark.parametrize("timeout_ms", [1.5, "5", None, [], 2.0, object()], ids=ids.plain)
def test_a_timeout_that_is_not_an_integer_is_refused(timeout_ms: Any) -> None:
    with pytest.raises(WrongType, match="timeout_ms must be an integer"):
        DelayedOperation(timeout_ms)


@pytest.mark.parametrize(
    "timeout_ms", [LIMIT_MS + 1, -LIMIT_MS - 1, 2**62, 2**63, 2**64, -(2**70), 10**30]
)
def test_a_timeout_beyond_the_limit_is_refused(timeout_ms: int) -> None:
    with pytest.raises(OutOfRange, match="timeout_ms must lie within"):
        DelayedOperation(timeout_ms)


def test_the_longest_timeout_waits(manual_clock: ManualClock, purgatory: Purgatory) -> None:
    operation = DelayedOperation(LIMIT_MS)
    purgatory.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(10**9)
    assert not operation.is_completed
    assert operation.force_complete()
    assert counts(purgatory) == (0, 0, 0)


def test_the_most_negative_timeout_expires_at_once(purgatory: Purgatory) -> None:
    called: list[str] = []

    class Notes(DelayedOperation):
        def on_complete(self) -> None:
            called.append("on_complete")

        def on_expiration(self) -> None:
            called.append("on_expiration")

    operation = Notes(-LIMIT_MS)
    assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.is_expired
    assert called == ["on_complete", "on_expiration"]
    assert counts(purgatory) == (0, 0, 0)
    assert purgatory.metrics().lateness.count == 1
    assert purgatory.metrics().lateness.mean_ms >= 0


ONLY_TAKEN = SimpleNamespace(acquire=print)
ONLY_RELEASED = SimpleNamespace(release=print)


@pytest.mark.parametrize("lock", ["lock", 5, ONLY_TAKEN, ONLY_RELEASED], ids=ids.plain)
def test_something_that_is_no_lock_is_refused(lock: Any) -> None:
    with pytest.raises(WrongType, match="lock must have acquire"):
        DelayedOperation(5, lock)


@pytest.mark.parametrize("verb", ["try_complete_else_watch", "submit"])
@pytest.mark.parametrize("operation", [None, "op", lambda: True, DelayedOperation], ids=ids.plain)
def test_something_that_is_no_operation_is_refused(
    purgatory: Purgatory, verb: str, operation: Any
) -> None:
    with pytest.raises(WrongType, match="operation must be a DelayedOperation"):
        getattr(purgatory, verb)(operation, ["a"])


@pytest.mark.parametrize("verb", ["try_complete_else_watch", "submit"])
@pytest.mark.parametrize("keys", [[], (), set(), {}, iter([])], ids=ids.plain)
def test_no_keys_are_refused(purgatory: Purgatory, verb: str, keys: Any) -> None:
    operation = DelayedOperation(5)
    with pytest.raises(OutOfRange, match="keys is empty"):
        getattr(purgatory, verb)(operation, keys)
    _still_usable(purgatory, operation)


@pytest.mark.parametrize("verb", ["try_complete_else_watch", "submit"])
@pytest.mark.parametrize("keys", ["abc", "", b"abc", None, 7, object()], ids=ids.plain)
def test_keys_that_are_no_list_of_keys_are_refused(
    purgatory: Purgatory, verb: str, keys: Any
) -> None:
    operation = DelayedOperation(5)
    with pytest.raises(WrongType, match="keys must be a list of keys"):
        getattr(purgatory, verb)(operation, keys)
    _still_usable(purgatory, operation)


def test_a_string_for_keys_is_told_how_to_be_one_key(purgatory: Purgatory) -> None:
    with pytest.raises(WrongType, match=r"for one key: \['abc'\]"):
        purgatory.try_complete_else_watch(DelayedOperation(5), "abc")


@pytest.mark.parametrize("verb", ["try_complete_else_watch", "submit"])
@pytest.mark.parametrize("key", [[], {}, set(), ([],)], ids=ids.plain)
def test_a_key_that_is_not_hashable_is_refused(purgatory: Purgatory, verb: str, key: Any) -> None:
    operation = DelayedOperation(5)
    with pytest.raises(WrongType, match="is not hashable"):
        getattr(purgatory, verb)(operation, ["fine", key])
    _still_usable(purgatory, operation)


@pytest.mark.parametrize("verb", ["check_and_complete", "cancel_for_key"])
def test_a_signal_for_a_key_that_is_not_hashable_is_refused(
    purgatory: Purgatory, verb: str
) -> None:
    with pytest.raises(WrongType, match="is not hashable"):
        getattr(purgatory, verb)([1, 2])


@pytest.mark.parametrize("timer", ["timer", 5, object(), ManualClock()], ids=ids.plain)
def test_something_that_is_no_timer_is_refused(timer: Any) -> None:
    with pytest.raises(WrongType, match=r"timer must be a sojourn\.Timer"):
        Purgatory(timer=timer)


def test_something_that_is_no_clock_is_refused() -> None:
    with pytest.raises(WrongType, match="clock must be"):
        Purgatory(clock=5)  # type: ignore[arg-type]


def test_a_timer_and_another_clock_are_refused(manual_clock: ManualClock) -> None:
    with pytest.raises(WrongType, match="not both"):
        Purgatory(timer=Timer(manual_clock), clock=ManualClock())
    Purgatory(timer=Timer(manual_clock), clock=manual_clock)  # the same one is no contradiction


def test_something_that_is_no_future_is_refused() -> None:
    with pytest.raises(WrongType, match="futures must be"):
        DelayedFuture([Future(), "future"], 5)  # type: ignore[list-item]


@pytest.mark.parametrize("error", [WrongType, OutOfRange])
def test_every_refusal_is_a_sojourn_error_and_what_python_expects(
    error: type[BaseException],
) -> None:
    assert issubclass(error, SojournError)
    assert issubclass(error, TypeError if error is WrongType else ValueError)


def _still_usable(purgatory: Purgatory, operation: DelayedOperation) -> None:
    """Nothing of the refused submission is left, and a right one works."""
    assert counts(purgatory) == (0, 0, 0)
    assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert counts(purgatory) == (1, 1, 1)


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [
        ("max_waiting", 1, 2**62),
        ("forget_keys_after_ms", 0, LIMIT_MS // 1000),
        ("audit_every_ms", 1, LIMIT_MS),
        ("audit_sample", 1, 2**31),
    ],
)
def test_a_number_at_its_limit_is_taken_and_one_beyond_is_refused(
    option: str, least: int, most: int
) -> None:
    others: dict[str, Any] = {"clock": ManualClock(), "audit_every_ms": 1}
    for number in (least, most):
        Purgatory(**others | {option: number}).close()
    for number in (least - 1, most + 1):
        with pytest.raises(OutOfRange, match=option):
            Purgatory(**others | {option: number})


def test_a_sample_at_its_limit_is_taken_and_one_beyond_is_refused(purgatory: Purgatory) -> None:
    for sample in (1, 2**31):
        assert purgatory.audit(sample) == 0
    for sample in (0, 2**31 + 1):
        with pytest.raises(OutOfRange, match="sample"):
            purgatory.audit(sample)
