"""A task with a re-entrant lock of its own, which costs a few nanoseconds where compiled.

Compiled, the GIL makes "is it free? then it is mine" one step, so taking a free lock touches
no operating system lock at all. A thread that finds it taken waits at a gate (an ordinary lock
that is closed); whoever lets the lock go opens the gate, and all who waited try again:

    1. A holds the lock.  B finds it taken, sets up a closed gate and waits there, GIL released.
    2. A releases: takes the gate off the lock, opens it.
    3. B passes (leaving the gate open for the others) and tries again.

Interpreted, it is `threading.RLock`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import threading
from typing import Any

if cython.compiled:
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as get_ident
    from cython.cimports.sojourn.task import TimerTask
else:
    from threading import get_ident

    from sojourn.task import TimerTask


@cython.no_gc
@cython.cclass
class LockedTask(TimerTask):
    """A timer task and a lock, in one object, since there may be millions of them.

    The thread that has the lock may take it again; let it go as often as you took it.
    """

    __slots__ = ("_sj_depth", "_sj_gate", "_sj_owner")

    _sj_gate: Any

    def __init__(self, delay_ms: int) -> None:
        TimerTask.__init__(self, delay_ms)
        self._sj_gate = None if cython.compiled else threading.RLock()
        self._sj_owner = 0
        self._sj_depth = 0

    def try_acquire(self) -> bool:
        """Take the lock if no other thread has it; say whether we have it now."""
        if not cython.compiled:
            return self._sj_gate.acquire(blocking=False)  # type: ignore[no-any-return]
        me = get_ident()
        if self._sj_depth and self._sj_owner != me:
            return False
        self._sj_owner = me
        self._sj_depth += 1
        return True

    def acquire(self) -> None:
        """Take the lock, waiting for it if need be."""
        if not cython.compiled:
            self._sj_gate.acquire()
        while cython.compiled and not self.try_acquire():
            fresh = threading.Lock()
            fresh.acquire()
            if self._sj_depth == 0:  # let go while the gate was being built
                continue
            if self._sj_gate is None:
                self._sj_gate = fresh
            gate = self._sj_gate
            gate.acquire()
            gate.release()

    def release(self) -> None:
        """Let the lock go once."""
        gate = self._sj_gate
        if not cython.compiled:
            gate.release()
        else:
            self._sj_depth -= 1
            if self._sj_depth == 0 and gate is not None:
                self._sj_gate = None
                gate.release()
