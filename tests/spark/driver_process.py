"""A driver of Spark in a process of its own, to be killed.

A query may fail on a busy machine: Spark gives its first Python process ten seconds to connect, and
nothing can be set against that. It is started again then, as anybody would.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.checkout import ROOT


class Driver:
    """A driver process with all that it has started; what it says goes to the end of a log."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._path = log
        self._log = log.open("ab")
        self._begin = self._log.tell()
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that the JVM goes with it, as when a machine fails
        )

    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def was_too_slow(self) -> bool:
        """Whether it has ended because a Python process of Spark's took too long to start."""
        if self.runs():
            return False
        self._log.close()
        return b"Python worker failed to connect back" in self._path.read_bytes()[self._begin :]

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self, patience_s: float) -> int:
        """Wait until it has ended by itself; return its exit status."""
        try:
            return self._process.wait(patience_s)
        finally:
            if self.runs():
                self.kill()
            self._log.close()
