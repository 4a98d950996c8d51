"""Waiting for progress: what holds, what a signal completes and in which order, what is kept."""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable, Iterable

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory
from sojourn.errors import Closed
from tests.core.progress_notes import Notes, Wild, counts

LEAST, MOST = -(2**63), 2**63 - 1


# What holds.


def test_a_requirement_holds_from_the_signal_that_reaches_its_offset(
    purgatory: Purgatory, notes: list[str]
) -> None:
    operation = Notes("it", notes)
    assert not purgatory.try_complete_else_watch(operation, requires=[("a", 10)])
    assert counts(purgatory) == (1, 1, 1, 1)
    assert purgatory.signal("a", 9) == 0
    assert notes == []
    assert purgatory.signal("a", 10) == 1
    assert notes == ["it"]
    assert operation.state == "completed"
    assert counts(purgatory) == (0, 0, 0, 1)


def test_a_signal_that_comes_first_is_not_lost(purgatory: Purgatory, notes: list[str]) -> None:
    assert purgatory.signal("a", 10) == 0
    assert purgatory.try_complete_else_watch(Notes("it", notes), requires=[("a", 10)])
    assert notes == ["it"]
    assert counts(purgatory) == (0, 0, 0, 1)
    assert not purgatory.try_complete_else_watch(Notes("more", notes), requires=[("a", 11)])


def test_progress_never_goes_down(purgatory: Purgatory, notes: list[str]) -> None:
    assert purgatory.progress("a") is None
    for offset, progress in ((3, 3), (7, 7), (5, 7), (LEAST, 7), (MOST, MOST), (0, MOST)):
        purgatory.signal("a", offset)
        assert purgatory.progress("a") == progress
    assert purgatory.progress("b") is None


def test_no_progress_is_below_every_offset(purgatory: Purgatory, notes: list[str]) -> None:
    assert not purgatory.try_complete_else_watch(Notes("it", notes), requires=[("a", LEAST)])
    assert purgatory.signal("a", LEAST) == 1
    assert purgatory.progress("a") == LEAST
    assert purgatory.try_complete_else_watch(Notes("next", notes), requires=[("a", LEAST)])
    assert not purgatory.try_complete_else_watch(Notes("last", notes), requires=[("a", MOST)])
    assert purgatory.signal("a", MOST - 1) == 0
    assert purgatory.signal("a", MOST) == 1
    assert notes == ["it", "next", "last"]


@pytest.mark.parametrize(
    ("needed", "completed_at"), [(None, 4), (4, 4), (3, 3), (2, 2), (1, 1)], ids=str
)
def test_as_many_as_needed_complete_it(
    purgatory: Purgatory, notes: list[str], needed: int | None, completed_at: int
) -> None:
    requires = [("a", 1), ("b", 5), ("c", -3), ("d", 0)]
    purgatory.try_complete_else_watch(Notes("it", notes), requires=requires, needed=needed)
    for n, (key, offset) in enumerate(requires, start=1):
        assert purgatory.signal(key, offset) == (n == completed_at)
    assert notes == ["it"]
    assert counts(purgatory) == (0, 0, 0, 4)


def test_what_held_keeps_holding_and_leaves_the_count_of_the_watched(
    purgatory: Purgatory, notes: list[str]
) -> None:
    purgatory.signal("a", 5)
    operation = Notes("it", notes)
    purgatory.try_complete_else_watch(operation, requires=[("a", 5), ("b", 1), ("c", 1)])
    assert purgatory.watched == 2
    purgatory.signal("b", 1)
    assert purgatory.watched == 1
    assert purgatory.waiting("b") == []
    assert purgatory.waiting("c") == purgatory.waiting() == [operation]
    purgatory.signal("c", 1)
    assert notes == ["it"]


def test_each_requirement_on_one_key_counts(purgatory: Purgatory, notes: list[str]) -> None:
    """Also two that are the same: each holds or not, as §6 counts them."""
    requires = [("a", 1), ("a", 1), ("a", 4), ("a", 9)]
    for needed in (1, 2, 3, None):
        operation = Notes(str(needed), notes)
        purgatory.try_complete_else_watch(operation, requires=requires, needed=needed)
    assert purgatory.watched == 16
    assert purgatory.signal("a", 1) == 2
    assert notes == ["1", "2"]
    assert purgatory.watched == 2 * 2
    assert purgatory.signal("a", 8) == 1
    assert purgatory.watched == 1
    assert purgatory.signal("a", 9) == 1
    assert notes == ["1", "2", "3", "None"]
    assert counts(purgatory) == (0, 0, 0, 1)


def test_equal_keys_are_one_key(purgatory: Purgatory, notes: list[str]) -> None:
    keys: list[tuple[Hashable, Hashable]] = [
        (1, True),
        (2.0, 2),
        ("order-1", "".join(["order", "-1"])),
        ((1, "x"), (1.0, "x")),
        (Wild("x"), Wild("x")),
        (frozenset([1, 2]), frozenset([2, 1])),
    ]
    for waited_for, signalled in keys:
        purgatory.try_complete_else_watch(Notes("it", notes), requires=[(waited_for, 3)])
        assert purgatory.signal(signalled, 3) == 1
        assert purgatory.progress(waited_for) == 3
    assert counts(purgatory) == (0, 0, 0, len(keys))


# In which order.


def test_a_signal_completes_by_offset_then_by_submission(
    purgatory: Purgatory, notes: list[str]
) -> None:
    offsets = [5, 3, 9, 3, 5, -2, 11, 3]
    for n, offset in enumerate(offsets):
        purgatory.try_complete_else_watch(Notes(f"{offset}.{n}", notes), requires=[("a", offset)])
    assert purgatory.signal("a", 10) == 7
    assert notes == ["-2.5", "3.1", "3.3", "3.7", "5.0", "5.4", "9.2"]


def test_an_operation_that_was_cancelled_and_came_again_stands_behind_its_equals(
    purgatory: Purgatory, notes: list[str]
) -> None:
    first, second = Notes("first", notes), Notes("second", notes)
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, requires=[("a", 1)])
    assert first.cancel()
    purgatory.try_complete_else_watch(first, requires=[("a", 1)])
    assert purgatory.waiting("a") == [second, first]
    purgatory.signal("a", 1)
    assert notes == ["second", "first"]


def test_all_have_ended_before_the_first_is_told(purgatory: Purgatory, notes: list[str]) -> None:
    operations = [Notes(str(n), notes) for n in range(3)]
    seen: list[tuple[object, ...]] = []
    operations[0].then = lambda: seen.append(
        (*(operation.state for operation in operations), *counts(purgatory))
    )
    for operation in operations:
        purgatory.try_complete_else_watch(operation, requires=[("a", 1), ("b", 1)], needed=1)
    purgatory.signal("a", 1)
    assert seen == [("completed",) * 3 + (0, 0, 0, 1)]
    assert notes == ["0", "1", "2"]


def test_signals_are_sent_in_order(purgatory: Purgatory, notes: list[str]) -> None:
    for key, offset in itertools.product("ab", (1, 2)):
        purgatory.try_complete_else_watch(Notes(f"{key}{offset}", notes), requires=[(key, offset)])
    assert purgatory.signal_many([("b", 1), ("a", 2), ("b", 2)]) == 4
    assert notes == ["b1", "a1", "a2", "b2"]
    assert purgatory.signal_many([]) == 0


# How it ends otherwise.


@pytest.mark.parametrize("none", [[], iter(())], ids=["list", "iterator"])
def test_no_signals_complete_nobody(purgatory: Purgatory, none: Iterable[tuple[str, int]]) -> None:
    assert purgatory.signal_many(none) == 0


def test_it_expires_at_its_deadline_and_leaves_every_key(
    purgatory: Purgatory, notes: list[str], manual_clock: ManualClock
) -> None:
    operation = Notes("it", notes, timeout_ms=50)
    purgatory.signal("c", 1)
    purgatory.try_complete_else_watch(operation, requires=[("a", 1), ("b", 1), ("c", 1)])
    manual_clock.advance(49)
    assert notes == []
    manual_clock.advance(1)
    assert notes == ["it", "it expired"]
    assert operation.is_expired
    assert counts(purgatory) == (0, 0, 0, 1)
    assert purgatory.signal("a", 1) + purgatory.signal("b", 1) == 0
    assert notes == ["it", "it expired"]


def test_cancelling_takes_it_off_every_key_at_once(
    purgatory: Purgatory, notes: list[str], manual_clock: ManualClock
) -> None:
    operation = Notes("it", notes)
    purgatory.try_complete_else_watch(operation, requires=[("a", 1), ("b", 1), ("a", 2)])
    assert operation.cancel()
    assert not operation.cancel()
    assert counts(purgatory) == (0, 0, 0, 0)
    assert purgatory.signal("a", 2) + purgatory.signal("b", 1) == 0
    manual_clock.advance(1000)
    assert notes == []


def test_forcing_completes_it_and_takes_it_off_every_key(
    purgatory: Purgatory, notes: list[str]
) -> None:
    operation = Notes("it", notes)
    purgatory.try_complete_else_watch(operation, requires=[("a", 1), ("b", 1)])
    assert operation.force_complete()
    assert not operation.force_complete()
    assert notes == ["it"]
    assert counts(purgatory) == (0, 0, 0, 0)


def test_cancel_for_key_takes_those_whose_requirement_on_it_does_not_hold(
    purgatory: Purgatory, notes: list[str]
) -> None:
    early, late = Notes("early", notes), Notes("late", notes)
    watcher = DelayedOperation(100)
    purgatory.try_complete_else_watch(late, requires=[("a", 9), ("b", 1), ("a", 8)])
    purgatory.try_complete_else_watch(early, requires=[("a", 3), ("b", 1)])
    purgatory.try_complete_else_watch(watcher, ["a"])
    purgatory.signal("a", 2)
    assert purgatory.waiting("a") == [watcher, early, late]
    purgatory.signal("a", 3)
    assert purgatory.cancel_for_key("a") == [watcher, late]
    assert [early.state, late.state] == ["pending", "cancelled"]
    assert purgatory.signal("b", 1) == 1
    assert notes == ["early"]


def test_closing_drops_what_waits_for_progress(purgatory: Purgatory, notes: list[str]) -> None:
    futures = [
        purgatory.submit(Notes("it", notes), requires=[("a", n), ("b", n)]) for n in range(3)
    ]
    assert purgatory.close() == 3
    assert all(future.cancelled() for future in futures)
    assert counts(purgatory) == (0, 0, 0, 0)
    with pytest.raises(Closed):
        purgatory.try_complete_else_watch(Notes("late", notes), requires=[("a", 1)])
    assert counts(purgatory) == (0, 0, 0, 0)
    assert notes == []


def test_a_future_tells_how_it_ended(purgatory: Purgatory, manual_clock: ManualClock) -> None:
    purgatory.signal("a", 1)
    at_once, in_time, late = (
        purgatory.submit(DelayedOperation(50), requires=[("a", n)]) for n in (1, 2, 3)
    )
    purgatory.signal("a", 2)
    manual_clock.advance(50)
    assert [at_once.result(0), in_time.result(0), late.result(0)] == [True, True, False]


def test_an_error_in_a_callback_ends_it_and_stops_nothing(
    purgatory: Purgatory, notes: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("on purpose")

    first, second = Notes("first", notes), Notes("second", notes)
    first.then = fail
    future = purgatory.submit(first, requires=[("a", 1)])
    purgatory.try_complete_else_watch(second, requires=[("a", 1)])
    assert purgatory.signal("a", 1) == 2
    assert notes == ["first", "second"]
    assert purgatory.metrics().errors == 1
    with pytest.raises(ValueError, match="on purpose"):
        future.result(0)
    assert "on purpose" in caplog.text


def test_the_waiting_time_is_recorded(purgatory: Purgatory, manual_clock: ManualClock) -> None:
    purgatory.signal("a", 1)
    for offset in (1, 2, 3):
        purgatory.try_complete_else_watch(DelayedOperation(100), requires=[("a", offset)])
    manual_clock.advance(40)
    purgatory.signal("a", 2)
    manual_clock.advance(60)
    waiting = purgatory.metrics().waiting
    assert (waiting.count, waiting.total_us) == (3, 140_000)


# From inside callbacks.


def test_a_callback_may_signal_submit_and_cancel(purgatory: Purgatory, notes: list[str]) -> None:
    first, second, third, fourth = (Notes(name, notes) for name in ("1", "2", "3", "4"))

    def meddle() -> None:
        assert not third.cancel()  # completed by the same signal, not yet told
        assert purgatory.signal("b", 1) == 1
        assert purgatory.try_complete_else_watch(fourth, requires=[("a", 1), ("b", 1)])
        notes.append("meddled")

    first.then = meddle
    purgatory.try_complete_else_watch(second, requires=[("b", 1)])
    purgatory.try_complete_else_watch(first, requires=[("a", 1)])
    purgatory.try_complete_else_watch(third, requires=[("a", 1)])
    assert purgatory.signal("a", 1) == 2
    assert notes == ["1", "2", "4", "meddled", "3"]
    assert counts(purgatory) == (0, 0, 0, 2)


def test_a_chain_of_signals_from_callbacks(purgatory: Purgatory, notes: list[str]) -> None:
    def link(n: int) -> Notes:
        operation = Notes(str(n), notes)
        operation.then = lambda: purgatory.signal(n + 1, 1)
        return operation

    for n in range(100):
        purgatory.try_complete_else_watch(link(n), requires=[(n, 1)])
    assert purgatory.signal(0, 1) == 1
    assert notes == [str(n) for n in range(100)]


# What it costs.


def test_a_signal_looks_at_no_operation_that_it_does_not_satisfy(
    purgatory: Purgatory,
) -> None:
    """Completing them one signal at a time is no more work than completing them with one."""

    def seconds(waiting: int) -> float:
        """Processor time of a thousand signals on a key with that many waiting, each for one."""
        purgatory.cancel_for_key("a")
        low = purgatory.progress("a") or 0
        purgatory.submit_many(
            (DelayedOperation(10**6), [("a", low + n)]) for n in range(1, waiting + 1)
        )
        began = time.thread_time()
        for n in range(1, 1001):
            assert purgatory.signal("a", low + n) == 1
        return time.thread_time() - began

    few = min(seconds(1_000) for _ in range(3))
    many = min(seconds(30_000) for _ in range(2))
    assert many < 5 * few + 0.02  # 30 times as long, if it looked at all of them
