"""Admission: a purgatory with `max_waiting` refuses what would be too many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory
from sojourn.errors import Full, OutOfRange
from tests.core.flagged import Flagged

if TYPE_CHECKING:
    from collections.abc import Callable


def test_beyond_max_waiting_a_submission_is_refused_and_nothing_is_half_done(
    manual_clock: ManualClock,
) -> None:
    with Purgatory(clock=manual_clock, max_waiting=2) as purgatory:
        first, second, third = Flagged(), DelayedOperation(100), Flagged()
        purgatory.try_complete_else_watch(first, ["a"])
        purgatory.try_complete_else_watch(second, requires=[("p", 1)])
        third.flag = True  # it would complete, if it were tried
        with pytest.raises(Full, match="max_waiting"):
            purgatory.submit(third, ["a", "new"])
        with pytest.raises(Full, match="max_waiting"):
            purgatory.submit(third, requires=[("p", 1), ("new", 1)])
        third.flag = False
        assert third.state == "pending"
        assert (purgatory.watched, purgatory.delayed, purgatory.waiting("new")) == (2, 2, [])
        assert (purgatory.metrics().refused, purgatory.metrics().known_keys) == (2, 1)
        first.force_complete()
        assert purgatory.submit(third, ["a"]).done() is False
        second.cancel()
        assert purgatory.try_complete_else_watch(DelayedOperation(5), requires=[("p", 0)]) is False


def test_max_waiting_is_exact_whatever_the_way_out(manual_clock: ManualClock) -> None:
    ways_out: list[Callable[[Purgatory], object]] = [
        _complete_at_once,
        _complete_in_its_first_try,
        _complete_by_signals,
        _expire,
        _cancel_and_complete,
    ]
    with Purgatory(clock=manual_clock, max_waiting=2) as purgatory:
        for way_out in ways_out:
            way_out(purgatory)
            first, second = Flagged(), Flagged()
            purgatory.try_complete_else_watch(first, ["a"])
            purgatory.try_complete_else_watch(second, ["a"])
            with pytest.raises(Full):
                purgatory.submit(Flagged(), ["a"])
            assert first.force_complete()
            assert second.force_complete()
    with pytest.raises(OutOfRange, match="max_waiting"):
        Purgatory(max_waiting=0)


def _complete_at_once(purgatory: Purgatory) -> None:
    purgatory.signal("held", 1)
    assert purgatory.try_complete_else_watch(DelayedOperation(9), requires=[("held", 1)])


def _complete_in_its_first_try(purgatory: Purgatory) -> None:
    done = Flagged()
    done.flag = True
    assert purgatory.try_complete_else_watch(done, ["a"])


def _complete_by_signals(purgatory: Purgatory) -> None:
    for _ in range(2):
        purgatory.try_complete_else_watch(DelayedOperation(9), requires=[("signalled", 1)])
    assert purgatory.signal("signalled", 1) == 2


def _expire(purgatory: Purgatory) -> None:
    operation = DelayedOperation(9)
    purgatory.try_complete_else_watch(operation, requires=[("never", 1)])
    assert isinstance(purgatory.timer.clock, ManualClock)
    purgatory.timer.clock.advance(9)
    assert operation.is_expired


def _cancel_and_complete(purgatory: Purgatory) -> None:
    operation = DelayedOperation(9)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert purgatory.cancel_for_key("a") == [operation]
    assert operation.force_complete()
