"""A task with a re-entrant lock of its own, which costs a few nanoseconds where compiled.

Compiled, the GIL makes "is it free? then it is mine" one step, so taking a free lock touches
no operating system lock at all. A thread that finds it taken waits at a gate (an ordinary lock
that is closed); whoever releases the lock opens the gate, and all who waited try again:

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

from sojourn.core.alike import start_out

if not cython.compiled:
    from threading import get_ident

    from sojourn.core.task import TimerTask


@cython.no_gc
@cython.cclass
class LockedTask(TimerTask):
    """A timer task and a lock, in one object, since there may be millions of them.

    The thread that has the lock may take it again; release it as often as you took it. A lock of
    the user's may take its place (`_sj_foreign`); it then stands where the gate would.
    """

    __slots__ = ("_sj_depth", "_sj_foreign", "_sj_gate", "_sj_owner")

    _sj_owner: int
    _sj_depth: int
    _sj_gate: Any
    _sj_foreign: bool

    def _sj_try_acquire(self) -> bool:
        """Take the lock if no other thread has it; say whether we have it now.

        A lock of the user's may be held by anybody for any reason, so there we wait for it.
        """
        if self._sj_foreign:
            self._sj_gate.acquire()
            return True
        if not cython.compiled:
            return self._sj_gate.acquire(blocking=False)  # type: ignore[no-any-return]
        me = get_ident()
        if self._sj_depth and self._sj_owner != me:
            return False
        self._sj_owner = me
        self._sj_depth += 1
        return True

    def _sj_acquire(self) -> None:
        """Take the lock, waiting for it if need be."""
        if self._sj_foreign or not cython.compiled:
            self._sj_gate.acquire()
        else:
            while not self._sj_try_acquire():
                fresh = threading.Lock()
                fresh.acquire()
                if self._sj_depth == 0:  # released while the gate was being built
                    continue
                if self._sj_gate is None:
                    self._sj_gate = fresh
                gate = self._sj_gate
                gate.acquire()
                gate.release()

    def _sj_release(self) -> None:
        """Release the lock once."""
        gate = self._sj_gate
        if self._sj_foreign or not cython.compiled:
            gate.release()
        else:
            self._sj_depth -= 1
            if self._sj_depth == 0 and gate is not None:
                self._sj_gate = None
                gate.release()


if not cython.compiled:
    start_out(LockedTask, {"_sj_gate": threading.RLock}, _sj_foreign=False)
