"""What has ended is let go of: no list, thread, frame or future keeps it or its keys alive."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import Future
from typing import Any

import pytest

import sojourn
from sojourn import DelayedOperation, ManualClock, Purgatory, Timer
from tests.core.flagged import Flagged

WAIT_S = 30.0
WAYS = ["completed", "signalled", "expired", "cancelled", "cancelled by key", "closed"]


class Key:
    """A key that can be seen to die."""


# A log record that a test keeps would keep a traceback, its frames, and the operation.
pytestmark = pytest.mark.usefixtures("quiet_log")


def _end(way: str, operation: Flagged, key: Key, purgatory: Purgatory, clock: ManualClock) -> None:
    if way == "completed":
        assert operation.force_complete()
    elif way == "signalled":
        operation.flag = True
        assert purgatory.check_and_complete(key) == 1
    elif way == "expired":
        clock.advance(10)
    elif way == "cancelled":
        assert operation.cancel()
    elif way == "cancelled by key":
        assert purgatory.cancel_for_key(key) == [operation]
    else:
        assert purgatory.close() == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_operation_and_its_keys_are_let_go_when_it_ends(way: str) -> None:
    """At once, by reference counting alone: nothing waits for the garbage collector."""
    clock = ManualClock()
    timer = Timer(clock)
    purgatory = Purgatory(timer=timer)
    operation, first, second = Flagged(10), Key(), Key()
    gone: list[weakref.ref[Any]] = [weakref.ref(operation), weakref.ref(first), weakref.ref(second)]
    purgatory.try_complete_else_watch(operation, [first, second])
    gc.disable()
    try:
        _end(way, operation, first, purgatory, clock)
        del operation, first, second
        assert [reference() for reference in gone] == [None, None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("way", WAYS)
def test_a_key_is_let_go_though_its_operation_is_kept(way: str) -> None:
    clock = ManualClock()
    purgatory = Purgatory(timer=Timer(clock))
    operation, key = Flagged(10), Key()
    gone = weakref.ref(key)
    purgatory.try_complete_else_watch(operation, [key])
    _end(way, operation, key, purgatory, clock)
    del key
    assert gone() is None
    assert operation is not None


@pytest.mark.parametrize("way", WAYS)
def test_a_future_that_is_kept_does_not_keep_its_operation(way: str) -> None:
    clock = ManualClock()
    purgatory = Purgatory(timer=Timer(clock))
    operation, key = Flagged(10), Key()
    future = purgatory.submit(operation, [key])
    gone: list[weakref.ref[Any]] = [weakref.ref(operation), weakref.ref(key)]
    _end(way, operation, key, purgatory, clock)
    del operation, key
    assert future.done()
    assert [reference() for reference in gone] == [None, None]


@pytest.mark.parametrize("way", WAYS)
def test_an_operation_that_is_kept_does_not_keep_its_future(way: str) -> None:
    clock = ManualClock()
    purgatory = Purgatory(timer=Timer(clock))
    operation, key = Flagged(10), Key()
    future = purgatory.submit(operation, [key])
    gone = weakref.ref(future)
    _end(way, operation, key, purgatory, clock)
    del future
    assert gone() is None
    assert operation is not None


def test_a_future_that_waits_does_not_keep_an_operation_that_the_purgatory_let_go() -> None:
    purgatory = Purgatory(clock=ManualClock())
    operation = Flagged(10)
    mine: Future[bool] = Future()
    purgatory.submit_into(mine, operation, ["a"])
    gone = weakref.ref(operation)
    operation.cancel()
    del operation
    assert gone() is None
    assert mine.cancelled()


@pytest.mark.parametrize("where", ["try_complete", "on_complete", "on_expiration"])
@pytest.mark.parametrize("with_future", [False, True])
def test_an_operation_that_raised_is_let_go(where: str, with_future: bool) -> None:
    """The error holds the traceback, that the frame, that the operation: a circle at most."""

    class Raises(Flagged):
        def try_complete(self) -> bool:
            self._maybe("try_complete")
            return super().try_complete()

        def on_complete(self) -> None:
            self._maybe("on_complete")

        def on_expiration(self) -> None:
            self._maybe("on_expiration")

        def _maybe(self, here: str) -> None:
            if self.flag and here == where:
                raise ValueError("its own")

    clock = ManualClock()
    purgatory = Purgatory(timer=Timer(clock))
    operation, key = Raises(10), Key()
    future = purgatory.submit(operation, [key]) if with_future else None
    if not with_future:
        purgatory.try_complete_else_watch(operation, [key])
    operation.flag = True
    if where == "on_expiration":
        clock.advance(10)
    else:
        purgatory.check_and_complete(key)
    assert operation.is_completed
    gone: list[weakref.ref[Any]] = [weakref.ref(operation), weakref.ref(key)]
    del operation, key, future
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_an_operation_in_a_circle_with_its_own_lock_and_itself_is_collected() -> None:
    class Lock:
        operation: DelayedOperation

        def acquire(self) -> None: ...

        def release(self) -> None: ...

    purgatory = Purgatory(clock=ManualClock())
    lock = Lock()
    operation = Flagged(10)
    held = DelayedOperation(10, lock)
    lock.operation = held
    operation.itself = operation  # type: ignore[attr-defined]
    for one in (operation, held):
        purgatory.try_complete_else_watch(one, ["a", one])
        one.force_complete()
    gone: list[weakref.ref[Any]] = [weakref.ref(operation), weakref.ref(held), weakref.ref(lock)]
    del operation, held, lock, one
    gc.collect()
    assert [reference() for reference in gone] == [None, None, None]


def test_a_refused_operation_is_let_go() -> None:
    purgatory = Purgatory(clock=ManualClock())
    operation = Flagged(10)
    gone = weakref.ref(operation)
    with pytest.raises(TypeError):
        purgatory.try_complete_else_watch(operation, ["a", []])  # type: ignore[list-item]
    purgatory.close()
    with pytest.raises(RuntimeError):
        purgatory.submit(operation, ["a"])
    del operation
    gc.collect()
    assert gone() is None


def test_a_purgatory_that_is_let_go_takes_what_waited_with_it() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    purgatory = Purgatory(timer=timer)
    operation, key = Flagged(10), Key()
    purgatory.try_complete_else_watch(operation, [key])
    purgatory.close()
    gone: list[weakref.ref[Any]] = [
        weakref.ref(purgatory),
        weakref.ref(operation),
        weakref.ref(key),
    ]
    del purgatory, operation, key
    gc.collect()
    assert [reference() for reference in gone] == [None, None, None]
    assert len(timer) == 0


@pytest.mark.parametrize("way", ["completed", "expired", "cancelled", "raised"])
def test_the_background_threads_keep_nothing_in_their_frames(way: str) -> None:
    """The threads stay, asleep; what they ran last must not stay with them."""

    class Raises(Flagged):
        def on_complete(self) -> None:
            raise ValueError("its own")

    with Purgatory() as purgatory:
        operation, key = (Raises(1) if way == "raised" else Flagged(1)), Key()
        if way in ("completed", "cancelled"):
            operation = Flagged(60_000)
        future = purgatory.submit(operation, [key])
        if way == "completed":
            operation.force_complete()
        elif way == "cancelled":
            operation.cancel()
        else:
            future.exception(timeout=WAIT_S)
        dead = threading.Event()
        gone: list[weakref.ref[Any]] = [
            weakref.ref(operation, lambda _: dead.set()),
            weakref.ref(key),
        ]
        del operation, key, future
        gc.collect()
        # The thread that ran it may be on its last lines yet.
        assert dead.wait(WAIT_S if gone[0]() is not None else 0), "a sleeping thread keeps it"
        gc.collect()
        assert [reference() for reference in gone] == [None, None]


def test_ten_thousand_operations_leave_no_objects_behind() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    purgatory = Purgatory(timer=timer)
    ours = ("sojourn.", __name__, "concurrent.futures")
    grows = ("TimerTaskList", "memoryview")  # as far as the wheel has slots

    def cycle(number: int) -> None:
        for one in range(number):
            operation, key = Flagged(10 + one % 500), Key()
            if one % 2:
                purgatory.submit(operation, [key, "shared", one % 7])
            else:
                purgatory.try_complete_else_watch(operation, [key, "shared", one % 7])
            match one % 5:
                case 0:
                    operation.force_complete()
                case 1:
                    operation.cancel()
                case 2:
                    operation.flag = True
                    purgatory.check_and_complete(key)
                case 3:
                    purgatory.cancel_for_key(key)
        clock.advance(1000)

    def alive() -> dict[str, int]:
        gc.collect()
        found: dict[str, int] = {}
        for thing in gc.get_objects():
            kind = type(thing)
            if str(kind.__module__).startswith(ours) and kind.__name__ not in grows:
                found[kind.__qualname__] = found.get(kind.__qualname__, 0) + 1
        return found

    cycle(100)
    before = alive()
    cycle(10_000)
    assert alive() == before
    assert (purgatory.watched, purgatory.delayed, len(timer)) == (0, 0, 0)


@pytest.mark.skipif(not sojourn.compiled, reason="interpreted, the collector sees every object")
@pytest.mark.parametrize("end", ["complete", "expire", "cancel"])
def test_the_collector_passes_over_an_operation_only_while_it_waits(
    manual_clock: ManualClock, end: str
) -> None:
    purgatory = Purgatory(clock=manual_clock)
    operation = DelayedOperation(10)
    for _ in range(2 if end == "cancel" else 1):
        assert gc.is_tracked(operation)
        purgatory.try_complete_else_watch(operation, ["a"])
        assert not gc.is_tracked(operation)
        gc.collect()
        if end == "complete":
            operation.force_complete()
        elif end == "expire":
            manual_clock.advance(10)
        else:
            operation.cancel()
    assert gc.is_tracked(operation)
    gc.collect()


def test_a_key_given_twice_leaves_nothing_behind(manual_clock: ManualClock) -> None:
    class Named(DelayedOperation):
        pass

    purgatory = Purgatory(clock=manual_clock)
    operation = Named(10)
    gone = weakref.ref(operation)
    purgatory.try_complete_else_watch(operation, ["a", "a", ("b",), ("b",)])
    assert purgatory.watched == 2
    operation.force_complete()
    del operation
    assert gone() is None
