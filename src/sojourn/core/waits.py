"""A wait: an operation whose condition is a predicate, for a thread that blocks until it holds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from sojourn.core.operation import DelayedOperation
from sojourn.errors import Cancelled, WrongType


class Wait(DelayedOperation):
    """Waits for a predicate, or for progress, and keeps what the predicate returned."""

    __slots__ = ("_predicate", "_value", "outcome")

    def __init__(self, predicate: Callable[[], Any] | None, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self._predicate = predicate
        self._value: Any = True
        self.outcome: Future[bool] = Future()

    def try_complete(self) -> bool:
        if self._predicate is None:
            return False
        value = self._predicate()
        if not value:
            return False
        if hasattr(type(value), "__await__"):
            close = getattr(value, "close", None)
            if close is not None:
                close()
            raise WrongType(
                f"the predicate returned {value!r}, which is always true; "
                "a predicate must be a plain function, not async"
            )
        self._value = value
        return self.force_complete()

    def result(self) -> Any:
        """Block until it has ended; what the predicate returned, or False if time ran out."""
        try:
            return self.outcome.result() and self._value
        except BaseException:
            self.cancel()
            raise

    def _sj_on_cancel(self, why: BaseException | None) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(why or Cancelled("the wait was cancelled"))
