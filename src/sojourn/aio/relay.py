"""The relay: an operation's future as the core sees it, and the loop's own that it settles."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

from sojourn.aio.wait import Home
from sojourn.core.operation import DelayedOperation
from sojourn.errors import Cancelled, Closed


class Relay:
    """The future of an operation as the core sees it; settles the loop's own, from any thread.

    So whoever ends the operation may do it in any thread, and a future whose operation was
    cancelled fails with an error instead of pretending that its task was cancelled.
    """

    __slots__ = ("_future", "_home", "_is_settled", "_operation")

    def __init__(
        self, home: Home, future: asyncio.Future[bool], operation: DelayedOperation
    ) -> None:
        self._home = home
        self._future = future
        self._operation = weakref.ref(operation)
        self._is_settled = False

    def done(self) -> bool:
        return self._future.done()

    def set_result(self, result: bool, /) -> None:
        self._settle(result)

    def set_exception(self, exception: BaseException, /) -> None:
        self._settle(exception)

    def cancel(self) -> bool:
        name = self._home.core.name
        if self._home.is_closed:
            self._settle(Closed(f"purgatory {name!r} was closed"))
        else:
            self._settle(Cancelled(f"the operation was cancelled in purgatory {name!r}"))
        return True

    def on_done(self, future: asyncio.Future[bool]) -> None:
        """The future is done: if its owner cancelled it, cancel the operation."""
        operation = self._operation()
        if operation is not None and not self._is_settled and future.cancelled():
            operation.cancel()

    def _settle(self, outcome: Any) -> None:
        self._is_settled = True
        if self._home.is_here():
            self._settle_here(outcome)
        else:
            self._home.call_soon(self._settle_here, outcome, None)

    def _settle_here(self, outcome: Any) -> None:
        if self._future.done():  # its owner has cancelled it
            return
        if isinstance(outcome, BaseException):
            self._future.set_exception(outcome)
            self._future.exception()  # counts as retrieved: asyncio need not log it once more
        else:
            self._future.set_result(outcome)
