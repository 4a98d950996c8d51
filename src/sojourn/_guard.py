"""The guard: what makes a step atomic in the interpreted build.

Our sources mark their atomic steps: short functions that change links, counts or states and
call no user code. Compiled, such a step holds the GIL from its first line to its last, so no
other thread can see it half done. Interpreted, a thread may lose the GIL between any two
bytecodes (and there may be no GIL at all), so each such step is wrapped in one process-wide
lock: the guard plays the GIL's part. One lock means there is no order to take locks in.

What the guard cannot stop is this same thread: the garbage collector may run a finaliser in
the middle of a step, and the main thread a signal handler. Cancelling from there is common
(`__del__` cancels a timeout), so it is put off until the step is over. Anything else from
there raises `Reentered`, which is better than a deadlock and much better than a torn list.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from sojourn.errors import Reentered


class Guard:
    """A process-wide lock that knows when its own thread comes in again."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._put_off: deque[Callable[[], object]] = deque()

    def __enter__(self) -> None:
        if self.held_here():
            raise Reentered(
                "a finaliser or signal handler called into sojourn while this thread was "
                "changing it; hand the call to another thread, or use the compiled build"
            )
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        while self._put_off:
            try:
                action = self._put_off.popleft()
            except IndexError:  # another thread took the last one
                return
            action()

    def held_here(self) -> bool:
        """Say whether the calling thread is in the middle of an atomic step."""
        return self._lock._is_owned()  # type: ignore[attr-defined, no-any-return]

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
        @functools.wraps(step)
        def guarded(*args: Any) -> Any:
            with self:
                return step(*args)

        return guarded


GUARD = Guard()
