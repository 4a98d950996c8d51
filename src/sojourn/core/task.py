"""Timer tasks, and the doubly linked lists they wait in.

Kafka keeps a task, an entry that holds the task, and a list of entries. Here a task is its own
entry: the links are fields of the task, so waiting costs no second object and leaving a list
needs no search.

    TimerTaskList (a bucket)         +-----------------------------------------+
      root of the circle             v                                         |
      +------+ next   +--------+ next   +--------+ next   +--------+ next      |
      | list |------->| task A |------->| task B |------->| task C |-----------+
      +------+<-------+--------+<-------+--------+<-------+--------+
               prev      list = the list it is in, or None when it waits nowhere

A list counts as one reference to each task in it. The links themselves are bare addresses where
this is compiled: to link or unlink a task then leaves the reference counts of its neighbours
alone, which lie in cache lines of their own, and most of the cost is in fetching those.

A plain TimerTask is 64 bytes and is not tracked by the garbage collector, which makes a million
of them cheap. The price: a reference circle through its callback cannot be seen by the
collector, so a task releases its callback when it runs or is cancelled.

What users subclass has no natural names of its own: fields begin with `_sj_` (see alike.py).
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections.abc import Callable
from typing import Any

from sojourn.core.alike import not_copied, not_initialised, start_out
from sojourn.core.guard import GUARD

if cython.compiled:
    from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
else:
    from sojourn.core.millis import checked_ms

from sojourn.errors import AlreadyWaiting, TaskReleased, WrongType


class _Mark:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


# What stands in a task's callback field: None until the task is initialised; then a callable,
# (callable, *arguments), or one of these.
OVERRIDDEN = _Mark("overridden")  # there is no callback, a subclass has its own run()
RELEASED = _Mark("released")  # it has run or was cancelled


class TaskCounter:
    """How many tasks wait in the lists that share this counter, and how many stand ready to run."""

    __slots__ = ("ready", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.ready = 0


@cython.no_gc
@cython.cclass
class TimerTask:
    """Something to run after a delay: give a callable, or subclass and override `run()`.

    `delay_ms` is a whole number of milliseconds; zero or less means at once. A task built on a
    callable is for one use: it releases the callable when it runs or is cancelled. A subclass
    may be added again as often as you like. Cancel from any thread at any time.
    """

    __slots__ = ("_sj_delay_ms", "_sj_expiration_ms", "_sj_list", "_sj_next", "_sj_prev", "_sj_run")

    _sj_next: Any  # links: the address of a TimerTask; without meaning while it waits nowhere
    _sj_prev: Any
    _sj_list: Any  # TimerTaskList, or None
    _sj_expiration_ms: int
    _sj_delay_ms: int
    _sj_run: Any  # None, OVERRIDDEN, a callable, (callable, *arguments) or RELEASED

    def __init__(self, delay_ms: int, run: Callable[[], object] | None = None) -> None:
        if self._sj_list is not None:
            raise waits_already(self)
        delay_ms = checked_ms(delay_ms, "delay_ms")
        if run is not None and not callable(run):
            raise WrongType(f"run must be callable, got {run!r}; or subclass and override run()")
        self._sj_delay_ms = delay_ms
        self._sj_run = OVERRIDDEN if run is None else run

    def run(self) -> None:
        """Do the work. Called by the timer, off the clock's thread; a subclass overrides this."""
        callback = take_callback(self)
        if callback is OVERRIDDEN:
            return
        if callback is None:
            raise not_initialised(self)
        if callback is RELEASED:
            raise TaskReleased(
                "this task has run or was cancelled and released its callback; "
                "make a new TimerTask, or subclass it and override run() to run it again"
            )
        if type(callback) is tuple:
            callback[0](*callback[1:])
        else:
            callback()

    def cancel(self) -> bool:
        """Take the task out of its wheel or timer; True if it was waiting, and now never runs."""
        if self._sj_run is None:
            raise not_initialised(self)
        if not cython.compiled and GUARD.held_here():
            GUARD.put_off(self.cancel)
            return self._sj_list is not None
        return detach(self) is not None

    @property
    def delay_ms(self) -> int:
        """The task's delay. Set it to give the task another one; it must not wait meanwhile."""
        if self._sj_run is None:
            raise not_initialised(self)
        return self._sj_delay_ms

    @delay_ms.setter
    def delay_ms(self, delay_ms: int) -> None:
        if self._sj_run is None:
            raise not_initialised(self)
        if self._sj_list is not None:
            raise waits_already(self)
        self._sj_delay_ms = checked_ms(delay_ms, "delay_ms")

    @property
    def expiration_ms(self) -> int | None:
        """When the task is due on its wheel's clock; None while it waits nowhere."""
        if self._sj_run is None:
            raise not_initialised(self)
        if self._sj_list is None:
            return None
        return self._sj_expiration_ms

    def __repr__(self) -> str:
        waits = "" if self._sj_list is None else f" expiration_ms={self._sj_expiration_ms}"
        does = "" if self._sj_run is OVERRIDDEN else f" run={self._sj_run!r}"
        return f"<{type(self).__name__} delay_ms={self._sj_delay_ms}{waits}{does}>"

    def __reduce__(self) -> Any:
        raise not_copied(self)


@cython.no_gc
@cython.cclass
class TimerTaskList(TimerTask):
    """A bucket: tasks in the order they came. It is the root of its own circle."""

    __slots__ = ("_counter", "_is_ready")

    _counter: TaskCounter
    _is_ready: bool


def new_task(delay_ms: int, callback: Any) -> TimerTask:
    """Make a plain task without the cost of a call through Python."""
    task = TimerTask.__new__(TimerTask)
    task._sj_delay_ms = delay_ms
    task._sj_run = callback
    return task


def new_list(counter: TaskCounter, is_ready: bool) -> TimerTaskList:
    """Make an empty list. Compiled, nothing that the collector counts is made on the way."""
    tasks = TimerTaskList.__new__(TimerTaskList)
    tasks._sj_next = address(tasks)
    tasks._sj_prev = address(tasks)
    tasks._counter = counter
    tasks._is_ready = is_ready
    return tasks


def waits_already(task: TimerTask) -> AlreadyWaiting:
    """The error for a task that must not wait, and does."""
    return AlreadyWaiting(f"this {type(task).__name__} waits already; cancel it first")


if not cython.compiled:
    start_out(
        TimerTask,
        _sj_next=None,
        _sj_prev=None,
        _sj_list=None,
        _sj_expiration_ms=0,
        _sj_delay_ms=0,
        _sj_run=None,
    )

    def address(task: TimerTask) -> TimerTask:
        return task

    def Py_INCREF(task: TimerTask) -> None:
        pass

    Py_DECREF = Py_INCREF


# The raw steps: call them only from inside an atomic step (see guard.py).


def is_empty(tasks: TimerTaskList) -> bool:
    """Say whether no task waits in the list."""
    return tasks._sj_next is address(tasks)


def first(tasks: TimerTaskList) -> TimerTask:
    """Return the first task of a list that is not empty."""
    task: TimerTask = cython.cast(TimerTask, tasks._sj_next)
    return task


def link(tasks: TimerTaskList, task: TimerTask) -> None:
    """Put a task that waits nowhere at the end of the list."""
    tail = tasks._sj_prev
    task._sj_prev = tail
    task._sj_next = address(tasks)
    task._sj_list = tasks
    cython.cast(TimerTask, tail)._sj_next = address(task)
    tasks._sj_prev = address(task)
    Py_INCREF(task)
    if tasks._is_ready:
        tasks._counter.ready += 1
    else:
        tasks._counter.waiting += 1


def unlink(task: TimerTask) -> None:
    """Take a task that waits out of its list; the caller holds it, or else it is gone."""
    tasks = task._sj_list
    before = task._sj_prev
    after = task._sj_next
    cython.cast(TimerTask, before)._sj_next = after
    cython.cast(TimerTask, after)._sj_prev = before
    task._sj_list = None
    if not cython.compiled:
        task._sj_next = task._sj_prev = None
    if tasks._is_ready:
        tasks._counter.ready -= 1
    else:
        tasks._counter.waiting -= 1
    Py_DECREF(task)


def pop_first(tasks: TimerTaskList) -> TimerTask | None:
    """Take the first task out of the list; None when it is empty."""
    if is_empty(tasks):
        return None
    task = first(tasks)
    unlink(task)
    return task


# The atomic steps.


def pop(tasks: TimerTaskList) -> TimerTask | None:
    """Take the first task out of the list; None when it is empty."""
    return pop_first(tasks)


def detach(task: TimerTask) -> Any:
    """Cancel: take the task out of its list and give back what its callback was.

    None when it was not waiting. The callback goes to the caller, so that dropping the last
    reference to it, which may run a finaliser, happens after the step is over.
    """
    if task._sj_list is None:
        return None
    unlink(task)
    return release_callback(task)


def take_callback(task: TimerTask) -> Any:
    """Give the callback to the caller, once; RELEASED after that, OVERRIDDEN if there is none."""
    return release_callback(task)


def release_callback(task: TimerTask) -> Any:
    """A raw step: give back the callback and leave RELEASED in its place, if there is one."""
    callback = task._sj_run
    if callback is not OVERRIDDEN and callback is not None:
        task._sj_run = RELEASED
    return callback


if not cython.compiled:
    GUARD.protect(globals(), "pop", "detach", "take_callback")
