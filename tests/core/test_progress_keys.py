"""What a purgatory keeps for its keys, and when it forgets them."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory, Timer
from sojourn.core.guard import GUARD
from sojourn.errors import AlreadyWaiting, Closed, Full
from tests.core.progress_notes import Notes, Wild, counts

# What is kept.


def test_submitting_one_that_has_ended_leaves_no_key(
    purgatory: Purgatory, notes: list[str]
) -> None:
    operation = Notes("it", notes)
    operation.force_complete()
    assert not purgatory.try_complete_else_watch(operation, requires=[("a", 1), ("b", 1)])
    assert counts(purgatory) == (0, 0, 0, 0)


def test_one_that_is_refused_leaves_no_key(manual_clock: ManualClock, notes: list[str]) -> None:
    purgatory = Purgatory(clock=manual_clock, max_waiting=1)
    operation = Notes("it", notes)
    purgatory.try_complete_else_watch(operation, requires=[("a", 1)])
    with pytest.raises(AlreadyWaiting):
        purgatory.try_complete_else_watch(operation, requires=[("b", 1)])
    with pytest.raises(Full):
        purgatory.try_complete_else_watch(Notes("more", notes), requires=[("c", 1)])
    assert counts(purgatory) == (1, 1, 1, 1)


def test_one_whose_timer_is_closed_leaves_no_key_and_may_go_elsewhere(
    purgatory: Purgatory, manual_clock: ManualClock, notes: list[str]
) -> None:
    timer = Timer(manual_clock)
    closed = Purgatory(timer=timer)
    timer.close()
    operation = Notes("it", notes)
    with pytest.raises(Closed):
        closed.try_complete_else_watch(operation, requires=[("a", 1)])
    assert counts(closed) == (0, 0, 0, 0)
    purgatory.try_complete_else_watch(operation, requires=[("a", 1)])
    assert purgatory.signal("a", 1) == 1
    assert notes == ["it"]


def test_a_key_that_raises_when_compared_leaves_nothing_behind(
    purgatory: Purgatory, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    purgatory.signal(Wild("x"), 1)
    monkeypatch.setattr(Wild, "raises", True)
    operation = Notes("it", notes)
    with pytest.raises(ValueError, match="no comparing"):
        purgatory.try_complete_else_watch(operation, requires=[("a", 1), (Wild("y"), 1), ("b", 1)])
    with pytest.raises(ValueError, match="no comparing"):
        purgatory.signal(Wild("y"), 1)
    monkeypatch.setattr(Wild, "raises", False)
    assert counts(purgatory) == (0, 0, 0, 1)
    assert operation.state == "pending"
    purgatory.try_complete_else_watch(operation, requires=[("a", 1)])


def test_a_quorum_that_holds_already_leaves_no_key(purgatory: Purgatory, notes: list[str]) -> None:
    purgatory.signal("a", 1)
    operation = Notes("it", notes)
    assert purgatory.try_complete_else_watch(
        operation, requires=[("b", 1), ("a", 1), (Wild("x"), 1)], needed=1
    )
    assert counts(purgatory) == (0, 0, 0, 1)


def test_keys_and_operations_are_let_go_of(purgatory: Purgatory) -> None:
    class Token:
        pass

    for end in ("signal", "cancel", "force", "refuse"):
        key, operation = Token(), DelayedOperation(100)
        gone: list[weakref.ref[Any]] = [weakref.ref(key), weakref.ref(operation)]
        if end == "refuse":
            operation.force_complete()
        purgatory.try_complete_else_watch(operation, requires=[(key, 1), (key, 2)], needed=1)
        if end == "signal":
            purgatory.signal(key, 1)
            gone.pop(0)  # its progress is kept
        elif end == "cancel":
            operation.cancel()
        elif end == "force":
            operation.force_complete()
        del key, operation
        gc.collect()
        assert [reference() for reference in gone] == [None] * len(gone), end


def test_places_are_used_again(purgatory: Purgatory) -> None:
    """However many have waited, there is room for those who wait at one time and not more."""
    tracemalloc.start()
    for n in range(5_000):
        requires = [("a", n), ("b", n), ("a", n), ("b", n)]
        purgatory.try_complete_else_watch(DelayedOperation(100), requires=requires, needed=2)
        assert purgatory.signal("b" if n % 2 else "a", n) == 1
        assert purgatory.signal("a" if n % 2 else "b", n) == 0
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counts(purgatory) == (0, 0, 0, 2)
    assert held_bytes < 50_000  # 32 bytes a place, if each were a new one: 500,000


def test_a_purgatory_collected_in_the_middle_of_a_step_tells_those_who_wait(
    manual_clock: ManualClock,
) -> None:
    """The collector may run anywhere, also where this thread changes another purgatory."""
    purgatory = Purgatory(clock=manual_clock)
    future = purgatory.submit(DelayedOperation(100), requires=[("a", 1)])
    del purgatory
    with GUARD:
        gc.collect()
    assert future.cancelled()


# Keys that are forgotten.


@pytest.mark.parametrize("after_ms", [0, 100])
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "dropped"])
def test_a_purgatory_that_goes_lets_go_of_idle_keys(
    manual_clock: ManualClock, closed: bool, after_ms: int
) -> None:
    purgatory = Purgatory(clock=manual_clock, forget_keys_after_ms=after_ms)
    keys = [Wild(str(number)) for number in range(50)]
    held = [weakref.ref(key) for key in keys]
    for key in keys:
        purgatory.signal(key, 1)
    if closed:
        purgatory.close()
        assert purgatory.metrics().known_keys == 0
    del purgatory, keys, key
    gc.collect()
    assert [ref() for ref in held] == [None] * 50


def test_a_key_nobody_waits_for_is_forgotten_in_time(
    manual_clock: ManualClock, notes: list[str]
) -> None:
    purgatory = Purgatory(clock=manual_clock, forget_keys_after_ms=5_000)
    purgatory.signal("a", 5)
    manual_clock.advance(5_000)
    purgatory.signal("b", 1)
    assert purgatory.progress("a") == 5
    manual_clock.advance(1)
    purgatory.signal("b", 1)
    assert purgatory.progress("a") is None
    assert purgatory.metrics().known_keys == 1
    assert not purgatory.try_complete_else_watch(Notes("it", notes), requires=[("a", 5)])
    assert purgatory.signal("a", 4) == 0
    assert purgatory.signal("a", 5) == 1


def test_a_key_may_be_forgotten_as_soon_as_nobody_waits_for_it(manual_clock: ManualClock) -> None:
    purgatory = Purgatory(clock=manual_clock, forget_keys_after_ms=0)
    purgatory.signal("a", 5)
    manual_clock.advance(1)
    purgatory.signal("b", 1)
    assert purgatory.progress("a") is None


def test_a_key_that_is_waited_for_is_not_forgotten(
    manual_clock: ManualClock, notes: list[str]
) -> None:
    purgatory = Purgatory(clock=manual_clock, forget_keys_after_ms=100)
    purgatory.signal("a", 5)
    operation = Notes("it", notes, timeout_ms=1000)
    purgatory.try_complete_else_watch(operation, requires=[("a", 6)])
    manual_clock.advance(500)
    purgatory.signal("b", 1)
    assert purgatory.progress("a") == 5
    operation.cancel()  # from here on it is idle
    manual_clock.advance(100)
    purgatory.signal("b", 1)
    assert purgatory.progress("a") == 5
    manual_clock.advance(1)
    purgatory.signal("b", 1)
    assert purgatory.progress("a") is None


def test_a_key_is_idle_from_the_moment_its_last_operation_is_cancelled(
    manual_clock: ManualClock, notes: list[str]
) -> None:
    purgatory = Purgatory(clock=manual_clock, forget_keys_after_ms=0)
    purgatory.signal("a", 5)
    operation = Notes("it", notes)
    purgatory.try_complete_else_watch(operation, requires=[("a", 6)])
    manual_clock.advance(50)
    operation.cancel()
    purgatory.signal("b", 1)
    assert purgatory.progress("a") == 5
    manual_clock.advance(1)
    purgatory.signal("b", 1)
    assert purgatory.progress("a") is None


def test_a_signal_that_changes_nothing_keeps_the_key(manual_clock: ManualClock) -> None:
    purgatory = Purgatory(clock=manual_clock, forget_keys_after_ms=100)
    purgatory.signal("a", 5)
    for _ in range(5):
        manual_clock.advance(90)
        purgatory.signal("a", 0)
    assert purgatory.progress("a") == 5


def test_what_held_on_a_forgotten_key_still_holds(
    manual_clock: ManualClock, notes: list[str]
) -> None:
    purgatory = Purgatory(clock=manual_clock, forget_keys_after_ms=100)
    purgatory.signal("a", 5)
    operation = Notes("it", notes, timeout_ms=1000)
    purgatory.try_complete_else_watch(operation, requires=[("a", 5), ("b", 1)])
    manual_clock.advance(101)
    purgatory.signal("c", 1)
    assert purgatory.progress("a") is None
    assert purgatory.signal("b", 1) == 1


def test_without_a_time_no_key_is_forgotten(
    purgatory: Purgatory, manual_clock: ManualClock
) -> None:
    purgatory.signal("a", 5)
    manual_clock.advance(10**9)
    purgatory.signal("b", 1)
    assert purgatory.progress("a") == 5


def test_many_idle_keys_are_forgotten_a_few_with_each_signal(manual_clock: ManualClock) -> None:
    purgatory = Purgatory(clock=manual_clock, forget_keys_after_ms=10)
    for n in range(1000):
        purgatory.signal(n, 1)
    manual_clock.advance(11)
    before = 1000
    while before > 1:
        purgatory.signal("b", 1)
        now = purgatory.metrics().known_keys
        assert now < before
        assert before - now <= 16
        before = now
