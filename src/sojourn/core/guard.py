"""The guard: what makes a step atomic in the interpreted build.

Our sources mark their atomic steps: short functions that change links, counts or states and
call no user code. Compiled, such a step holds the GIL from its first line to its last, and makes
no object that the garbage collector counts, so nothing can come in between: no other thread, no
collection. Interpreted, a thread may lose the GIL between any two bytecodes (and there may be no
GIL at all), so each such step is wrapped in one process-wide lock: the guard plays the GIL's
part. One lock means there is no order to take locks in.

A collection inside a step would run finalisers there, in this thread, where the lock does not
keep them out; and a finaliser that waited for another thread would hold the lock meanwhile. So
automatic collection is switched off for the length of a step. A `gc.disable()` that another
thread calls in that very moment is undone when the step ends.

A signal handler can still come in between, in the main thread. Cancelling from there is put off
until the step is over. Anything else raises `Reentered`, which is better than a deadlock and
much better than a torn list.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from gc import disable, enable, isenabled
from typing import Any

from sojourn.errors import Reentered


class Guard:
    """A process-wide lock that knows when its own thread comes in again."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._was_collecting = False
        self._put_off: deque[Callable[[], object]] = deque()
        #: Say whether the calling thread is in the middle of an atomic step.
        self.held_here: Callable[[], bool] = self._lock._is_owned  # type: ignore[attr-defined]
        if hasattr(os, "register_at_fork"):
            # Nobody is in the middle of a step when the process forks. In the child the thread
            # that forked, which has the lock, is the only one.
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._lock.release,
            )

    def __enter__(self) -> None:
        if self.held_here():
            raise _reentered()
        self._lock.acquire()
        self._was_collecting = isenabled()
        disable()

    def __exit__(self, *_: object) -> None:
        if self._was_collecting:
            enable()
        self._lock.release()
        self._run_put_off()

    def put_off(self, action: Callable[[], object]) -> None:
        """Run the action once the step that is under way in this thread is over."""
        self._put_off.append(action)

    def protect(self, namespace: Any, *names: str) -> None:
        """Make the named functions of a module's globals, or methods of a class, take the guard."""
        for name in names:
            if isinstance(namespace, dict):
                namespace[name] = self._guarded(namespace[name])
            else:
                setattr(namespace, name, self._guarded(getattr(namespace, name)))

    def _guarded(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the step as `with self:` would, in half the time."""
        acquire, release, held_here = self._lock.acquire, self._lock.release, self.held_here
        put_off = self._put_off

        @functools.wraps(step)
        def guarded(*args: Any) -> Any:
            if held_here():
                raise _reentered()
            was_collecting = False
            # While we have the lock and collection is on, nothing here makes an object.
            acquire()
            try:
                was_collecting = isenabled()
                disable()
                return step(*args)
            finally:
                if was_collecting:
                    enable()
                release()
                if put_off:
                    self._run_put_off()

        return guarded

    def _run_put_off(self) -> None:
        while self._put_off:
            try:
                action = self._put_off.popleft()
            except IndexError:  # another thread took the last one
                return
            action()


def _reentered() -> Reentered:
    return Reentered(
        "a signal handler called into sojourn while this thread was changing it; "
        "hand the call to another thread, or use the compiled build"
    )


GUARD = Guard()
