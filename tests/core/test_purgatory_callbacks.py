"""What callbacks of a purgatory may do in it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory
from sojourn.errors import Closed
from tests.core.waits import WAIT_S, Waits, counts


def test_a_callback_may_submit_on_the_same_key(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    first, second = Waits(10), Waits(10)
    tries: list[int] = []

    def submit() -> None:
        purgatory.try_complete_else_watch(second, ["a"])
        tries.append(second.tries)

    first.then = submit
    purgatory.try_complete_else_watch(first, ["a"])
    first.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert counts(purgatory) == (1, 1, 1)
    assert tries == [second.tries]  # the signal that brought it in is older than it is
    manual_clock.advance(10)
    assert second.is_expired


def test_a_callback_may_signal_its_own_and_other_keys(purgatory: Purgatory) -> None:
    counted: list[int] = []
    first, beside, beyond = Waits(), Waits(), Waits()
    first.then = lambda: counted.extend(map(purgatory.check_and_complete, ("a", "b")))
    for operation, key in ((first, "a"), (beside, "a"), (beyond, "b")):
        purgatory.try_complete_else_watch(operation, [key])
        operation.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert counted == [1, 1]
    assert counts(purgatory) == (0, 0, 0)


def test_a_callback_may_cancel_those_that_the_signal_has_yet_to_try(purgatory: Purgatory) -> None:
    given_up: list[DelayedOperation] = []
    first, second = Waits(), Waits()
    first.then = lambda: given_up.extend(purgatory.cancel_for_key("a"))
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert given_up == [second]
    assert second.endings == []


@pytest.mark.parametrize("way", ["signal", "expire"])
def test_a_callback_may_close_the_purgatory(
    manual_clock: ManualClock, purgatory: Purgatory, way: str
) -> None:
    dropped: list[int] = []
    first, second = Waits(10), Waits(10)
    first.then = lambda: dropped.append(purgatory.close())
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True
    if way == "signal":
        assert purgatory.check_and_complete("a") == 1
    manual_clock.advance(10)
    assert dropped == [1]
    assert second.endings == []
    assert counts(purgatory) == (0, 0, 0)


def test_an_expiry_on_the_background_thread_may_close_its_purgatory() -> None:
    purgatory = Purgatory()
    closed = threading.Event()
    operation = Waits(1)

    def close() -> None:
        purgatory.close()
        closed.set()

    operation.then = close
    purgatory.try_complete_else_watch(operation, ["a"])
    assert closed.wait(WAIT_S)
    with pytest.raises(Closed):
        purgatory.try_complete_else_watch(Waits(), ["a"])


def test_try_complete_may_signal_the_key_it_is_watched_on(purgatory: Purgatory) -> None:
    class Signals(Waits):
        def try_complete(self) -> bool:
            if self.ready:
                self.ready = False
                inside.append(1)
                inner.append(purgatory.check_and_complete("a"))
                return False
            return bool(inside) and self.force_complete()

    inside: list[int] = []
    inner: list[int] = []
    operation = Signals()
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.ready = True
    outer = purgatory.check_and_complete("a")
    assert inner[0] + outer == 1
    assert operation.endings == ["on_complete"]
    assert counts(purgatory) == (0, 0, 0)


def test_an_expiry_may_submit_an_operation_without_time_left(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    first, second = Waits(10), Waits(0)
    first.then = lambda: purgatory.try_complete_else_watch(second, ["a"])
    purgatory.try_complete_else_watch(first, ["a"])
    manual_clock.advance(10)
    assert second.endings == ["on_complete", "on_expiration"]
    assert counts(purgatory) == (0, 0, 0)


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("wait_for", [{"keys": ["a"]}, {"requires": [("a", 1)]}])
def test_an_operation_that_has_ended_is_not_submitted_again_and_keeps_its_error(
    purgatory: Purgatory, wait_for: dict[str, Any]
) -> None:
    class Raises(Waits):
        def on_complete(self) -> None:
            raise ValueError("mine")

    operation = Raises()
    assert operation.force_complete()
    assert purgatory.try_complete_else_watch(operation, **wait_for) is False
    assert isinstance(operation.error, ValueError)
    assert counts(purgatory) == (0, 0, 0)
