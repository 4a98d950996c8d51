"""The timer: a wheel, the time, and somebody to run what falls due.

    add --> wheel --(a bucket expires)--> ready list --> run, one after the other, in deadline order
              |                               |
              +------ cancel: leaves at once, from either ------> never run

The timer itself never waits. Its driver, which comes from its clock, turns it: `turn()` moves
what is due from the wheel to the ready list, `run_ready()` runs that list. So one timer serves
background threads (reaper.py), a clock moved by hand (clock.py) and an event loop (aio.py).
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from sojourn._guard import GUARD
from sojourn._log import log, shown

if cython.compiled:
    from cython.cimports.cpython.time import monotonic_ns
    from cython.cimports.sojourn.clock import Driven, ManualClock, SystemClock
    from cython.cimports.sojourn.millis import ceil_us, checked_ms, deadline_ms, floor_ms
    from cython.cimports.sojourn.task import (
        OVERRIDDEN,
        RELEASED,
        TimerTask,
        TimerTaskList,
        first,
        is_empty,
        link,
        new_task,
        pop,
        unlink,
    )
    from cython.cimports.sojourn.wheel import DUE, WAITING, TimingWheel
else:
    from time import monotonic_ns

    from sojourn.clock import Driven, ManualClock, SystemClock
    from sojourn.millis import ceil_us, checked_ms, deadline_ms, floor_ms
    from sojourn.task import (
        OVERRIDDEN,
        RELEASED,
        TimerTask,
        TimerTaskList,
        first,
        is_empty,
        link,
        new_task,
        pop,
        unlink,
    )
    from sojourn.wheel import DUE, WAITING, TimingWheel

from sojourn.errors import Closed, TaskReleased, WrongType
from sojourn.handover import Handover

if TYPE_CHECKING:
    from sojourn.clock import Clock
    from sojourn.wheel import WheelSnapshot


class Timer(Driven):
    """Runs tasks after their delay: never early, in deadline order, off the clock's thread.

    With the system clock (the default) background threads do the work, started at the first
    add; with a `ManualClock`, `clock.advance` does. `executor` runs the tasks instead of the
    timer's own thread. A task that raises is logged and counted in `errors`, and nothing else
    stops. Every method may be called from any thread, also from inside a running task.
    """

    __slots__ = (
        "__weakref__",
        "_asked",
        "_closed",
        "_driver",
        "_hand_moved",
        "_handover",
        "_on_system_clock",
        "_ready",
        "_sj_tenants",
        "_submitted",
        "_tick_ms",
        "_wheel",
        "clock",
        "errors",
        "expired_buckets",
        "name",
    )

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        tick_ms: int = 1,
        wheel_size: int = 20,
        executor: Executor | None = None,
        name: str = "timer",
    ) -> None:
        clock = SystemClock() if clock is None else clock
        if isinstance(clock, type) or not (hasattr(clock, "now_ns") and hasattr(clock, "drive")):
            raise WrongType(f"clock must be like SystemClock() or ManualClock(), got {clock!r}")
        if isinstance(executor, type) or not (executor is None or hasattr(executor, "submit")):
            raise WrongType(f"executor must be like ThreadPoolExecutor(), got {executor!r}")
        self.name = str(name)
        self.clock = clock
        self.errors = 0
        self._on_system_clock = type(clock) is SystemClock
        self._hand_moved = clock if type(clock) is ManualClock else None
        self._closed = False
        self._sj_tenants: list[object] = []  # purgatories that have operations waiting here
        self._wheel = TimingWheel(tick_ms, wheel_size, self._floor_ms())
        self._tick_ms = self._wheel._levels.ticks_ms[0]
        self._ready = TimerTaskList(self._wheel._counter, True)
        self._handover = None if executor is None else Handover(self, executor)
        self._submitted = 0
        self.expired_buckets = 0
        self._asked = 0
        self._driver = clock.drive(self)

    def add(self, task: TimerTask) -> None:
        """Run the task once its delay has wholly passed; at once if the delay is zero or less.

        A task that waits here already starts its delay anew.
        """
        if not isinstance(task, TimerTask):
            raise WrongType(
                f"task must be a TimerTask, got {task!r}; for a function use call_later()"
            )
        self._add(task)

    def call_later(self, delay_ms: int, fn: Callable[..., object], *args: Any) -> TimerTask:
        """Call `fn(*args)` after the delay; returns the task, to cancel it by."""
        if not callable(fn):
            raise WrongType(f"fn must be callable, got {fn!r}")
        task = new_task(checked_ms(delay_ms, "delay_ms"), (fn, *args) if args else fn)
        self._add(task)
        return task

    def advance_clock(self, timeout_ms: int) -> bool:
        """Wait up to `timeout_ms` for a bucket to expire; say whether any did since last asked.

        The timer turns by itself; this is for code that wants to follow it. On a `ManualClock`
        there is nothing to wait for and the answer comes at once.
        """
        if checked_ms(timeout_ms, "timeout_ms") > 0 and self.expired_buckets == self._asked:
            self._driver.wait_expired(self._asked, timeout_ms)
        any_expired = self.expired_buckets != self._asked
        self._asked = self.expired_buckets
        return any_expired

    def __len__(self) -> int:
        return self._wheel._counter.waiting

    def __bool__(self) -> bool:
        return True  # an empty timer is still a timer

    def snapshot(self) -> WheelSnapshot:
        """Return the timer's wheel as it is now, for people and tests."""
        return self._wheel.snapshot()

    def close(self, *, drop: bool = True) -> int:
        """Take no more tasks, finish what is due, and wait for what is running.

        What still waits is dropped, and the number returned; with `drop=False` it is run in
        its own time first. Closing again does nothing. From inside a task it does not wait.
        """
        if self._shut():
            return 0
        try:
            dropped = self._wheel.clear() if drop else 0
            inside = self._handover is not None and self._handover.is_inside()
            self._driver.close(not drop, not inside)
            if self._handover is not None and not inside:
                self._handover.wait()
        except BaseException:
            self._closed = False
            raise
        if dropped:
            log.info("timer %r closed with %d tasks waiting, which are dropped", self.name, dropped)
        return dropped

    def __enter__(self) -> Timer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Timer {self.name!r} waiting={len(self)}{' closed' if self._closed else ''}>"

    # For drivers.

    def turn(self) -> int:
        """Move what is due by now from the wheel to the ready list; return buckets expired."""
        expired = self._wheel.expire(self._floor_ms(), self._ready, None)
        self.expired_buckets += expired
        return expired

    def has_ready(self) -> bool:
        """Say whether anything stands in the ready list that nobody has been asked to run."""
        return self._wheel._counter.ready > self._submitted

    def run_ready(self) -> None:
        """Run what is ready, in order; or ask the executor to, if there is one.

        KeyboardInterrupt and SystemExit are raised again here, once logged; what is left
        stays ready.
        """
        if self._handover is None:
            self._run_all()
        else:
            self._handover.submit(self._take_submissions())

    def run_submitted(self) -> None:
        """Run what stands first in the ready list; the executor calls this."""
        task = self._take_submitted()
        if task is not None:
            self._run(task)

    def next_ms(self) -> int:
        """When the wheel next needs turning; EMPTY when nothing waits."""
        return self._wheel.next_ms()

    def now_us(self) -> int:
        """The time on the timer's clock, rounded up to the microsecond."""
        if self._on_system_clock:
            return ceil_us(monotonic_ns())
        if self._hand_moved is not None:
            return self._hand_moved._now_ms * 1000
        return ceil_us(self.clock.now_ns())

    def _floor_ms(self) -> int:
        """The last whole millisecond that has passed."""
        if self._on_system_clock:
            return floor_ms(monotonic_ns())
        if self._hand_moved is not None:
            return self._hand_moved._now_ms
        return floor_ms(self.clock.now_ns())

    def _add(self, task: TimerTask) -> None:
        self.schedule(task, task._sj_delay_ms, self.now_us())

    # For the purgatory, which puts an operation on the timer in a step of its own:
    # make room, put, wake.

    def _sj_now_us(self) -> int:
        """The time on the timer's clock, rounded up to the microsecond."""
        return self.now_us()

    def _sj_make_room(self, delay_ms: int, now_us: int) -> None:
        """See to it that the levels for that deadline exist. Outside any step: makes objects."""

    def _sj_wake(self, placed: int) -> None:
        """Wake the driver if what was placed changes its plans. Outside any step."""
        if placed != WAITING:
            self._driver.wake()

    def schedule(self, task: TimerTask, delay_ms: int, now_us: int) -> int:
        """Add the task with this delay from now, and wake the driver if that changes its plans."""
        self._sj_make_room(delay_ms, now_us)
        placed = self._place(task, delay_ms, now_us)
        self._sj_wake(placed)
        return placed

    # The atomic steps.

    def _place(self, task: TimerTask, delay_ms: int, now_us: int) -> int:
        return self._sj_put(task, delay_ms, now_us)

    # The raw steps.

    def _sj_put(self, task: TimerTask, delay_ms: int, now_us: int) -> int:
        """Link the task, with this delay from now; say DUE, WAITING or EARLIEST.

        There must be room. What it refuses, it refuses before anything is changed.
        """
        if self._closed:
            raise Closed(f"timer {self.name!r} is closed; make a new one")
        if task._sj_run is RELEASED:
            raise TaskReleased(
                f"this {type(task).__name__} has run or was cancelled and let go of its callback; "
                "make a new one, or subclass TimerTask and override run() to add it again"
            )
        self._wheel.leave(task)
        placed = DUE
        if delay_ms > 0:
            task._sj_expiration_ms = deadline_ms(now_us, delay_ms, self._tick_ms)
            placed = self._wheel.put(task, task._sj_expiration_ms)
        else:
            task._sj_expiration_ms = now_us // 1000
        if placed == DUE:
            link(self._ready, task)
        return placed

    # More atomic steps.

    def _take_submissions(self) -> int:
        fresh = self._wheel._counter.ready - self._submitted
        if fresh <= 0:
            return 0
        self._submitted += fresh
        return fresh

    def _take_submitted(self) -> TimerTask | None:
        self._submitted -= 1
        if is_empty(self._ready):  # cancelled since
            return None
        task = first(self._ready)
        unlink(task)
        return task

    def _count_error(self) -> None:
        self.errors += 1

    def _shut(self) -> bool:
        was_closed, self._closed = self._closed, True
        return was_closed

    # Running.

    def _run_all(self) -> None:
        while True:
            task = pop(self._ready)
            if task is None:
                break
            self._run(task)

    def _run(self, task: TimerTask) -> None:
        callback = task._sj_run  # for the log: run() lets go of it
        try:
            task.run()
        except BaseException as error:
            self._count_error()
            log.exception(
                "timer %r: %s raised; the timer goes on",
                self.name,
                shown(task if callback is OVERRIDDEN or callback is RELEASED else callback),
            )
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise


if not cython.compiled:
    GUARD.protect(Timer, "_place", "_take_submissions", "_take_submitted", "_count_error", "_shut")
