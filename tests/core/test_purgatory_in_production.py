"""What a purgatory offers to people who run one: look who waits, limit them, audit, wait."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory, compiled
from sojourn.errors import Cancelled, Closed, Full, OutOfRange, WrongType

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 60.0


class Flagged(DelayedOperation):
    """Completes when its flag is set."""

    def __init__(self, timeout_ms: int = 100) -> None:
        super().__init__(timeout_ms)
        self.flag = False

    def try_complete(self) -> bool:
        return self.flag and self.force_complete()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


# Looking.


def test_an_operation_tells_its_state_and_its_error(clock: ManualClock) -> None:
    class Failing(DelayedOperation):
        def on_complete(self) -> None:
            raise ValueError("on purpose")

    with Purgatory(clock=clock) as purgatory:
        operation = Failing(5)
        assert (operation.state, operation.error) == ("pending", None)
        purgatory.try_complete_else_watch(operation, ["a"])
        assert operation.cancel()
        assert (operation.state, operation.is_cancelled) == ("cancelled", True)
        purgatory.try_complete_else_watch(operation, ["a"])
        assert (operation.state, operation.is_cancelled) == ("pending", False)
        clock.advance(5)
        assert operation.state == "expired"
        assert isinstance(operation.error, ValueError)
    done = DelayedOperation(5)
    done.force_complete()
    assert (done.state, done.is_cancelled, done.error) == ("completed", False, None)


def test_what_an_operation_tells_of_itself_is_documented_on_its_class() -> None:
    for name, beginning in (
        ("state", "Where the operation stands"),
        ("error", "What a callback of the operation raised"),
        ("is_cancelled", "Whether the operation was cancelled"),
    ):
        assert getattr(DelayedOperation, name).__doc__.startswith(beginning)


def test_a_subclass_may_use_the_names_of_what_is_shown() -> None:
    class Order(DelayedOperation):
        def __init__(self) -> None:
            super().__init__(5)
            self.state = "paid"
            self.error = 7

    order = Order()
    assert order.force_complete()
    assert (order.state, order.error, order.is_completed) == ("paid", 7, True)


def test_one_can_see_who_waits_by_key_or_all(clock: ManualClock) -> None:
    with Purgatory(clock=clock) as purgatory:
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
    clock: ManualClock,
) -> None:
    [level] = Purgatory(clock=clock).timer.snapshot().levels
    assert (level.tick_ms, level.interval_ms) == (1, 20)


def test_tick_size_and_executor_go_to_the_purgatorys_own_timer(clock: ManualClock) -> None:
    with ThreadPoolExecutor(1) as executor:
        purgatory = Purgatory(clock=clock, tick_ms=10, wheel_size=5, executor=executor)
        assert purgatory.timer.snapshot().levels[0].tick_ms == 10
        assert purgatory.timer.snapshot().levels[0].interval_ms == 50
        threads: Future[int] = Future()

        class Where(DelayedOperation):
            def on_expiration(self) -> None:
                threads.set_result(threading.get_ident())

        purgatory.try_complete_else_watch(Where(5), ["a"])
        clock.advance(10)
        assert threads.result(WAIT_S) != threading.get_ident()
        purgatory.close()
        with pytest.raises(WrongType, match="to the timer"):
            Purgatory(timer=purgatory.timer, tick_ms=5)


# Admission.


def test_beyond_max_waiting_a_submission_is_refused_and_nothing_is_half_done(
    clock: ManualClock,
) -> None:
    with Purgatory(clock=clock, max_waiting=2) as purgatory:
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


def test_max_waiting_is_exact_whatever_the_way_out(clock: ManualClock) -> None:
    ways_out: list[Callable[[Purgatory], object]] = [
        _complete_at_once,
        _complete_in_its_first_try,
        _complete_by_signals,
        _expire,
        _cancel_and_complete,
    ]
    with Purgatory(clock=clock, max_waiting=2) as purgatory:
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


# The audit.


def test_the_audit_completes_what_nobody_signalled_and_names_the_keys(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with Purgatory(clock=clock, audit_every_ms=10) as purgatory:
        forgotten, waits = Flagged(), Flagged()
        purgatory.try_complete_else_watch(forgotten, ["order-7", ("region", 2)])
        purgatory.try_complete_else_watch(waits, ["order-8"])
        forgotten.flag = True
        clock.advance(9)
        assert forgotten.state == "pending"
        with caplog.at_level(logging.WARNING, "sojourn"):
            clock.advance(1)
        assert (forgotten.state, waits.state) == ("completed", "pending")
        assert "order-7" in caplog.text
        assert "('region', 2)" in caplog.text
        assert "order-8" not in caplog.text
        assert purgatory.metrics().missed_signals == 1
        assert purgatory.check_and_complete("order-8") == 0
        clock.advance(80)
        assert purgatory.metrics().missed_signals == 1


def test_an_audit_looks_at_a_bounded_sample_and_goes_on_where_it_ended(
    clock: ManualClock,
) -> None:
    looked_at: list[int] = []

    class Numbered(DelayedOperation):
        def __init__(self, number: int) -> None:
            super().__init__(1_000)
            self.number = number

        def try_complete(self) -> bool:
            looked_at.append(self.number)
            return False

    with Purgatory(clock=clock) as purgatory:
        for number in range(50):
            purgatory.try_complete_else_watch(Numbered(number), ["a", number])
        looked_at.clear()
        for _ in range(20):
            before = len(looked_at)
            assert purgatory.audit(10) == 0
            assert len(looked_at) - before <= 10
        assert set(looked_at) == set(range(50))


def test_an_audit_looks_at_a_hundred_operations_unless_told_otherwise(clock: ManualClock) -> None:
    looked_at: list[DelayedOperation] = []

    class Seen(DelayedOperation):
        def try_complete(self) -> bool:
            looked_at.append(self)
            return False

    with Purgatory(clock=clock, audit_every_ms=1_000) as purgatory:
        for _ in range(250):
            purgatory.try_complete_else_watch(Seen(10_000), ["a"])
        for look in (lambda: clock.advance(1_000), purgatory.audit):
            looked_at.clear()
            look()
            assert len(looked_at) == len(set(looked_at)) == 100


def test_what_expires_with_its_condition_true_is_counted_apart(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    class Told(Flagged):
        def on_complete(self) -> None:
            ended.append(self.state)

    with Purgatory(clock=clock, audit_every_ms=1_000) as purgatory:
        forgotten, other = Told(5), Told(5)
        purgatory.try_complete_else_watch(forgotten, ["order-7"])
        purgatory.try_complete_else_watch(other, ["order-8"])
        forgotten.flag = True
        clock.advance(5)
        assert ended == ["expired", "expired"]
        counts = purgatory.metrics()
        assert (counts.expired, counts.expired_holding, counts.missed_signals) == (2, 1, 0)
        assert "order-7" in caplog.text
        assert "order-8" not in caplog.text


def test_a_condition_holds_at_the_deadline_if_it_says_so_or_would_complete(
    clock: ManualClock,
) -> None:
    completes: list[bool] = []

    class SaysSo(Flagged):
        def try_complete(self) -> bool:
            return self.flag

    class Completes(Flagged):
        def try_complete(self) -> bool:
            if self.flag:
                completes.append(self.force_complete())
                self.force_complete()  # once more ends it no more than the first did
            return False

    for kind in (SaysSo, Completes):
        with Purgatory(clock=clock, audit_every_ms=1_000) as purgatory:
            operation = kind(5)
            purgatory.try_complete_else_watch(operation, ["a"])
            operation.flag = True
            clock.advance(5)
            counts = purgatory.metrics()
            assert (counts.expired, counts.expired_holding, counts.completed) == (1, 1, 0)
    assert completes == [True]


class Fickle(Flagged):
    """Can be told to cancel itself when it is looked at."""

    cancels = False

    def try_complete(self) -> bool:
        if self.cancels:
            self.cancel()
        return super().try_complete()


def test_what_is_cancelled_as_its_deadline_is_looked_at_may_be_submitted_again(
    clock: ManualClock,
) -> None:
    with Purgatory(clock=clock, audit_every_ms=1_000) as purgatory:
        operation = Fickle(5)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.cancels = True
        clock.advance(5)
        assert operation.state == "cancelled"
        operation.cancels = False
        assert not purgatory.try_complete_else_watch(operation, ["a"])
        operation.flag = True
        with ThreadPoolExecutor(1) as another:  # no lock of ours is still held here
            assert another.submit(purgatory.check_and_complete, "a").result(WAIT_S) == 1
        assert operation.state == "completed"


def test_what_held_at_an_earlier_deadline_counts_for_nothing_when_it_is_submitted_again(
    clock: ManualClock,
) -> None:
    def held_at_a_deadline(purgatory: Purgatory) -> Fickle:
        operation = Fickle(5)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.flag = operation.cancels = True
        clock.advance(5)
        assert operation.is_cancelled
        operation.flag = operation.cancels = False
        return operation

    with Purgatory(clock=clock, audit_every_ms=1_000) as purgatory:
        operation = held_at_a_deadline(purgatory)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.flag = True
        assert purgatory.check_and_complete("a") == 1
        assert operation.state == "completed"
        operation = held_at_a_deadline(purgatory)
        purgatory.try_complete_else_watch(operation, requires=[("a", 1)])
        clock.advance(5)
        assert operation.state == "expired"
        assert purgatory.metrics().expired_holding == 0


@pytest.mark.parametrize("holds", [True, False])
def test_an_operation_whose_time_runs_out_while_it_is_tried_expires(
    clock: ManualClock, holds: bool
) -> None:
    class Late(Flagged):
        def try_complete(self) -> bool:
            if self.flag and clock.now_ms == 0:
                clock.advance(5)  # its deadline comes while it is being tried
            return self.flag and holds

    with Purgatory(clock=clock, audit_every_ms=1_000) as purgatory:
        operation = Late(5)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.flag = True
        assert purgatory.check_and_complete("a") == 0
        assert operation.state == "expired"
        assert purgatory.metrics().expired_holding == holds


def test_an_audit_passes_over_an_operation_that_has_moved_to_another_purgatory(
    clock: ManualClock,
) -> None:
    class Moves(Flagged):
        moved: Flagged | None = None

        def try_complete(self) -> bool:
            if self.moved is not None:
                assert self.moved.cancel()
                for n in range(20):
                    another.try_complete_else_watch(Flagged(), [n])
                another.try_complete_else_watch(self.moved, ["b"])
                self.moved = None
            return False

    with Purgatory(clock=clock) as purgatory, Purgatory(clock=clock) as another:
        first, second = Moves(), Flagged()
        purgatory.try_complete_else_watch(first, ["a"])
        purgatory.try_complete_else_watch(second, ["a"])
        first.moved, second.flag = second, False
        assert purgatory.audit() == 0
        assert another.waiting("b") == [second]


def test_a_condition_that_raises_at_the_deadline_is_an_error_and_does_not_hold(
    clock: ManualClock,
) -> None:
    class Broken(Flagged):
        def try_complete(self) -> bool:
            if self.flag:
                raise ValueError("on purpose")
            return False

    with Purgatory(clock=clock, audit_every_ms=1_000) as purgatory:
        operation = Broken(5)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.flag = True
        clock.advance(5)
        counts = purgatory.metrics()
        assert (counts.expired, counts.expired_holding, counts.errors) == (1, 0, 1)
        assert isinstance(operation.error, ValueError)


def test_what_another_thread_is_trying_at_the_deadline_is_not_looked_at(
    clock: ManualClock,
) -> None:
    inside, leave = threading.Event(), threading.Event()

    class Slow(Flagged):
        def try_complete(self) -> bool:
            if self.flag:
                inside.set()
                assert leave.wait(WAIT_S)
            return False

    with Purgatory(clock=clock, audit_every_ms=1_000) as purgatory:
        operation = Slow(5)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.flag = True
        trying = threading.Thread(target=purgatory.check_and_complete, args=["a"])
        trying.start()
        assert inside.wait(WAIT_S)
        clock.advance(5)
        leave.set()
        trying.join(WAIT_S)
        counts = purgatory.metrics()
        assert (counts.expired, counts.expired_holding, counts.completed) == (1, 0, 0)


def test_without_an_audit_nothing_is_tried_at_the_deadline(clock: ManualClock) -> None:
    with Purgatory(clock=clock) as purgatory:
        operation = Flagged(5)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.flag = True
        clock.advance(5)
        assert operation.state == "expired"
        assert purgatory.metrics().expired_holding == 0


# Waiting in this thread.


def test_wait_returns_what_the_predicate_returned() -> None:
    with Purgatory() as purgatory:
        responses: dict[str, str] = {}

        def answer() -> None:
            responses["r1"] = "forty-two"
            purgatory.check_and_complete("r1")

        threading.Timer(0.01, answer).start()
        assert purgatory.wait(lambda: responses.get("r1"), ["r1"], 60_000) == "forty-two"
        assert purgatory.wait(lambda: responses.get("r2"), ["r2"], 1) is False
        assert purgatory.wait(lambda: responses.get("r1"), ["r1"]) == "forty-two"
        assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_wait_for_progress() -> None:
    with Purgatory() as purgatory:
        threading.Timer(0.01, purgatory.signal, ("p", 7)).start()
        assert purgatory.wait(requires=[("p", 5)], timeout_ms=60_000) is True
        assert purgatory.wait(requires=[("p", 8)], timeout_ms=1) is False


def _cancel_its_key(purgatory: Purgatory) -> None:
    purgatory.cancel_for_key("a")


def _cancel_itself(purgatory: Purgatory) -> None:
    purgatory.waiting("a")[0].cancel()


@pytest.mark.parametrize(
    ("end", "error"),
    [(_cancel_its_key, Cancelled), (_cancel_itself, Cancelled), (Purgatory.close, Closed)],
)
def test_a_wait_is_told_when_it_is_cancelled_or_the_purgatory_closed(
    end: Callable[[Purgatory], object], error: type[Exception]
) -> None:
    with Purgatory() as purgatory, ThreadPoolExecutor(1) as executor:
        raised = executor.submit(purgatory.wait, lambda: False, ["a"], 60_000)
        while not purgatory.delayed:
            pass
        end(purgatory)
        assert isinstance(raised.exception(WAIT_S), error)


def test_an_async_predicate_is_refused_and_not_taken_for_true() -> None:
    async def predicate() -> bool:
        return False

    with Purgatory() as purgatory, pytest.raises(WrongType, match="plain function"):
        purgatory.wait(predicate, ["a"], 10)


def test_bad_calls_of_wait_say_what_to_give() -> None:
    with Purgatory() as purgatory:
        with pytest.raises(WrongType, match="a predicate and keys, or requires"):
            purgatory.wait()
        with pytest.raises(WrongType, match="a predicate and keys, or requires"):
            purgatory.wait(lambda: True, ["a"], requires=[("a", 1)])
        with pytest.raises(WrongType, match="predicate must be callable"):
            purgatory.wait(5, ["a"])  # type: ignore[arg-type]


# Trust.


@pytest.mark.parametrize("how", ["keys", "requires"])
def test_a_purgatory_dropped_while_something_waits_is_collected(
    how: str, clock: ManualClock
) -> None:
    purgatory = Purgatory(clock=clock)
    operation = DelayedOperation(1_000)
    what: dict[str, Any] = {"keys": ["a"]} if how == "keys" else {"requires": [("a", 1)]}
    future = purgatory.submit(operation, **what)
    gone = weakref.ref(purgatory)
    timer = weakref.ref(purgatory.timer)
    del purgatory
    gc.collect()
    assert gone() is None
    gc.collect()
    assert timer() is None
    assert future.cancelled()
    assert operation.is_cancelled
    clock.advance(2_000)
    assert operation.is_cancelled
    with Purgatory(clock=clock) as another:
        another.try_complete_else_watch(operation, ["a"])
        clock.advance(1_000)
    assert operation.is_expired


def test_a_purgatory_on_the_system_clock_lives_until_what_waits_there_has_ended() -> None:
    purgatory = Purgatory()
    gone = weakref.ref(purgatory)
    operation = DelayedOperation(60_000)
    purgatory.try_complete_else_watch(operation, ["a"])
    del purgatory
    gc.collect()
    assert gone() is not None
    assert operation.force_complete()
    gc.collect()
    assert gone() is None


class LoudKey:
    """A key whose finaliser calls back."""

    def __init__(self, then: Any) -> None:
        self.then = then

    def __del__(self) -> None:
        self.then()


@pytest.mark.parametrize("how", ["keys", "requires"])
def test_a_keys_finaliser_may_use_the_purgatory(how: str, clock: ManualClock) -> None:
    with Purgatory(clock=clock) as purgatory:
        other = DelayedOperation(1_000)
        purgatory.try_complete_else_watch(other, ["other"])
        calls: list[int] = []

        def then() -> None:
            calls.append(purgatory.check_and_complete("other"))
            purgatory.try_complete_else_watch(DelayedOperation(5), ["other"])

        for end in ("force_complete", "cancel", "expire"):
            operation = DelayedOperation(5)
            key = LoudKey(then)
            if how == "keys":
                purgatory.try_complete_else_watch(operation, [key])
            else:
                purgatory.try_complete_else_watch(operation, requires=[(key, 1)])
            del key
            if end == "expire":
                clock.advance(5)
            else:
                getattr(operation, end)()
        assert calls == [0, 0, 0]
        clock.advance(5)
        assert (purgatory.watched, purgatory.delayed) == (1, 1)


@pytest.mark.skipif(compiled, reason="compiled, there is no line between two steps to stop at")
def test_a_stale_expiry_never_ends_an_operation_that_was_submitted_again(
    clock: ManualClock,
) -> None:
    for point in range(10_000):
        purgatory = Purgatory(clock=clock)
        operation = _Held(10)
        purgatory.try_complete_else_watch(operation, ["a"])
        clock.advance(10)  # taken off the timer, and held up just before it expires
        assert operation.held == 1
        operation.cancel()
        expiry = threading.Thread(target=DelayedOperation.run, args=(operation,))
        with _AtLine(point, expiry):
            purgatory.try_complete_else_watch(operation, ["a"])
        started = expiry.ident is not None
        if started:
            expiry.join(WAIT_S)
        assert operation.state == "pending", f"expired at line event {point}"
        purgatory.close()
        if not started:  # past the last line
            assert point > 50
            return


class _Held(DelayedOperation):
    held = 0

    def run(self) -> None:
        self.held += 1


class _AtLine:
    """Starts a thread at the n-th line of ours that this one comes to, and lets it run a little."""

    def __init__(self, number: int, thread: threading.Thread) -> None:
        self.left = number
        self.thread = thread

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self.trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def trace(self, frame: Any, event: str, arg: object) -> Any:
        if event == "line" and "sojourn" in frame.f_code.co_filename:
            if self.left == 0:
                self.thread.start()
                self.thread.join(0.002)
            self.left -= 1
        return self.trace
