"""The writer: the thread that turns the shell on the system clock.

It sleeps until somebody has a command, or until the next deadline, and never polls. Batches are
at least a millisecond apart, so that the time they get does not run ahead of the clock. A second
thread brings the log into the file now and then, so that no batch waits for that.
"""

from __future__ import annotations

import contextlib
import threading
import time

from sojourn._log import log
from sojourn.durable.shell import NOTHING_MS, Shell
from sojourn.durable.store import Store

_LONGEST_S = threading.TIMEOUT_MAX
_MS = 1_000_000  # nanoseconds


class Writer:
    """Drives one shell from one daemon thread."""

    def __init__(self, shell: Shell, name: str) -> None:
        self._shell = shell
        self._bell = threading.Lock()  # taken while silent; released to wake the thread
        self._bell.acquire()
        self._stopping = False
        self._is_asleep = False
        shell.store.checkpoint_elsewhere()
        self._checkpointer = Checkpointer(shell.store, f"{name}-checkpoints")
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is a command, or it is time to stop. Any thread."""
        if self._is_asleep:
            with contextlib.suppress(RuntimeError):  # it rings already
                self._bell.release()

    def stop(self) -> None:
        """Finish the batch that is under way, and end."""
        self._stopping = True
        self.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._checkpointer.stop()

    def _run(self) -> None:
        shell = self._shell
        while not self._stopping:
            if shell.has_questions():
                shell.answer_questions()
            now_ns = shell.now_ns()
            due_ms = shell.due_ms()
            if not shell.has_requests() and now_ns < due_ms * _MS:
                wait_s = _LONGEST_S if due_ms == NOTHING_MS else (due_ms * _MS - now_ns) / 1e9
                self._is_asleep = True
                # Whoever came before that did not ring.
                if not (shell.has_requests() or shell.has_questions() or self._stopping):
                    self._bell.acquire(timeout=min(wait_s, _LONGEST_S))
                self._is_asleep = False
                continue
            earliest_ns = (shell.machine.time_ms + 1) * _MS
            if now_ns < earliest_ns:
                time.sleep((earliest_ns - now_ns) / 1e9)
            shell.step()
            if shell.store.is_log_long:
                self._checkpointer.go_on()


class Checkpointer:
    """Brings the log into the file, from a daemon thread of its own."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._bell = threading.Semaphore(0)
        self._is_busy = False
        self._is_done = False  # all but what the writer has to add
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """The log is long: begin, or finish what is nearly done. The writer's thread."""
        if self._is_done:
            self._is_done = False
            try:
                self._store.finish_checkpoint()
            except Exception as error:  # a full disk, say: the log goes on growing
                log.warning("%s: a checkpoint failed: %s", self._store.path, error)
                self._store.put_off_checkpoint()
        elif not self._is_busy:
            self._is_busy = True
            self._bell.release()

    def stop(self) -> None:
        """Finish the checkpoint that is under way, and end."""
        self._stopping = True
        self._bell.release()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._bell.acquire()
            if self._stopping:
                return
            try:
                self._store.checkpoint()
                self._is_done = True
            except Exception as error:
                log.warning("%s: a checkpoint failed: %s", self._store.path, error)
                self._store.put_off_checkpoint()
            self._is_busy = False
