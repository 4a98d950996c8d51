"""The hand-over: has a timer's ready tasks run by an executor of the user's.

The executor is asked once for each task that became ready, and runs whatever then stands first
in the ready list: so a task that is cancelled while the executor is busy is never run.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, wait
from typing import TYPE_CHECKING

from sojourn._log import log

if TYPE_CHECKING:
    from sojourn.timer import Timer


class Handover:
    """Asks an executor to run what is ready, and can wait until it has."""

    def __init__(self, timer: Timer, executor: Executor) -> None:
        self._timer = timer
        self._executor = executor
        self._unfinished: set[Future[None]] = set()
        self._thread = threading.local()

    def submit(self, count: int) -> None:
        """Have `count` tasks run. If the executor refuses, the calling thread runs them itself."""
        for _ in range(count):
            try:
                future = self._executor.submit(self._run_one)
            except Exception:
                log.exception(
                    "timer %r: its executor refused a task, which the timer runs itself; "
                    "close the timer before the executor",
                    self._timer.name,
                )
                self._run_one()
            else:
                self._unfinished.add(future)
                future.add_done_callback(self._unfinished.discard)

    def is_inside(self) -> bool:
        """Say whether the calling thread is running one of the tasks."""
        return getattr(self._thread, "inside", False)

    def wait(self) -> None:
        """Wait until the executor has run, or cancelled, all that it was asked to."""
        wait(list(self._unfinished))

    def _run_one(self) -> None:
        self._thread.inside = True
        try:
            self._timer.run_submitted()
        finally:
            self._thread.inside = False
