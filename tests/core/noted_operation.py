"""An operation that notes what is called."""

from __future__ import annotations

import threading
from types import TracebackType

from sojourn import DelayedOperation

WAIT_S = 30.0


class Noted(DelayedOperation):
    """Notes what is called, in order; completes once `ready`."""

    def __init__(self, timeout_ms: int = 100, lock: CountingLock | None = None) -> None:
        super().__init__(timeout_ms, lock)
        self.calls: list[str] = []
        self.ready = False

    def try_complete(self) -> bool:
        self.calls.append("try_complete")
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.calls.append("on_complete")

    def on_expiration(self) -> None:
        self.calls.append("on_expiration")

    @property
    def endings(self) -> list[str]:
        return [call for call in self.calls if call != "try_complete"]


class CountingLock:
    """A re-entrant lock of a user's that knows how deep it is held."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.depth = 0
        self.taken = 0

    def acquire(self) -> bool:
        self._lock.acquire()
        self.depth += 1
        self.taken += 1
        return True

    def release(self) -> None:
        self.depth -= 1
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class Failing(Noted):
    """Raises where it is told to, once it is ready."""

    def __init__(self, where: str, error: BaseException, timeout_ms: int = 100) -> None:
        super().__init__(timeout_ms)
        self.where = where
        self.error = error

    def _maybe(self, here: str) -> None:
        if self.ready and self.where == here:
            raise self.error

    def try_complete(self) -> bool:
        self.calls.append("try_complete")
        self._maybe("try_complete")
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        super().on_complete()
        self._maybe("on_complete")

    def on_expiration(self) -> None:
        super().on_expiration()
        self._maybe("on_expiration")
