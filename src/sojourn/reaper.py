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
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.timer import Timer

_LOOK_AGAIN_S = 0.02


class Reaper:
    """Drives one timer from two daemon threads, started when there is first something to do."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._watch = threading.Lock()  # held by the thread that watches the clock
        self._run = threading.Lock()  # held by the thread that runs tasks
        self._bell = threading.Lock()  # taken while silent; let go of to wake the watcher
        self._bell.acquire()
        self._expired = threading.Condition()  # for those in wait_expired
        self._followers = 0
        self._stopping = False

    def wake(self) -> None:
        if not self._threads:
            self._start()
        with contextlib.suppress(RuntimeError):  # it rings already
            self._bell.release()

    def wait_expired(self, seen: int, timeout_ms: int) -> None:
        with self._expired:
            self._followers += 1
            self._expired.wait_for(
                lambda: self._timer.expired_buckets != seen,
                min(timeout_ms / 1000, threading.TIMEOUT_MAX),
            )
            self._followers -= 1

    def close(self, finish: bool, wait: bool) -> None:
        self._stopping = True
        with self._starting:
            threads = tuple(self._threads)
        if threads:
            self.wake()
        if wait and threading.current_thread() not in threads:
            for thread in threads:
                thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._threads or self._stopping:
                return
            threads = [
                threading.Thread(
                    target=self._take_turns, name=f"{self._timer.name}-reaper-{n}", daemon=True
                )
                for n in (1, 2)
            ]
            for thread in threads:
                thread.start()
            self._threads = threads

    def _take_turns(self) -> None:
        _wake_sharply()
        while True:
            with self._watch:
                if not self._await_ready():
                    self.wake()  # the other thread has to hear of the end too
                    return
            # A runner looks again after letting go of the lock, so what became ready while it
            # was finishing is never left lying.
            while self._timer.has_ready() and self._run.acquire(blocking=False):
                try:
                    self._timer.run_ready()
                except (KeyboardInterrupt, SystemExit):
                    pass  # logged and counted; it was meant for a task, not for this thread
                finally:
                    self._run.release()

    def _longest_s(self) -> float:
        # Cancelling rings no bell. It need not, unless we wait for the timer to become empty.
        return _LOOK_AGAIN_S if self._stopping else threading.TIMEOUT_MAX

    def _await_ready(self) -> bool:
        """Watch the clock until there is something to run; False when it is time to end."""
        timer = self._timer
        while True:
            if timer.turn() and self._followers:
                with self._expired:
                    self._expired.notify_all()
            if timer.has_ready() and not self._run.locked():
                return True
            if self._stopping and not len(timer):
                return False
            # With nothing waiting the next moment is ages away, and the wait as long as it can be.
            wait_s = timer.next_ms() / 1e3 - timer.clock.now_ns() / 1e9
            if wait_s > 0:
                self._bell.acquire(timeout=min(wait_s, self._longest_s()))


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
