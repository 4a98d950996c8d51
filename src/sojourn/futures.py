"""Delayed futures: one operation over several futures, with one deadline for all of them.

It completes when every future is done. At the deadline it fails those that are not with a
`TimeoutError`, so nobody who waits on one of them waits for ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any

from sojourn.errors import WrongType
from sojourn.operation import DelayedOperation

if TYPE_CHECKING:
    from sojourn.purgatory import Purgatory


class DelayedFuture(DelayedOperation):
    """Waits for all of `futures`; `on_done(futures)` is called once, when all are done.

    wait = DelayedFuture([a, b, c], timeout_ms=500, on_done=respond)
    wait.watch_in(purgatory)
    """

    def __init__(
        self,
        futures: Iterable[Future[Any]],
        timeout_ms: int,
        on_done: Callable[[list[Future[Any]]], object] | None = None,
    ) -> None:
        super().__init__(timeout_ms)
        self.futures = list(futures)
        for future in self.futures:
            if not isinstance(future, Future):
                raise WrongType(f"futures must be concurrent.futures.Future, got {future!r}")
        self._on_done = on_done

    def watch_in(self, purgatory: Purgatory) -> Future[bool]:
        """Wait in the purgatory; the result is True if all were done in time."""
        # It watches itself, by identity, and each future brings news of it.
        outcome = purgatory.submit(self, [self])
        for future in self.futures:  # also those that are done by now, lest one be missed
            future.add_done_callback(lambda _: purgatory.check_and_complete(self))
        return outcome

    def try_complete(self) -> bool:
        return all(future.done() for future in self.futures) and self.force_complete()

    def on_complete(self) -> None:
        if self.is_expired:
            for future in self.futures:
                if not future.done():
                    self._fail(future)
        if self._on_done is not None:
            self._on_done(self.futures)

    def _fail(self, future: Future[Any]) -> None:
        with contextlib.suppress(InvalidStateError):  # done in the meantime
            future.set_exception(TimeoutError(f"not done within {self.timeout_ms} ms"))
