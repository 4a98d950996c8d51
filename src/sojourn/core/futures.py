"""Delayed futures: one operation over several futures, with one deadline for all of them.

It completes when every future is done. At the deadline whoever waits for it is told, and can see
which futures are late. The futures themselves are left to those who settle them: to set a result
or an error in their place would break the thread that computes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, overload

from sojourn.core.alike import not_initialised
from sojourn.core.operation import DelayedOperation, Shown
from sojourn.errors import Closed, WrongType

if TYPE_CHECKING:
    import asyncio

    import sojourn.aio
    from sojourn.core.purgatory import Purgatory


def futures_of(wait: Any) -> list[Future[Any]]:
    """The futures it waits for."""
    if wait._sj_futures is None:
        raise not_initialised(wait)
    return list(wait._sj_futures)


def late_of(wait: Any) -> list[Future[Any]]:
    """The futures that were not done at the deadline; empty unless it has expired."""
    if wait._sj_futures is None:
        raise not_initialised(wait)
    return list(wait._sj_late)


class DelayedFuture(DelayedOperation):
    """Waits for all of `futures`, at most `timeout_ms`; `on_done(futures)` is called once, then.

        wait = DelayedFuture([a, b, c], timeout_ms=500, on_done=respond)
        if not wait.watch_in(purgatory).result():
            print("late:", wait.late)

    At the deadline those that run are left running. Those that have not started are cancelled,
    so that an executor does not start them for nobody. With `cancel_late=False` they are left
    alone too: for futures that you settle without `set_running_or_notify_cancel()`.
    """

    _sj_futures: Any = None
    _sj_on_done: Any = None
    _sj_cancel_late = True
    _sj_done = 0  # how many futures, from the first on, are known to be done
    _sj_late: tuple[Future[Any], ...] = ()

    futures: Any = Shown(futures_of)
    late: Any = Shown(late_of)

    def __init__(
        self,
        futures: Iterable[Future[Any]],
        timeout_ms: int,
        on_done: Callable[[list[Future[Any]]], object] | None = None,
        *,
        cancel_late: bool = True,
    ) -> None:
        super().__init__(timeout_ms)
        self._sj_futures = _checked_futures(futures)
        if on_done is not None and not callable(on_done):
            raise WrongType(f"on_done must be callable, got {on_done!r}")
        self._sj_on_done = on_done
        self._sj_cancel_late = bool(cancel_late)

    @overload
    def watch_in(self, purgatory: Purgatory) -> Future[bool]: ...

    @overload
    def watch_in(self, purgatory: sojourn.aio.Purgatory) -> asyncio.Future[bool]: ...

    def watch_in(self, purgatory: Any) -> Any:
        """Wait in the purgatory; the result is True if all were done in time."""
        if self._sj_futures is None:
            raise not_initialised(self)
        if not (hasattr(purgatory, "submit") and hasattr(purgatory, "check_and_complete")):
            raise WrongType(f"purgatory must be a Purgatory, got {purgatory!r}")
        news = _News(purgatory)
        outcome = purgatory.submit(self, [news])
        outcome.add_done_callback(news.stop)
        for future in self._sj_futures:  # also those that are done by now, lest one be missed
            future.add_done_callback(news)
        # A finaliser that finishes a future in the middle of `add_done_callback` calls nobody.
        purgatory.check_and_complete(news)
        return outcome

    def try_complete(self) -> bool:
        futures = self._sj_futures
        if futures is None:
            raise not_initialised(self)
        while self._sj_done < len(futures):
            if not futures[self._sj_done].done():
                return False
            self._sj_done += 1
        return self.force_complete()

    def on_complete(self) -> None:
        if self.is_expired:
            self._sj_late = tuple(future for future in self._sj_futures if not future.done())
            if self._sj_cancel_late:
                for future in self._sj_late:
                    future.cancel()  # does nothing to one that runs
        if self._sj_on_done is not None:
            self._sj_on_done(list(self._sj_futures))


class _News:
    """Brings a purgatory the news that a future is done; the key it is watched on is itself.

    Futures keep their callbacks for good, so it forgets the purgatory once the wait is over.
    """

    __slots__ = ("_purgatory",)

    def __init__(self, purgatory: Any) -> None:
        self._purgatory = purgatory

    def __call__(self, _: Future[Any]) -> None:
        purgatory = self._purgatory
        if purgatory is not None:
            with contextlib.suppress(Closed):  # an event loop that has gone
                purgatory.check_and_complete(self)

    def stop(self, _: object) -> None:
        self._purgatory = None


def _checked_futures(futures: Any) -> list[Future[Any]]:
    try:
        checked = list(futures)
    except TypeError:
        raise WrongType(
            f"futures must be a list of concurrent.futures.Future, got {futures!r}"
        ) from None
    for future in checked:
        if not isinstance(future, Future):
            raise WrongType(f"futures must be concurrent.futures.Future, got {future!r}")
    return checked
