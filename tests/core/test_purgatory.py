"""The purgatory: what waits, what is tried, what leaves, and what the counts say all along."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory, SojournError, Timer
from sojourn.errors import AlreadyWaiting, Closed
from tests import ids

WAIT_S = 30.0


class Waits(DelayedOperation):
    """Completes once `ready`; notes its endings and when they came."""

    def __init__(self, timeout_ms: int = 100, *, ready: bool = False) -> None:
        super().__init__(timeout_ms)
        self.ready = ready
        self.tries = 0
        self.endings: list[str] = []
        self.then: Callable[[], object] = lambda: None

    def try_complete(self) -> bool:
        self.tries += 1
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.endings.append("on_complete")
        self.then()

    def on_expiration(self) -> None:
        self.endings.append("on_expiration")


@dataclass(frozen=True)
class TopicPartition:
    """A key whose hash and equality run Python code."""

    topic: str
    partition: int

    def __hash__(self) -> int:
        return hash((self.topic, self.partition))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and (
            (self.topic, self.partition) == (other.topic, other.partition)
        )


class Colliding:
    """A key that collides with all others of its kind."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Colliding) and self.name == other.name


class Blocking:
    """A key that holds the purgatory's lock for as long as `door` is shut.

    The lock is held while a key is looked up, so an `__eq__` that waits shows what other threads
    do in the middle of their own steps. There has to be another of its kind to compare it with.
    """

    def __init__(self) -> None:
        self.held = threading.Event()
        self.door = threading.Event()

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Blocking) and other is not self:
            other.held.set()
            assert other.door.wait(WAIT_S)
        return self is other


@pytest.fixture
def purgatory(manual_clock: ManualClock) -> Purgatory:
    return Purgatory(clock=manual_clock)


def counts(purgatory: Purgatory) -> tuple[int, int, int]:
    return purgatory.watched, purgatory.delayed, len(purgatory.timer)


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


# Keys.


@pytest.mark.parametrize(
    "key",
    [
        "a",
        b"a",
        7,
        -1,
        1.5,
        None,
        (),
        ("topic", 3),
        frozenset({1, 2}),
        TopicPartition("topic", 3),
        Colliding("a"),
        object(),
        Waits,
        float("nan"),
        2**200,
    ],
    ids=ids.plain,
)
def test_any_hashable_is_a_key(purgatory: Purgatory, key: Hashable) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, [key])
    assert counts(purgatory) == (1, 1, 1)
    operation.ready = True
    assert purgatory.check_and_complete(key) == 1
    assert counts(purgatory) == (0, 0, 0)


def test_keys_that_are_equal_are_the_same_key(purgatory: Purgatory) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, [TopicPartition("t", 1)])
    operation.ready = True
    assert purgatory.check_and_complete(TopicPartition("t", 2)) == 0
    assert purgatory.check_and_complete(TopicPartition("t", 1)) == 1


def test_keys_that_collide_are_kept_apart(purgatory: Purgatory) -> None:
    operations = {name: Waits(ready=False) for name in "abc"}
    for name, operation in operations.items():
        purgatory.try_complete_else_watch(operation, [Colliding(name)])
        operation.ready = True
    assert purgatory.check_and_complete(Colliding("b")) == 1
    assert operations["b"].is_completed
    assert not operations["a"].is_completed
    assert counts(purgatory) == (2, 2, 2)


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "a"],
        ["a", "b", "a", "b"],
        [1, 1.0, True, 2],
        [TopicPartition("t", 1), TopicPartition("t", 1)],
    ],
    ids=ids.plain,
)
def test_the_same_key_twice_counts_once(purgatory: Purgatory, keys: list[Hashable]) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, keys)
    assert purgatory.watched == len(set(keys))
    tries = operation.tries
    purgatory.check_and_complete(keys[0])
    assert operation.tries == tries + 1
    assert purgatory.cancel_for_key(keys[0]) == [operation]
    assert counts(purgatory) == (0, 0, 0)


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, iter, dict.fromkeys])
def test_keys_may_come_in_any_iterable(
    purgatory: Purgatory, kind: Callable[[list[str]], list[str]]
) -> None:
    purgatory.try_complete_else_watch(Waits(), kind(["a", "b", "c"]))
    assert purgatory.watched == 3


def test_an_operation_is_watched_on_as_many_keys_as_it_names(purgatory: Purgatory) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, range(1000))
    assert counts(purgatory) == (1000, 1, 1)
    operation.ready = True
    assert purgatory.check_and_complete(617) == 1
    assert counts(purgatory) == (0, 0, 0)


def test_a_key_that_fails_to_compare_leaves_nothing_behind(purgatory: Purgatory) -> None:
    class Touchy:
        def __init__(self, raises: bool) -> None:
            self.raises = raises

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            if isinstance(other, Touchy) and other.raises:
                raise ValueError("cannot compare")
            return self is other

    first, key = Waits(), Touchy(False)
    purgatory.try_complete_else_watch(first, [key])
    with pytest.raises(ValueError, match="cannot compare"):
        purgatory.try_complete_else_watch(Waits(), ["b", Touchy(True)])
    assert counts(purgatory) == (1, 1, 1)
    first.ready = True
    assert purgatory.check_and_complete(key) == 1
    assert counts(purgatory) == (0, 0, 0)


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


# Cancelling.


def test_cancel_for_key_returns_the_operations_not_completed_in_order(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operations = [Waits(10) for _ in range(4)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    other = Waits(10)
    purgatory.try_complete_else_watch(other, ["b"])
    assert purgatory.cancel_for_key("a") == operations
    assert counts(purgatory) == (1, 1, 1)
    manual_clock.advance(10)
    assert [operation.endings for operation in operations] == [[]] * 4
    assert not any(operation.is_completed for operation in operations)
    assert other.is_expired
    assert purgatory.cancel_for_key("a") == []


def test_a_cancelled_operation_may_be_submitted_again(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Waits(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(9)
    purgatory.cancel_for_key("a")
    assert not purgatory.try_complete_else_watch(operation, ["b", "c"])
    assert counts(purgatory) == (2, 1, 1)
    manual_clock.advance(9)
    assert not operation.is_completed  # its time runs from the second submission
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("c") == 1


def test_a_cancelled_operation_may_wait_in_another_purgatory(manual_clock: ManualClock) -> None:
    here, there = Purgatory(clock=manual_clock), Purgatory(clock=manual_clock)
    operation = Waits(10)
    here.try_complete_else_watch(operation, ["a"])
    here.cancel_for_key("a")
    there.try_complete_else_watch(operation, ["a"])
    assert counts(here) == (0, 0, 0)
    assert counts(there) == (1, 1, 1)
    manual_clock.advance(10)
    assert operation.endings == ["on_complete", "on_expiration"]
    assert (here.metrics().expired, there.metrics().expired) == (0, 1)


def test_a_cancelled_operation_waits_its_whole_time_when_it_is_submitted_as_it_falls_due(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    """The timer has taken it off the list and is about to run it when another thread acts:

    1. The timer takes the operation, which is due, off its ready list.
    2. Another thread cancels the operation and submits it again.
    3. The timer runs it. That was its former time, so it goes on waiting.
    """

    class ActsFirst(Waits):
        def run(self) -> None:
            if not self.endings and manual_clock.now_ms == 10:
                assert self.cancel()
                assert not purgatory.try_complete_else_watch(self, ["a"])
            super().run()

    operation = ActsFirst(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(10)
    assert operation.endings == []
    manual_clock.advance(9)
    assert operation.endings == []
    manual_clock.advance(1)
    assert operation.endings == ["on_complete", "on_expiration"]


@pytest.mark.parametrize("at_try", [1, 2])
def test_an_operation_that_starts_over_inside_a_try_is_counted_once(
    manual_clock: ManualClock, purgatory: Purgatory, at_try: int
) -> None:
    """As when another thread cancels and submits it again while it is being submitted."""

    class StartsOver(Waits):
        def try_complete(self) -> bool:
            self.tries += 1
            purgatory.check_and_complete("elsewhere")  # a reason for a second try
            if self.tries == at_try:
                assert self.cancel()
                purgatory.try_complete_else_watch(self, ["b"])
            return False

    operation = StartsOver(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert (purgatory.delayed, len(purgatory.timer)) == (1, 1)
    manual_clock.advance(10)
    assert operation.endings == ["on_complete", "on_expiration"]
    assert counts(purgatory) == (0, 0, 0)


def _until_cancelled(operation: DelayedOperation) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while "cancelled" not in repr(operation):
        assert time.monotonic() < deadline_s


def test_an_operation_on_its_way_out_does_not_get_lost_on_its_way_in(
    manual_clock: ManualClock,
) -> None:
    """1. A cancels the operation in one purgatory and is held up before it has cleaned up.
    2. B submits the operation to another purgatory.
    3. A cleans up: it must not take the operation out of the other purgatory.
    """
    here, there = Purgatory(clock=manual_clock), Purgatory(clock=manual_clock)
    operation, other = Waits(10), Waits()
    here.try_complete_else_watch(operation, ["a"])
    here.try_complete_else_watch(other, [Blocking()])
    key = Blocking()
    holder = threading.Thread(target=here.check_and_complete, args=(key,), daemon=True)
    holder.start()
    assert key.held.wait(WAIT_S)
    with ThreadPoolExecutor(1) as pool:
        cancelled = pool.submit(operation.cancel)
        _until_cancelled(operation)
        try:
            there.try_complete_else_watch(operation, ["b"])
        except AlreadyWaiting:  # also a good answer: it is not out yet
            submitted = False
        else:
            submitted = True
        key.door.set()
        assert cancelled.result(WAIT_S)
    holder.join(WAIT_S)
    assert counts(here) == (1, 1, 1)  # the other one
    assert counts(there) == ((1, 1, 1) if submitted else (0, 0, 0))
    manual_clock.advance(10)
    assert operation.is_expired == submitted


def test_an_operation_completed_while_it_is_being_cancelled_is_counted_once(
    purgatory: Purgatory,
) -> None:
    """1. A cancels the operation and is held up before it has cleaned up.
    2. B completes it: allowed, as after any cancel.
    3. A cleans up. It left the purgatory once, so one total went up.
    """
    operation, other = Waits(10), Waits()
    purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.try_complete_else_watch(other, [Blocking()])
    key = Blocking()
    holder = threading.Thread(target=purgatory.check_and_complete, args=(key,), daemon=True)
    holder.start()
    assert key.held.wait(WAIT_S)
    with ThreadPoolExecutor(2) as pool:
        cancelled = pool.submit(operation.cancel)
        _until_cancelled(operation)
        completed = pool.submit(operation.force_complete)
        # It may have to wait for the purgatory's lock, so the door opens before it is back.
        deadline_s = time.monotonic() + 1
        while "completed" not in repr(operation) and time.monotonic() < deadline_s:
            pass
        key.door.set()
        assert cancelled.result(WAIT_S) or completed.result(WAIT_S)
        completed.result(WAIT_S)
    holder.join(WAIT_S)
    metrics = purgatory.metrics()
    assert metrics.completed + metrics.cancelled == 1
    assert operation.endings == (["on_complete"] if operation.is_completed else [])
    assert counts(purgatory) == (1, 1, 1)  # the other one


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


# Sharing.


def test_purgatories_share_a_timer_and_keep_their_own_counts(manual_clock: ManualClock) -> None:
    timer = Timer(manual_clock)
    fetch, produce = Purgatory("fetch", timer), Purgatory("produce", timer)
    fetch.try_complete_else_watch(Waits(10), ["a"])
    produce.try_complete_else_watch(Waits(10), ["a", "b"])
    produce.try_complete_else_watch(Waits(20), ["a"])
    assert len(timer) == 3
    assert (fetch.watched, fetch.delayed) == (1, 1)
    assert (produce.watched, produce.delayed) == (3, 2)
    assert produce.close() == 2
    assert len(timer) == 1
    manual_clock.advance(10)
    assert fetch.metrics().expired == 1
    assert produce.metrics().expired == 0


def test_closing_a_purgatory_leaves_a_timer_that_was_given_open(manual_clock: ManualClock) -> None:
    timer = Timer(manual_clock)
    Purgatory(timer=timer).close()
    ran: list[int] = []
    timer.call_later(1, ran.append, 1)
    manual_clock.advance(1)
    assert ran == [1]


def test_a_submission_on_a_closed_timer_raises_and_leaves_nothing(
    manual_clock: ManualClock,
) -> None:
    timer = Timer(manual_clock)
    purgatory = Purgatory(timer=timer)
    timer.close()
    operation = Waits()
    with pytest.raises(Closed):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert counts(purgatory) == (0, 0, 0)
    assert not operation.is_completed


# Closing.


def test_close_drops_what_waits_says_how_many_and_cancels_their_futures(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operations = [Waits(10) for _ in range(3)]
    futures = [
        purgatory.submit(operation, ["a", "b", index]) for index, operation in enumerate(operations)
    ]
    assert purgatory.close() == 3
    assert counts(purgatory) == (0, 0, 0)
    assert all(future.cancelled() for future in futures)
    with pytest.raises(CancelledError):
        futures[0].result(timeout=0)
    manual_clock.advance(100)
    assert [operation.endings for operation in operations] == [[]] * 3


def test_after_close_submitting_raises_and_signalling_does_nothing(purgatory: Purgatory) -> None:
    purgatory.close()
    operation = Waits()
    with pytest.raises(Closed):
        purgatory.try_complete_else_watch(operation, ["a"])
    with pytest.raises(Closed):
        purgatory.submit(operation, ["a"])
    assert operation.tries == 0
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.cancel_for_key("a") == []
    assert "closed" in repr(purgatory)


def test_closing_again_drops_nothing(purgatory: Purgatory) -> None:
    purgatory.try_complete_else_watch(Waits(), ["a"])
    assert [purgatory.close(), purgatory.close()] == [1, 0]


def test_a_purgatory_closes_at_the_end_of_its_with_block(manual_clock: ManualClock) -> None:
    with Purgatory(clock=manual_clock) as purgatory:
        future = purgatory.submit(Waits(), ["a"])
    assert future.cancelled()
    with pytest.raises(Closed):
        purgatory.submit(Waits(), ["a"])


def test_what_was_dropped_by_close_may_wait_elsewhere(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    operation = Waits(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.close()
    other = Purgatory(clock=manual_clock)
    other.try_complete_else_watch(operation, ["a"])
    manual_clock.advance(10)
    assert operation.is_expired


@pytest.mark.parametrize("at_try", [1, 2])
def test_a_purgatory_that_is_closed_as_an_operation_comes_in_does_not_keep_it(
    purgatory: Purgatory, at_try: int
) -> None:
    class Closes(Waits):
        def try_complete(self) -> bool:
            self.tries += 1
            purgatory.check_and_complete("elsewhere")  # a reason for a second try
            if self.tries == at_try:
                purgatory.close()
            return False

    operation = Closes()
    if at_try == 1:
        with pytest.raises(Closed):
            purgatory.try_complete_else_watch(operation, ["a"])
    else:  # it was on the lists already, and is dropped like the others there
        assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert counts(purgatory) == (0, 0, 0)
    assert not operation.is_completed


def test_close_waits_for_the_callback_that_is_running() -> None:
    purgatory = Purgatory()
    running, go_on = threading.Event(), threading.Event()
    operation = Waits(1)

    def hold_up() -> None:
        running.set()
        assert go_on.wait(WAIT_S)

    operation.then = hold_up
    purgatory.try_complete_else_watch(operation, ["a"])
    assert running.wait(WAIT_S)
    closing = threading.Thread(target=purgatory.close)
    closing.start()
    assert closing.is_alive()
    go_on.set()
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert operation.endings == ["on_complete", "on_expiration"]


# From inside callbacks.


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
