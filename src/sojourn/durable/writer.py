"""The writer: the thread that turns the shell on the system clock.

It sleeps until somebody has a command, or until the next deadline, and never polls. Batches are
at least a millisecond apart, so that the time they get does not run ahead of the clock.
"""

from __future__ import annotations

import contextlib
import threading
import time

from sojourn.durable.shell import NOTHING_MS, Shell

_LONGEST_S = threading.TIMEOUT_MAX


class Writer:
    """Drives one shell from one daemon thread."""

    def __init__(self, shell: Shell, name: str) -> None:
        self._shell = shell
        self._bell = threading.Lock()  # taken while silent; released to wake the thread
        self._bell.acquire()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is a command, or it is time to stop. Any thread."""
        with contextlib.suppress(RuntimeError):  # it rings already
            self._bell.release()

    def stop(self) -> None:
        """Finish the batch that is under way, and end."""
        self._stopping = True
        self.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        shell = self._shell
        while not self._stopping:
            if shell.has_questions():
                shell.answer_questions()
            now_ms = shell.now_ms()
            due_ms = shell.due_ms()
            if not shell.has_requests() and now_ms < due_ms:
                wait_s = _LONGEST_S if due_ms == NOTHING_MS else (due_ms - now_ms) / 1000
                self._bell.acquire(timeout=min(wait_s, _LONGEST_S))
                continue
            if now_ms <= shell.machine.time_ms:
                time.sleep((shell.machine.time_ms + 1 - now_ms) / 1000)
            shell.step()
