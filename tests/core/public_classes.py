"""Every public class, and a good use of everything that it has; misuse.py uses them wrongly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from sojourn import (
    DeadlineWheel,
    DelayedFuture,
    DelayedOperation,
    ManualClock,
    Purgatory,
    Timer,
    TimerTask,
    TimingWheel,
    aio,
)

Call = Callable[[Any], object]


class Subject(NamedTuple):
    """A class, how to make a good object of it, and everything one can do with the object."""

    name: str
    cls: type
    make: Callable[[], Any]
    arguments: dict[str, tuple[Callable[[Any], object], ...]]  # of __init__: calls with a bad one
    calls: dict[str, Call]  # every public method and attribute, used well
    with_bad: dict[str, Callable[[Any, Any], object]]  # calls of which one argument is bad


def never() -> bool:
    return False


TASK_CALLS: dict[str, Call] = {
    "run()": lambda task: task.run(),
    "cancel()": lambda task: task.cancel(),
    "delay_ms": lambda task: task.delay_ms,
    "delay_ms = 5": lambda task: setattr(task, "delay_ms", 5),
    "expiration_ms": lambda task: task.expiration_ms,
    "Timer.add": lambda task: Timer(ManualClock()).add(task),
    "TimingWheel.add": lambda task: TimingWheel().add(task, 5),
}
OPERATION_CALLS: dict[str, Call] = TASK_CALLS | {
    "timeout_ms": lambda operation: operation.timeout_ms,
    "timeout_ms = 5": lambda operation: setattr(operation, "timeout_ms", 5),
    "is_completed": lambda operation: operation.is_completed,
    "is_expired": lambda operation: operation.is_expired,
    "is_cancelled": lambda operation: operation.is_cancelled,
    "state": lambda operation: operation.state,
    "error": lambda operation: operation.error,
    "force_complete()": lambda operation: operation.force_complete(),
    "safe_try_complete()": lambda operation: operation.safe_try_complete(),
    "safe_try_complete_or_else()": lambda operation: operation.safe_try_complete_or_else(never),
    "try_complete()": lambda operation: operation.try_complete(),
    "on_complete()": lambda operation: operation.on_complete(),
    "on_expiration()": lambda operation: operation.on_expiration(),
    "try_complete_else_watch": lambda operation: a_purgatory().try_complete_else_watch(
        operation, ["key"]
    ),
    "try_complete_else_watch for progress": lambda operation: a_purgatory().try_complete_else_watch(
        operation, requires=[("key", 1)]
    ),
    "submit": lambda operation: a_purgatory().submit(operation, ["key"]),
    "submit_into": lambda operation: a_purgatory().submit_into(Future(), operation, ["key"]),
    "submit_many": lambda operation: a_purgatory().submit_many([(operation, [("key", 1)])]),
}
TIMER_CALLS: dict[str, Call] = {
    "name": lambda timer: timer.name,
    "clock": lambda timer: timer.clock,
    "errors": lambda timer: timer.errors,
    "expired_buckets": lambda timer: timer.expired_buckets,
    "add()": lambda timer: timer.add(TimerTask(5, never)),
    "call_later()": lambda timer: timer.call_later(5, never),
    "advance_clock()": lambda timer: timer.advance_clock(0),
    "snapshot()": lambda timer: timer.snapshot().waiting,
    "turn()": lambda timer: timer.turn(),
    "has_ready()": lambda timer: timer.has_ready(),
    "run_ready()": lambda timer: timer.run_ready(),
    "next_ms()": lambda timer: timer.next_ms(),
    "len": len,
    "with": lambda timer: timer.__enter__(),
    "Purgatory(timer=)": lambda timer: Purgatory(timer=timer),
    "close()": lambda timer: timer.close(),
    "end of with": lambda timer: timer.__exit__(None, None, None),
}
PURGATORY_CALLS: dict[str, Call] = {
    "name": lambda purgatory: purgatory.name,
    "timer": lambda purgatory: isinstance(purgatory.timer, Timer),
    "watched": lambda purgatory: purgatory.watched,
    "delayed": lambda purgatory: purgatory.delayed,
    "try_complete_else_watch()": lambda purgatory: purgatory.try_complete_else_watch(
        DelayedOperation(5), ["key"]
    ),
    "try_complete_else_watch() for progress": lambda purgatory: purgatory.try_complete_else_watch(
        DelayedOperation(5), requires=[("key", 1)]
    ),
    "submit()": lambda purgatory: purgatory.submit(DelayedOperation(5), ["key"]).done(),
    "submit_into()": lambda purgatory: purgatory.submit_into(
        Future(), DelayedOperation(5), ["key"]
    ),
    "submit_many()": lambda purgatory: purgatory.submit_many([(DelayedOperation(5), [("key", 1)])]),
    "wait()": lambda purgatory: purgatory.wait(lambda: True, ["key"], 5),
    "check_and_complete()": lambda purgatory: purgatory.check_and_complete("key"),
    "signal()": lambda purgatory: purgatory.signal("key", 1),
    "signal_many()": lambda purgatory: purgatory.signal_many([("key", 1)]),
    "progress()": lambda purgatory: purgatory.progress("key"),
    "waiting()": lambda purgatory: len(purgatory.waiting()),
    "waiting(key)": lambda purgatory: len(purgatory.waiting("key")),
    "cancel_for_key()": lambda purgatory: len(purgatory.cancel_for_key("key")),
    "audit()": lambda purgatory: purgatory.audit(),
    "metrics()": lambda purgatory: purgatory.metrics().watched,
    "with": lambda purgatory: purgatory.__enter__(),
    "watch_in": lambda purgatory: DelayedFuture([Future()], 5).watch_in(purgatory),
    "close()": lambda purgatory: purgatory.close(),
    "end of with": lambda purgatory: purgatory.__exit__(None, None, None),
}


def a_purgatory() -> Purgatory:
    return Purgatory(clock=ManualClock())


def shape_of(cls: type) -> dict[str, tuple[Callable[[Any], object], ...]]:
    return {
        "tick_ms": (lambda bad: cls(tick_ms=bad),),
        "wheel_size": (lambda bad: cls(wheel_size=bad),),
        "start_ms": (lambda bad: cls(start_ms=bad),),
    }


def with_requires(purgatory: Any, requires: Any, needed: Any = None) -> object:
    operation = DelayedOperation(5)
    return purgatory.try_complete_else_watch(operation, requires=requires, needed=needed)


PURGATORY_BAD: dict[str, Callable[[Any, Any], object]] = {
    "try_complete_else_watch(operation)": lambda purgatory, bad: purgatory.try_complete_else_watch(
        bad, ["key"]
    ),
    "try_complete_else_watch(keys)": lambda purgatory, bad: purgatory.try_complete_else_watch(
        DelayedOperation(5), bad
    ),
    "try_complete_else_watch([key])": lambda purgatory, bad: purgatory.try_complete_else_watch(
        DelayedOperation(5), [bad]
    ),
    "requires": with_requires,
    "[requirement]": lambda purgatory, bad: with_requires(purgatory, [bad]),
    "[(key, 1)]": lambda purgatory, bad: with_requires(purgatory, [(bad, 1)]),
    "[('key', offset)]": lambda purgatory, bad: with_requires(purgatory, [("key", bad)]),
    "needed": lambda purgatory, bad: with_requires(purgatory, [("key", 1)], bad),
    "submit(operation)": lambda purgatory, bad: purgatory.submit(bad, ["key"]),
    "submit(keys)": lambda purgatory, bad: purgatory.submit(DelayedOperation(5), bad).done(),
    "submit_into(operation)": lambda purgatory, bad: purgatory.submit_into(Future(), bad, ["key"]),
    "submit_many(rows)": lambda purgatory, bad: purgatory.submit_many(bad),
    "submit_many([row])": lambda purgatory, bad: purgatory.submit_many([bad]),
    "submit_many([(operation, requires)])": lambda purgatory, bad: purgatory.submit_many(
        [(bad, [("key", 1)])]
    ),
    "wait(predicate)": lambda purgatory, bad: purgatory.wait(bad, ["key"], 0),
    "wait(keys)": lambda purgatory, bad: purgatory.wait(lambda: True, bad, 0),
    "wait(timeout_ms)": lambda purgatory, bad: purgatory.wait(lambda: 1, ["key"], bad),
    "check_and_complete(key)": lambda purgatory, bad: purgatory.check_and_complete(bad),
    "signal(key)": lambda purgatory, bad: purgatory.signal(bad, 1),
    "signal(offset)": lambda purgatory, bad: purgatory.signal("key", bad),
    "signal_many(signals)": lambda purgatory, bad: purgatory.signal_many(bad),
    "signal_many([signal])": lambda purgatory, bad: purgatory.signal_many([bad]),
    "progress(key)": lambda purgatory, bad: purgatory.progress(bad),
    "waiting(key)": lambda purgatory, bad: purgatory.waiting(bad),
    "cancel_for_key(key)": lambda purgatory, bad: purgatory.cancel_for_key(bad),
    "audit(sample)": lambda purgatory, bad: purgatory.audit(bad),
}

SUBJECTS = (
    Subject(
        "TimerTask",
        TimerTask,
        lambda: TimerTask(5, never),
        {
            "delay_ms": (lambda bad: TimerTask(bad),),
            "run": (lambda bad: TimerTask(5, bad),),
        },
        TASK_CALLS,
        {"delay_ms =": lambda task, bad: setattr(task, "delay_ms", bad)},
    ),
    Subject(
        "TimingWheel",
        TimingWheel,
        TimingWheel,
        shape_of(TimingWheel),
        {
            "add()": lambda wheel: wheel.add(TimerTask(5), 5),
            "advance()": lambda wheel: wheel.advance(5),
            "next_expiration_ms": lambda wheel: wheel.next_expiration_ms,
            "snapshot()": lambda wheel: wheel.snapshot().waiting,
            "clear()": lambda wheel: wheel.clear(),
            "len": len,
        },
        {
            "add(task)": lambda wheel, bad: wheel.add(bad, 5),
            "add(expiration_ms)": lambda wheel, bad: wheel.add(TimerTask(5), bad),
            "advance(now_ms)": lambda wheel, bad: wheel.advance(bad),
        },
    ),
    Subject(
        "DeadlineWheel",
        DeadlineWheel,
        DeadlineWheel,
        shape_of(DeadlineWheel),
        {
            "add_many()": lambda wheel: list(wheel.add_many([5])),
            "cancel_many()": lambda wheel: wheel.cancel_many([]),
            "cancel_many([0])": lambda wheel: wheel.cancel_many([0]),
            "advance()": lambda wheel: list(wheel.advance(5)),
            "next_expiration_ms": lambda wheel: wheel.next_expiration_ms,
            "levels()": lambda wheel: wheel.levels(),
            "len": len,
        },
        {
            "add_many(deadlines_ms)": lambda wheel, bad: list(wheel.add_many(bad)),
            "add_many([deadline])": lambda wheel, bad: list(wheel.add_many([bad])),
            "cancel_many(handles)": lambda wheel, bad: wheel.cancel_many(bad),
            "cancel_many([handle])": lambda wheel, bad: wheel.cancel_many([bad]),
            "advance(now_ms)": lambda wheel, bad: list(wheel.advance(bad)),
        },
    ),
    Subject(
        "ManualClock",
        ManualClock,
        ManualClock,
        {"start_ms": (lambda bad: ManualClock(bad),)},
        {
            "now_ms": lambda clock: clock.now_ms,
            "now_ns()": lambda clock: clock.now_ns(),
            "advance()": lambda clock: clock.advance(5),
            "drive()": lambda clock: clock.drive(Timer(ManualClock())) is not None,
            "Timer(clock)": lambda clock: Timer(clock),
        },
        {"advance(ms)": lambda clock, bad: clock.advance(bad)},
    ),
    Subject(
        "Timer",
        Timer,
        lambda: Timer(ManualClock()),
        {
            "clock": (lambda bad: Timer(bad).close(),),
            "tick_ms": (lambda bad: Timer(ManualClock(), tick_ms=bad),),
            "wheel_size": (lambda bad: Timer(ManualClock(), wheel_size=bad),),
            "executor": (lambda bad: Timer(ManualClock(), executor=bad),),
            "name": (lambda bad: Timer(ManualClock(), name=bad).close(),),
        },
        TIMER_CALLS,
        {
            "add(task)": lambda timer, bad: timer.add(bad),
            "call_later(delay_ms)": lambda timer, bad: timer.call_later(bad, never).delay_ms,
            "call_later(fn)": lambda timer, bad: timer.call_later(5, bad),
            "advance_clock(timeout_ms)": lambda timer, bad: timer.advance_clock(bad),
        },
    ),
    Subject(
        "DelayedOperation",
        DelayedOperation,
        lambda: DelayedOperation(5),
        {
            "timeout_ms": (lambda bad: DelayedOperation(bad),),
            "lock": (lambda bad: DelayedOperation(5, bad),),
        },
        OPERATION_CALLS,
        {
            "timeout_ms =": lambda operation, bad: setattr(operation, "timeout_ms", bad),
            "safe_try_complete_or_else(action)": lambda operation, bad: (
                operation.safe_try_complete_or_else(bad)
            ),
        },
    ),
    Subject(
        "DelayedFuture",
        DelayedFuture,
        lambda: DelayedFuture([Future()], 5),
        {
            "futures": (
                lambda bad: DelayedFuture(bad, 5),
                lambda bad: DelayedFuture([bad], 5),
            ),
            "timeout_ms": (lambda bad: DelayedFuture([Future()], bad),),
            "on_done": (lambda bad: DelayedFuture([Future()], 5, bad),),
            "cancel_late": (lambda bad: DelayedFuture([Future()], 5, cancel_late=bad),),
        },
        OPERATION_CALLS
        | {
            "futures": lambda operation: len(operation.futures),
            "late": lambda operation: operation.late,
            "watch_in()": lambda operation: operation.watch_in(a_purgatory()).done(),
        },
        {"watch_in(purgatory)": lambda operation, bad: operation.watch_in(bad)},
    ),
    Subject(
        "Purgatory",
        Purgatory,
        a_purgatory,
        {
            "name": (lambda bad: Purgatory(bad, clock=ManualClock()).close(),),
            "timer": (lambda bad: Purgatory(timer=bad, clock=ManualClock()).close(),),
            "clock": (lambda bad: Purgatory(clock=bad).close(),),
            "tick_ms": (lambda bad: Purgatory(clock=ManualClock(), tick_ms=bad),),
            "wheel_size": (lambda bad: Purgatory(clock=ManualClock(), wheel_size=bad),),
            "executor": (lambda bad: Purgatory(clock=ManualClock(), executor=bad),),
            "max_waiting": (lambda bad: Purgatory(clock=ManualClock(), max_waiting=bad),),
            "audit_every_ms": (lambda bad: Purgatory(clock=ManualClock(), audit_every_ms=bad),),
            "audit_sample": (
                lambda bad: Purgatory(clock=ManualClock(), audit_every_ms=5, audit_sample=bad),
            ),
            "forget_keys_after_ms": (
                lambda bad: Purgatory(clock=ManualClock(), forget_keys_after_ms=bad),
            ),
        },
        PURGATORY_CALLS,
        PURGATORY_BAD,
    ),
)


def started(wait: Any) -> object:
    """Run what can be awaited until it waits."""
    try:
        return wait.send(None) is not None
    except StopIteration as stop:
        return stop.value
    finally:
        wait.close()


AIO_TIMER_CALLS: dict[str, Call] = {
    "name": lambda timer: timer.name,
    "errors": lambda timer: timer.errors,
    "expired_buckets": lambda timer: timer.expired_buckets,
    "add()": lambda timer: timer.add(TimerTask(5, never)),
    "call_later()": lambda timer: timer.call_later(5, never),
    "snapshot()": lambda timer: timer.snapshot().waiting,
    "len": len,
    "with": lambda timer: timer.__enter__(),
    "async with": lambda timer: started(timer.__aenter__()) is not None,
    "aio.Purgatory(timer=)": lambda timer: aio.Purgatory(timer=timer),
    "close()": lambda timer: timer.close(),
    "end of with": lambda timer: timer.__exit__(None, None, None),
    "end of async with": lambda timer: started(timer.__aexit__(None, None, None)),
}
AIO_SUBJECTS = (
    Subject(
        "aio.Timer",
        aio.Timer,
        aio.Timer,
        {
            "tick_ms": (lambda bad: aio.Timer(tick_ms=bad),),
            "wheel_size": (lambda bad: aio.Timer(wheel_size=bad),),
            "name": (lambda bad: aio.Timer(name=bad).close(),),
        },
        AIO_TIMER_CALLS,
        {
            "add(task)": lambda timer, bad: timer.add(bad),
            "call_later(delay_seconds)": lambda timer, bad: timer.call_later(bad, never).delay_ms,
            "call_later(fn)": lambda timer, bad: timer.call_later(5, bad),
        },
    ),
    Subject(
        "aio.Purgatory",
        aio.Purgatory,
        aio.Purgatory,
        {
            "name": (lambda bad: aio.Purgatory(bad).close(),),
            "timer": (lambda bad: aio.Purgatory(timer=bad).close(),),
            "tick_ms": (lambda bad: aio.Purgatory(tick_ms=bad),),
            "wheel_size": (lambda bad: aio.Purgatory(wheel_size=bad),),
            "max_waiting": (lambda bad: aio.Purgatory(max_waiting=bad),),
            "audit_every_ms": (lambda bad: aio.Purgatory(audit_every_ms=bad),),
            "audit_sample": (lambda bad: aio.Purgatory(audit_every_ms=5, audit_sample=bad),),
            "forget_keys_after_ms": (lambda bad: aio.Purgatory(forget_keys_after_ms=bad),),
        },
        PURGATORY_CALLS
        | {
            "timer": lambda purgatory: isinstance(purgatory.timer, aio.Timer),
            "wait()": lambda purgatory: started(
                purgatory.wait(lambda: True, keys=["key"], timeout=5)
            ),
            "async with": lambda purgatory: started(purgatory.__aenter__()) is not None,
            "end of async with": lambda purgatory: started(purgatory.__aexit__(None, None, None)),
        },
        {name: call for name, call in PURGATORY_BAD.items() if not name.startswith("wait(")}
        | {
            "wait(predicate)": lambda purgatory, bad: started(
                purgatory.wait(bad, keys=["key"], timeout=5)
            ),
            "wait(keys)": lambda purgatory, bad: started(
                purgatory.wait(never, keys=bad, timeout=5)
            ),
            "wait(timeout)": lambda purgatory, bad: started(
                purgatory.wait(never, keys=["key"], timeout=bad)
            ),
            "wait(requires)": lambda purgatory, bad: started(
                purgatory.wait(requires=bad, timeout=5)
            ),
        },
    ),
)
