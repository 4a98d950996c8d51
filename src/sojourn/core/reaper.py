"""The reaper: background threads that turn a timer on the system clock.

Two threads take turns. One watches the clock: it sleeps exactly until the next bucket expires,
or until somebody adds an earlier one. When something is due it hands the watch to the other
thread and runs what is due itself:

    thread 1   watch . . . . . due! | run run run | wait for the watch . . . . . . | watch . . .
    thread 2   wait for the watch . | watch . . . . . . . . . . . due! | run run . | wait . . .

Handing over the watch instead of the tasks saves a thread switch between "due" and "running",
which under the GIL is most of a timer's lateness. Only one thread runs tasks at a time, so they
run in deadline order; while it is held up by a slow one, the other goes on watching, and what
falls due meanwhile joins the ready list.

The reaper keeps the timer alive while something waits in it. While nothing does it knows it by a
weak reference only: a timer that nobody else refers to is collected, which rings the bell, and the
threads end. Whoever adds has the timer kept from then on; the watcher releases it before it looks
whether anything waits, never after, so one of the two sees the other. Cancelling rings no bell.
So a watcher that sleeps for long looks now and then whether anything is left: after one second,
two, four, and so on.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.core.timer import Timer

_NOTHING_WAITS_MS = 2**63 - 1  # what a timer then says is its next moment
_CLOSING_LOOK_S = 0.02
_FIRST_LOOK_S = 1.0


class Reaper:
    """Drives one timer from two daemon threads, started when there is first something to do."""

    def __init__(self, timer: Timer) -> None:
        self._bell = bell = threading.Lock()  # taken while silent; released to wake the watcher
        bell.acquire()
        self._timer = weakref.ref(timer, functools.partial(_ring, bell))
        self._stopping = False
        self._forked = False
        self._set_up()
        _REAPERS.add(self)

    def _set_up(self) -> None:
        self._threads: list[threading.Thread] = []
        self._starting = threading.RLock()
        self._watch = threading.Lock()  # held by the thread that watches the clock
        self._run = threading.Lock()  # held by the thread that runs tasks
        self._expired = threading.Condition()  # for those in wait_expired
        self._followers = 0
        self._kept: Timer | None = None

    def wake(self) -> None:
        self._kept = self._timer()
        if not self._threads:
            self._start()
        _ring(self._bell)

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        timer = self._timer()
        if timer is None:
            return
        with self._expired:
            self._followers += 1
            try:
                self._expired.wait_for(
                    lambda: timer._sj_count_expired() != seen,
                    min(timeout_ms / 1000, threading.TIMEOUT_MAX),
                )
            finally:
                self._followers -= 1

    def close(self, finish: bool, wait: bool) -> None:
        self._stopping = True
        timer = self._timer()
        if timer is not None and not timer._sj_is_empty():
            self.wake()  # whoever added it may be on the way to starting the threads
        with self._starting:
            threads = tuple(self._threads)
        _ring(self._bell)
        if wait and threading.current_thread() not in threads and not _starts_a_thread():
            for thread in threads:
                thread.join()

    def _start(self) -> None:
        timer = self._timer()
        with self._starting:
            if self._threads or self._forked or timer is None:
                return
            if self._stopping and timer._sj_is_empty():
                return
            for n in (1, 2):
                thread = threading.Thread(
                    target=self._take_turns, name=f"{timer.name}-reaper-{n}", daemon=True
                )
                thread.start()  # if the second cannot be started, one will do
                self._threads = [*self._threads, thread]

    def _take_turns(self) -> None:
        _wake_sharply()
        while True:
            with self._watch:
                timer = self._await_ready()
                if timer is None:
                    _ring(self._bell)  # the other thread has to hear of the end too
                    return
            # A runner looks again after releasing the lock, so what became ready while it was
            # finishing is never left lying.
            while timer._sj_has_ready() and self._run.acquire(blocking=False):
                try:
                    timer._sj_run_ready()
                except (KeyboardInterrupt, SystemExit):
                    pass  # logged and counted; it was meant for a task, not for this thread
                finally:
                    self._run.release()
            del timer  # it need not wait with us for the watch

    def _await_ready(self) -> Timer | None:
        """Watch the clock until there is something to run; None when it is time to end."""
        look_s = _FIRST_LOOK_S
        while True:
            timer = self._timer()
            if timer is None:
                return None
            if timer._sj_turn() and self._followers:
                with self._expired:
                    self._expired.notify_all()
            if timer._sj_has_ready() and not self._run.locked():
                return timer
            self._kept = None
            if self._stopping and timer._sj_is_empty():
                return None
            next_ms = timer._sj_next_ms()
            wait_s = next_ms / 1e3 - timer.clock.now_ns() / 1e9
            if self._stopping:
                wait_s = min(wait_s, _CLOSING_LOOK_S)
            elif next_ms == _NOTHING_WAITS_MS:
                wait_s = threading.TIMEOUT_MAX
                del timer
            else:
                self._kept = timer
                wait_s = min(wait_s, look_s)
            if wait_s > 0:
                rang = self._bell.acquire(timeout=wait_s)
                look_s = _FIRST_LOOK_S if rang else min(2 * look_s, threading.TIMEOUT_MAX)

    def _forget(self) -> None:
        """We are in the child of a fork, where the threads do not run."""
        self._forked = True
        self._set_up()
        timer = self._timer()
        if timer is not None:
            timer._sj_mark_forked()


_REAPERS: weakref.WeakSet[Reaper] = weakref.WeakSet()


def _after_fork() -> None:
    for reaper in list(_REAPERS):
        reaper._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _ring(bell: threading.Lock, _gone: object = None) -> None:
    with contextlib.suppress(RuntimeError):  # it rings already
        bell.release()


def _starts_a_thread() -> bool:
    """Say whether a finaliser calls us in the middle of `Thread.start()`.

    It then holds a lock of the threading module's that a thread needs to end: to wait for one
    would be to wait for ever.
    """
    is_owned = getattr(getattr(threading, "_active_limbo_lock", None), "_is_owned", None)
    return is_owned is not None and bool(is_owned())


@contextlib.contextmanager
def prompt_switching(interval_ms: float = 0.5) -> Iterator[None]:
    """Make busy threads give up the GIL sooner, so that timers run less late beside them.

    A thread that computes keeps the GIL for the interpreter's switch interval, 5 ms by default,
    before a waking timer thread gets it. This sets the interval for the whole process and puts
    the former one back at the end; shorter means more switching and a little less throughput.
    """
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(interval_ms / 1000)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


def _wake_sharply() -> None:
    """Ask Linux not to delay this thread's wake-ups by its usual 50 µs of slack."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            set_timer_slack = 29  # PR_SET_TIMERSLACK, for the calling thread, in nanoseconds
            ctypes.CDLL(None).prctl(set_timer_slack, 1, 0, 0, 0)
