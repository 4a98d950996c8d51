"""The timer: a wheel, the time, and somebody to run what falls due.

    add --> wheel --(a bucket expires)--> ready list --> run, one after the other, in deadline order
              |                               |
              +------ cancel: leaves at once, from either ------> never run

The timer itself never waits. Its driver, which comes from its clock, turns it: `turn()` moves
what is due from the wheel to the ready list, `run_ready()` runs that list. So one timer serves
background threads (reaper.py), a clock moved by hand (clock.py) and an event loop (aio/loop.py).

A task is put on the timer in three moves, so that the step in the middle makes no object:

    make room    outside any step: the wheel gets the levels for that deadline, if it lacks them
    put          the step: into its bucket, or the ready list
    wake         outside: the driver hears of it, if that changes its plans
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from sojourn._log import log, shown
from sojourn.core.alike import already_initialised, not_copied, not_initialised, start_out
from sojourn.core.guard import GUARD

if not cython.compiled:
    from time import monotonic_ns

    from sojourn.core.clock import Driven, ManualClock, SystemClock
    from sojourn.core.millis import ceil_us, checked_ms, deadline_ms, floor_ms
    from sojourn.core.task import (
        OVERRIDDEN,
        RELEASED,
        TimerTask,
        link,
        new_list,
        new_task,
        pop,
        pop_first,
    )
    from sojourn.core.wheel import DUE, WAITING, TimingWheel

from sojourn.core.handover import Handover
from sojourn.errors import Closed, Forked, OutOfRange, SojournError, TaskReleased, WrongType

if TYPE_CHECKING:
    from sojourn.core.clock import Clock, Driver
    from sojourn.core.wheel import WheelSnapshot


if not cython.compiled:  # which has them as constants of C, in the .pxd
    # What a timer is. Only an open one takes tasks.
    _NOT_INITIALISED = 0
    _OPEN = 1
    _CLOSED = 2
    _FORKED = 3  # its threads are those of the parent process


class Timer(Driven):
    """Runs tasks after their delay: never early, in deadline order, off the clock's thread.

    With the system clock (the default) background threads do the work, started at the first
    add; with a `ManualClock`, `clock.advance` does. `executor` runs the tasks instead of the
    timer's own thread. A task that raises is logged and counted in `errors`, and nothing else
    stops. Every method may be called from any thread, also from inside a running task.
    """

    __slots__ = (
        "__weakref__",
        "_sj_clock",
        "_sj_driver",
        "_sj_errors",
        "_sj_expired",
        "_sj_expired_seen",
        "_sj_hand_moved",
        "_sj_handover",
        "_sj_name",
        "_sj_on_system_clock",
        "_sj_ready",
        "_sj_state",
        "_sj_submitted",
        "_sj_tenants",
        "_sj_tick_ms",
        "_sj_wheel",
    )

    _sj_state: int
    _sj_clock: Clock
    _sj_hand_moved: ManualClock | None
    _sj_driver: Driver
    _sj_handover: Handover | None
    _sj_tenants: list[object]  # purgatories that have operations waiting here
    _sj_wheel: TimingWheel

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        tick_ms: int = 1,
        wheel_size: int = 20,
        executor: Executor | None = None,
        name: str = "timer",
    ) -> None:
        if self._sj_state != _NOT_INITIALISED:
            raise already_initialised(self)
        clock = SystemClock() if clock is None else clock
        if isinstance(clock, type) or not (hasattr(clock, "now_ns") and hasattr(clock, "drive")):
            raise WrongType(f"clock must be like SystemClock() or ManualClock(), got {clock!r}")
        if isinstance(executor, type) or not (executor is None or hasattr(executor, "submit")):
            raise WrongType(f"executor must be like ThreadPoolExecutor(), got {executor!r}")
        self._sj_name = str(name)
        self._sj_clock = clock
        self._sj_errors = 0
        self._sj_on_system_clock = type(clock) is SystemClock
        self._sj_hand_moved = clock if type(clock) is ManualClock else None
        self._sj_handover = None if executor is None else Handover(executor)
        self._sj_submitted = 0
        self._sj_expired = 0
        self._sj_expired_seen = 0
        self._sj_tenants = []
        wheel = TimingWheel(tick_ms, wheel_size, self._sj_floor_ms())
        self._sj_tick_ms = wheel._sj_levels.ticks_ms[0]
        self._sj_ready = new_list(wheel._sj_counter, True)
        self._sj_wheel = wheel
        self._sj_driver = clock.drive(self)
        self._sj_state = _OPEN

    @property
    def name(self) -> str:
        """What the timer is called in logs, and its threads."""
        if self._sj_wheel is None:
            raise not_initialised(self)
        return self._sj_name

    @property
    def clock(self) -> Clock:
        """Where the timer takes the time from."""
        if self._sj_wheel is None:
            raise not_initialised(self)
        return self._sj_clock

    @property
    def errors(self) -> int:
        """How many tasks have raised."""
        if self._sj_wheel is None:
            raise not_initialised(self)
        return self._sj_errors

    @property
    def expired_buckets(self) -> int:
        """How many buckets have expired."""
        if self._sj_wheel is None:
            raise not_initialised(self)
        return self._sj_expired

    def add(self, task: TimerTask) -> None:
        """Run the task once its delay has wholly passed; at once if the delay is zero or less.

        A task that waits here already starts its delay anew.
        """
        if not isinstance(task, TimerTask):
            raise WrongType(
                f"task must be a TimerTask, got {task!r}; for a function use call_later()"
            )
        self._sj_add(task)

    def call_later(self, delay_ms: int, fn: Callable[..., object], *args: Any) -> TimerTask:
        """Call `fn(*args)` after the delay; returns the task, to cancel it by."""
        if not callable(fn):
            raise WrongType(f"fn must be callable, got {fn!r}")
        task = new_task(checked_ms(delay_ms, "delay_ms"), (fn, *args) if args else fn)
        self._sj_add(task)
        return task

    def advance_clock(self, timeout_ms: int) -> bool:
        """Wait up to `timeout_ms` for a bucket to expire; say whether any did since last asked.

        The timer turns by itself; this is for code that wants to follow it. On a `ManualClock`
        there is nothing to wait for and the answer comes at once.
        """
        if self._sj_wheel is None:
            raise not_initialised(self)
        if checked_ms(timeout_ms, "timeout_ms") > 0 and self._sj_expired == self._sj_expired_seen:
            self._sj_driver.wait_expired(self._sj_expired_seen, timeout_ms)
        any_expired = self._sj_expired != self._sj_expired_seen
        self._sj_expired_seen = self._sj_expired
        return any_expired

    def __len__(self) -> int:
        if self._sj_wheel is None:
            raise not_initialised(self)
        return self._sj_wheel._sj_counter.waiting

    def __bool__(self) -> bool:
        return True  # an empty timer is still a timer

    def snapshot(self) -> WheelSnapshot:
        """Return the timer's wheel as it is now, for people and tests."""
        if self._sj_wheel is None:
            raise not_initialised(self)
        return self._sj_wheel.snapshot()

    def close(self, *, drop: bool = True) -> int:
        """Take no more tasks, finish what is due, and wait for what is running.

        What still waits is dropped, and the number returned; with `drop=False` it is run in
        its own time first. Closing again waits too, if there is still something to wait for, so
        a close that Ctrl-C has interrupted can be taken up again. From inside a task it does not
        wait. In the child of a fork there is nothing to wait for.
        """
        if self._sj_wheel is None:
            raise not_initialised(self)
        if self._sj_state == _FORKED and not drop:
            raise self._sj_refusal()
        before = self._sj_shut()
        dropped = self._sj_wheel.clear() if drop else 0
        if before != _FORKED:
            try:
                self._sj_finish(drop)
            except OutOfRange:  # the driver cannot wait for what waits
                self._sj_reopen(before)
                raise
        if dropped:
            log.info(
                "timer %r closed with %d tasks waiting, which are dropped", self._sj_name, dropped
            )
        return dropped

    def __enter__(self) -> Timer:
        if self._sj_wheel is None:
            raise not_initialised(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._sj_wheel is None:
            return f"<{type(self).__name__} not initialised>"
        waiting = self._sj_wheel._sj_counter.waiting
        state = {_CLOSED: " closed", _FORKED: " forked"}.get(self._sj_state, "")
        return f"<{type(self).__name__} {self._sj_name!r} waiting={waiting}{state}>"

    def __reduce__(self) -> Any:
        raise not_copied(self)

    def __del__(self) -> None:
        # Compiled, a list and the tasks in it form a circle that the collector does not see.
        if cython.compiled and self._sj_ready is not None:
            while pop(self._sj_ready) is not None:
                pass

    # For a driver of the user's. Ours call the methods below, which no subclass overrides.

    def turn(self) -> int:
        """Move what is due by now from the wheel to the ready list; return buckets expired."""
        return self._sj_turn()

    def has_ready(self) -> bool:
        """Say whether anything stands in the ready list that nobody has been asked to run."""
        return self._sj_has_ready()

    def run_ready(self) -> None:
        """Run what is ready, in order; or ask the executor to, if there is one.

        KeyboardInterrupt and SystemExit are raised again here, once logged; what is left
        stays ready.
        """
        self._sj_run_ready()

    def next_ms(self) -> int:
        """When the wheel next needs turning; 2**63 - 1 when nothing waits."""
        return self._sj_next_ms()

    # For our drivers.

    def _sj_next_ms(self) -> int:
        """When the wheel next needs turning; EMPTY when nothing waits."""
        if self._sj_wheel is None:
            raise not_initialised(self)
        return self._sj_wheel._sj_next_ms()

    def _sj_turn(self) -> int:
        """Move what is due by now from the wheel to the ready list; return buckets expired."""
        if self._sj_wheel is None:
            raise not_initialised(self)
        expired = self._sj_wheel._sj_expire(self._sj_floor_ms(), self._sj_ready, None)
        self._sj_expired += expired
        return expired

    def _sj_has_ready(self) -> bool:
        """Say whether anything stands in the ready list that nobody has been asked to run."""
        if self._sj_wheel is None:
            raise not_initialised(self)
        return self._sj_wheel._sj_counter.ready > self._sj_submitted

    def _sj_run_ready(self) -> None:
        """Run what is ready, in order; or ask the executor to, if there is one."""
        if self._sj_wheel is None:
            raise not_initialised(self)
        if self._sj_handover is None:
            self._sj_run_all()
        else:
            self._sj_handover.submit(self, self._sj_take_turns())

    def _sj_run_submitted(self) -> None:
        """Run what stands first in the ready list; the executor calls this."""
        task = self._sj_take_submitted()
        if task is not None:
            self._sj_run(task)

    def _sj_is_empty(self) -> bool:
        """Whether nothing waits and nothing is ready."""
        counter = self._sj_wheel._sj_counter
        return counter.waiting == 0 and counter.ready == 0

    def _sj_count_expired(self) -> int:
        """How many buckets have expired."""
        return self._sj_expired

    # For the purgatory, which puts an operation on the timer in a step of its own.

    def _sj_now_us(self) -> int:
        """The time on the timer's clock, rounded up to the microsecond.

        Whoever puts a task on the timer asks first, so it is here that one without `__init__` is
        refused.
        """
        if self._sj_on_system_clock:
            return ceil_us(monotonic_ns())
        if self._sj_hand_moved is not None:
            return self._sj_hand_moved._sj_now_ms * 1000
        if self._sj_clock is None:
            raise not_initialised(self)
        return ceil_us(self._sj_clock.now_ns())

    def _sj_make_room(self, delay_ms: int, now_us: int) -> int:
        """Return the deadline; see to it that levels for it exist. Outside any step."""
        if delay_ms <= 0:
            return now_us // 1000
        expiration_ms = deadline_ms(now_us, delay_ms, self._sj_tick_ms)
        if expiration_ms >= self._sj_wheel._sj_room_ms:
            self._sj_wheel._sj_make_room(expiration_ms)
        return expiration_ms

    def _sj_wake(self, placed: int) -> None:
        """Wake the driver if what was placed changes its plans. Outside any step."""
        if placed != WAITING:
            self._sj_driver.wake()

    # Adding, closing.

    def _sj_add(self, task: TimerTask) -> None:
        now_us = self._sj_now_us()
        at_once = task._sj_delay_ms <= 0
        expiration_ms = self._sj_make_room(task._sj_delay_ms, now_us)
        placed = self._sj_place(task, expiration_ms, at_once)
        if placed != WAITING:
            self._sj_driver.wake()

    def _sj_refusal(self) -> SojournError:
        """Why the timer takes no tasks."""
        if self._sj_state == _NOT_INITIALISED:
            return not_initialised(self)
        if self._sj_state == _FORKED:
            return Forked(
                f"timer {self._sj_name!r} was made before this process was forked, and its "
                "threads do not run here; make a new one"
            )
        return Closed(f"timer {self._sj_name!r} is closed; make a new one")

    def _sj_finish(self, drop: bool) -> None:
        """Have the driver finish, and wait for it and the executor unless we are inside a task."""
        inside = self._sj_handover is not None and self._sj_handover.is_inside()
        self._sj_driver.close(not drop, not inside)
        if self._sj_handover is not None and not inside:
            self._sj_handover.wait()
            while self._sj_has_ready():  # an executor that was shut down gave them back
                self._sj_run_ready()
                self._sj_handover.wait()

    def _sj_floor_ms(self) -> int:
        """The last whole millisecond that has passed."""
        if self._sj_on_system_clock:
            return floor_ms(monotonic_ns())
        if self._sj_hand_moved is not None:
            return self._sj_hand_moved._sj_now_ms
        return floor_ms(self._sj_clock.now_ns())

    # The atomic steps. They make no object that the collector counts.

    def _sj_place(self, task: TimerTask, expiration_ms: int, at_once: bool) -> int:
        return self._sj_link(task, expiration_ms, at_once)

    def _sj_take_turns(self) -> int:
        """Count those that are ready and that nobody was asked to run: now somebody is."""
        fresh = max(0, self._sj_wheel._sj_counter.ready - self._sj_submitted)
        self._sj_submitted += fresh
        return fresh

    def _sj_take_back(self, turns: int) -> None:
        """Nobody is going to run that many of them after all."""
        self._sj_submitted -= turns

    def _sj_take_submitted(self) -> TimerTask | None:
        self._sj_submitted -= 1
        return pop_first(self._sj_ready)  # None if it was cancelled meanwhile

    def _sj_count_error(self) -> None:
        self._sj_errors += 1

    def _sj_shut(self) -> int:
        """Take no more tasks; return what the timer was."""
        before = self._sj_state
        self._sj_state = _CLOSED
        return before

    def _sj_reopen(self, before: int) -> None:
        self._sj_state = before

    def _sj_mark_forked(self) -> None:
        if self._sj_state == _OPEN:
            self._sj_state = _FORKED

    # The raw steps.

    def _sj_link(self, task: TimerTask, expiration_ms: int, at_once: bool) -> int:
        """Link the task, to run then or at once; say DUE, WAITING or EARLIEST.

        There must be room. What it refuses, it refuses before anything is changed.
        """
        if self._sj_state != _OPEN:
            raise self._sj_refusal()
        if task._sj_run is RELEASED:
            raise TaskReleased(
                f"this {type(task).__name__} has run or was cancelled and released its callback; "
                "make a new one, or subclass TimerTask and override run() to add it again"
            )
        if task._sj_run is None:
            raise not_initialised(task)
        self._sj_wheel._sj_leave(task)
        task._sj_expiration_ms = expiration_ms
        placed = DUE if at_once else self._sj_wheel._sj_put(task, expiration_ms)
        if placed == DUE:
            link(self._sj_ready, task)
        return placed

    # Running.

    def _sj_run_all(self) -> None:
        while True:
            task = pop(self._sj_ready)
            if task is None:
                break
            self._sj_run(task)

    def _sj_run(self, task: TimerTask) -> None:
        callback = task._sj_run  # for the log: run() releases it
        try:
            task.run()
        except BaseException as error:
            self._sj_count_error()
            log.exception(
                "timer %r: %s raised; the timer goes on",
                self._sj_name,
                shown(task if callback is OVERRIDDEN or callback is RELEASED else callback),
            )
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise


if not cython.compiled:
    start_out(
        Timer,
        _sj_clock=None,
        _sj_hand_moved=None,
        _sj_handover=None,
        _sj_on_system_clock=False,
        _sj_ready=None,
        _sj_state=_NOT_INITIALISED,
        _sj_wheel=None,
    )
    GUARD.protect(
        Timer,
        "_sj_place",
        "_sj_take_turns",
        "_sj_take_back",
        "_sj_take_submitted",
        "_sj_count_error",
        "_sj_shut",
        "_sj_reopen",
        "_sj_mark_forked",
    )
