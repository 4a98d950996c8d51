"""The hand-over: has a timer's ready tasks run by an executor of the user's.

The executor is asked once for each task that became ready, and runs whatever then stands first
in the ready list: so a task that is cancelled while the executor is busy is never run. A turn
that the executor refuses, or takes and then cancels (`shutdown(cancel_futures=True)`), goes back
to the timer, whose own driver runs the task.
"""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import Executor, Future, wait
from typing import TYPE_CHECKING

from sojourn._log import log
from sojourn.core.clock import runs_at_once

if TYPE_CHECKING:
    from sojourn.core.timer import Timer


class Handover:
    """Asks an executor to run what is ready, and can wait until it has."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._refused = False  # the last time it was asked
        self._unfinished: dict[Future[None], Timer] = {}
        self._thread = threading.local()
        _HANDOVERS.add(self)

    def submit(self, timer: Timer, count: int) -> None:
        """Have `count` tasks run. If the executor refuses, the calling thread runs them itself."""
        left = count
        try:
            while left:
                try:
                    future = self._executor.submit(self._run_one, timer)
                except Exception:
                    self._log_refusal(timer)
                    left -= 1
                    self._run_one(timer)
                else:
                    left -= 1
                    self._refused = False
                    self._unfinished[future] = timer  # which lives until the turn has come
                    future.add_done_callback(self._finish)
        except BaseException:  # an interrupt: the others get their turn later
            timer._sj_take_back(left)
            raise

    def is_inside(self) -> bool:
        """Say whether the calling thread is running one of the tasks."""
        return getattr(self._thread, "inside", False)

    def wait(self) -> None:
        """Wait until the executor has run, or cancelled, all that it was asked to."""
        while self._unfinished:
            wait(list(self._unfinished))
            # A future wakes those who wait for it before it calls us back.
            for future in list(self._unfinished):
                if future.done():
                    self._finish(future)

    def _run_one(self, timer: Timer) -> None:
        self._thread.inside = True
        try:
            timer._sj_run_submitted()
        finally:
            self._thread.inside = False

    def _finish(self, future: Future[None]) -> None:
        timer = self._unfinished.pop(future, None)
        if timer is None:
            return
        if future.cancelled():
            self._log_refusal(timer)
            timer._sj_take_back(1)
            if not runs_at_once(timer._sj_driver):  # who cancels may hold the executor's locks
                timer._sj_driver.wake()

    def _log_refusal(self, timer: Timer) -> None:
        """Log it the first time in a row."""
        if not self._refused:
            self._refused = True
            log.error(
                "timer %r: its executor refused or cancelled a task; the timer runs such tasks "
                "itself; close the timer before the executor",
                timer.name,
                exc_info=True,
            )


_HANDOVERS: weakref.WeakSet[Handover] = weakref.WeakSet()


def _after_fork() -> None:
    """In the child no thread of an executor runs, and what it was asked to do never ends."""
    for handover in list(_HANDOVERS):
        handover._unfinished = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
