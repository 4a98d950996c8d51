"""The purgatory: what waits, what is tried, what leaves, and what the counts say all along."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory, SojournError, Timer
from sojourn.errors import AlreadyWaiting, Closed, WrongType
from tests.core.flagged import Flagged
from tests.core.waits import WAIT_S, Waits, counts

# Submitting.


def test_an_operation_that_is_ready_never_waits(purgatory: Purgatory) -> None:
    operation = Waits(ready=True)
    assert purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert operation.tries == 1
    assert operation.endings == ["on_complete"]
    assert counts(purgatory) == (0, 0, 0)


@pytest.mark.parametrize("signals", [False, True])
def test_an_operation_is_tried_again_once_watched_if_a_signal_came_too_early_to_find_it(
    purgatory: Purgatory, signals: bool
) -> None:
    watched: list[int] = []

    class Looks(DelayedOperation):
        def try_complete(self) -> bool:
            if signals and not watched:
                purgatory.check_and_complete("a")
            watched.append(purgatory.watched)
            return False

    assert not purgatory.try_complete_else_watch(Looks(100), ["a", "b"])
    assert watched == ([0, 2] if signals else [0])


def test_the_timeout_starts_after_the_last_try(purgatory: Purgatory) -> None:
    delayed: list[tuple[int, int]] = []

    class Looks(DelayedOperation):
        def try_complete(self) -> bool:
            delayed.append((purgatory.delayed, len(purgatory.timer)))
            purgatory.check_and_complete("elsewhere")  # a reason for a second try
            return False

    purgatory.try_complete_else_watch(Looks(100), ["a"])
    assert delayed == [(0, 0), (0, 0)]
    assert (purgatory.delayed, len(purgatory.timer)) == (1, 1)


def test_a_signal_between_looking_and_watching_is_not_lost(purgatory: Purgatory) -> None:
    """It finds nobody on the key's list, so the submission has to try again."""

    class TooLate(Waits):
        def try_complete(self) -> bool:
            self.tries += 1
            if self.tries == 1:
                self.ready = True
                assert purgatory.check_and_complete("a") == 0
                return False
            return self.ready and self.force_complete()

    operation = TooLate()
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.endings == ["on_complete"]
    assert counts(purgatory) == (0, 0, 0)


def test_an_operation_completed_by_another_is_not_claimed_by_the_submitter(
    purgatory: Purgatory,
) -> None:
    class Overtaken(Waits):
        def try_complete(self) -> bool:
            other = threading.Thread(target=self.force_complete)
            other.start()
            other.join(WAIT_S)
            return self.force_complete()

    operation = Overtaken()
    assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.endings == ["on_complete"]
    assert counts(purgatory) == (0, 0, 0)


def test_an_ended_operation_is_refused_with_false(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    completed, expired = Waits(), Waits(5)
    completed.force_complete()
    purgatory.try_complete_else_watch(expired, ["a"])
    manual_clock.advance(5)
    tries = expired.tries
    for operation in (completed, expired):
        assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert (completed.tries, expired.tries) == (0, tries)
    assert counts(purgatory) == (0, 0, 0)


def test_an_operation_that_waits_cannot_be_submitted_again(purgatory: Purgatory) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, ["a"])
    with pytest.raises(AlreadyWaiting):
        purgatory.try_complete_else_watch(operation, ["b"])
    assert counts(purgatory) == (1, 1, 1)
    operation.ready = True
    assert purgatory.check_and_complete("a") == 1


def test_an_operation_that_waits_elsewhere_is_refused(manual_clock: ManualClock) -> None:
    here, there = Purgatory(clock=manual_clock), Purgatory(clock=manual_clock)
    operation = Waits()
    there.try_complete_else_watch(operation, ["a"])
    with pytest.raises(AlreadyWaiting):
        here.try_complete_else_watch(operation, ["a"])
    assert counts(here) == (0, 0, 0)
    assert counts(there) == (1, 1, 1)


def test_an_operation_that_waits_on_a_timer_is_refused(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    timer = Timer(manual_clock)
    operation = Waits()
    timer.add(operation)
    with pytest.raises(AlreadyWaiting):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert len(timer) == 1


def test_a_refused_submission_leaves_the_first_future_alone(purgatory: Purgatory) -> None:
    operation = Waits()
    first = purgatory.submit(operation, ["a"])
    with pytest.raises(AlreadyWaiting):
        purgatory.submit(operation, ["a"])
    assert operation.force_complete()
    assert first.result(timeout=0) is True


def test_a_submission_to_a_closed_purgatory_leaves_the_first_future_alone(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    closed = Purgatory(clock=manual_clock)
    closed.close()
    operation = Waits(5)
    first = purgatory.submit(operation, ["a"])
    with pytest.raises(Closed):
        closed.submit(operation, ["a"])
    manual_clock.advance(5)
    assert first.result(timeout=0) is False


# Signals.


def test_a_signal_counts_what_it_completed(purgatory: Purgatory) -> None:
    operations = [Waits() for _ in range(5)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
    for operation in operations[::2]:
        operation.ready = True
    assert purgatory.check_and_complete("a") == 3
    assert counts(purgatory) == (2, 2, 2)
    assert purgatory.check_and_complete("a") == 0


def test_a_signal_tries_in_the_order_of_submission(purgatory: Purgatory) -> None:
    order: list[int] = []

    class Tells(DelayedOperation):
        def __init__(self, number: int) -> None:
            super().__init__(100)
            self.number = number
            self.ready = False

        def try_complete(self) -> bool:
            if self.ready:
                order.append(self.number)
            return False

    operations = [Tells(number) for number in range(20)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
    for operation in operations:
        operation.ready = True
    purgatory.check_and_complete("a")
    assert order == list(range(20))


def test_a_signal_for_a_key_that_nobody_watches_does_nothing(purgatory: Purgatory) -> None:
    purgatory.try_complete_else_watch(Waits(), ["a"])
    assert purgatory.check_and_complete("b") == 0
    assert purgatory.cancel_for_key("b") == []
    assert counts(purgatory) == (1, 1, 1)


def test_a_completed_operation_leaves_the_lists_of_all_its_keys_at_once(
    purgatory: Purgatory,
) -> None:
    operation, other = Waits(), Waits()
    purgatory.try_complete_else_watch(operation, ["a", "b", "c"])
    purgatory.try_complete_else_watch(other, ["b"])
    assert purgatory.watched == 4
    operation.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert counts(purgatory) == (1, 1, 1)
    assert purgatory.cancel_for_key("c") == []
    assert purgatory.cancel_for_key("b") == [other]


@pytest.mark.parametrize("ending", ["complete", "force", "expire", "cancel", "cancel_key", "close"])
def test_the_counts_come_back_to_zero_by_every_way_out(
    manual_clock: ManualClock, purgatory: Purgatory, ending: str
) -> None:
    operation = Waits(10)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert counts(purgatory) == (2, 1, 1)
    if ending == "complete":
        operation.ready = True
        purgatory.check_and_complete("b")
    elif ending == "force":
        operation.force_complete()
    elif ending == "expire":
        manual_clock.advance(10)
    elif ending == "cancel":
        operation.cancel()
    elif ending == "cancel_key":
        purgatory.cancel_for_key("b")
    else:
        purgatory.close()
    assert counts(purgatory) == (0, 0, 0)
    metrics = purgatory.metrics()
    assert (metrics.completed, metrics.expired, metrics.cancelled) == {
        "complete": (1, 0, 0),
        "force": (1, 0, 0),
        "expire": (0, 1, 0),
        "cancel": (0, 0, 1),
        "cancel_key": (0, 0, 1),
        "close": (0, 0, 1),
    }[ending]


def test_a_key_comes_and_goes_as_often_as_it_is_used(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    for _ in range(50):
        operation = Waits(10)
        purgatory.try_complete_else_watch(operation, ["a"])
        assert counts(purgatory) == (1, 1, 1)
        manual_clock.advance(10)
        assert counts(purgatory) == (0, 0, 0)


# Timeouts.


@pytest.mark.parametrize("timeout_ms", [0, -1, -1000])
def test_without_time_left_an_operation_is_tried_and_expires_at_once(
    purgatory: Purgatory, timeout_ms: int
) -> None:
    operation = Waits(timeout_ms)
    assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.tries >= 1
    assert operation.endings == ["on_complete", "on_expiration"]
    assert operation.is_expired
    assert counts(purgatory) == (0, 0, 0)
    ready = Waits(timeout_ms, ready=True)
    assert purgatory.try_complete_else_watch(ready, ["a"])
    assert not ready.is_expired


@pytest.mark.parametrize("start_ms", [0, 1, 7, 19, 20, 33])
@pytest.mark.parametrize("timeout_ms", [1, 19, 20, 21, 450])
def test_on_a_coarse_timer_an_operation_is_late_by_less_than_a_tick_and_never_early(
    start_ms: int, timeout_ms: int
) -> None:
    clock = ManualClock(start_ms)
    purgatory = Purgatory(timer=Timer(clock, tick_ms=20))
    ended: list[int] = []
    operation = Waits(timeout_ms)
    operation.then = lambda: ended.append(clock.now_ms)
    purgatory.try_complete_else_watch(operation, ["a"])
    clock.advance(timeout_ms - 1)
    assert ended == []
    clock.advance(21)
    assert len(ended) == 1
    assert start_ms + timeout_ms <= ended[0] < start_ms + timeout_ms + 20
    assert ended[0] % 20 == 0


def test_operations_expire_in_the_order_of_their_deadlines(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    order: list[tuple[int, int]] = []
    for timeout_ms in (450, 3, 20, 8001, 19, 21, 1, 400):
        operation = Waits(timeout_ms)
        operation.then = lambda timeout_ms=timeout_ms: order.append(  # type: ignore[misc]
            (timeout_ms, manual_clock.now_ms)
        )
        purgatory.try_complete_else_watch(operation, [timeout_ms])
    manual_clock.advance(10_000)
    assert order == [(ms, ms) for ms in (1, 3, 19, 20, 21, 400, 450, 8001)]


# Names and errors.


def test_a_purgatory_shows_its_name_and_counts(purgatory: Purgatory) -> None:
    named = Purgatory("fetch", clock=ManualClock())
    assert named.name == "fetch"
    purgatory.try_complete_else_watch(Waits(), ["a", "b"])
    assert "watched=2" in repr(purgatory)
    assert "delayed=1" in repr(purgatory)


@pytest.mark.parametrize("error", [AlreadyWaiting, Closed])
def test_every_error_of_ours_is_a_sojourn_error_and_a_runtime_error(
    error: type[BaseException],
) -> None:
    assert issubclass(error, SojournError)
    assert issubclass(error, RuntimeError)


def test_one_can_see_who_waits_by_key_or_all(purgatory: Purgatory) -> None:
    a, b, c = Flagged(), Flagged(), DelayedOperation(100)
    purgatory.try_complete_else_watch(a, ["x", "y"])
    purgatory.try_complete_else_watch(b, ["y"])
    purgatory.try_complete_else_watch(c, requires=[("y", 5), (("t", 1), 2)])
    assert purgatory.waiting("x") == [a]
    assert purgatory.waiting("y") == [a, b, c]
    assert purgatory.waiting(("t", 1)) == [c]
    assert purgatory.waiting("none") == []
    assert purgatory.waiting() == [a, b, c]
    a.force_complete()
    purgatory.signal("y", 5)
    assert purgatory.waiting("y") == [b]
    assert purgatory.waiting() == [b, c]


def test_a_purgatorys_own_timer_has_levels_of_twenty_milliseconds_unless_told_otherwise(
    manual_clock: ManualClock,
) -> None:
    [level] = Purgatory(clock=manual_clock).timer.snapshot().levels
    assert (level.tick_ms, level.interval_ms) == (1, 20)


def test_tick_size_and_executor_go_to_the_purgatorys_own_timer(manual_clock: ManualClock) -> None:
    with ThreadPoolExecutor(1) as executor:
        purgatory = Purgatory(clock=manual_clock, tick_ms=10, wheel_size=5, executor=executor)
        assert purgatory.timer.snapshot().levels[0].tick_ms == 10
        assert purgatory.timer.snapshot().levels[0].interval_ms == 50
        threads: Future[int] = Future()

        class Where(DelayedOperation):
            def on_expiration(self) -> None:
                threads.set_result(threading.get_ident())

        purgatory.try_complete_else_watch(Where(5), ["a"])
        manual_clock.advance(10)
        assert threads.result(WAIT_S) != threading.get_ident()
        purgatory.close()
        with pytest.raises(WrongType, match="to the timer"):
            Purgatory(timer=purgatory.timer, tick_ms=5)
