"""The purgatory on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import sojourn.core.purgatory
from sojourn.aio.conditions import checked_signals
from sojourn.aio.face import Face, NotYet
from sojourn.aio.loop import LoopThread
from sojourn.aio.relay import Relay
from sojourn.aio.timer import Timer
from sojourn.aio.wait import Home, new_wait
from sojourn.core.keys import as_key
from sojourn.core.operation import DelayedOperation
from sojourn.core.purgatory import as_list
from sojourn.errors import WrongThread, WrongType

if TYPE_CHECKING:
    from sojourn.core.residents import PurgatoryMetrics

Value = TypeVar("Value")
_ALL: Any = object()  # in place of a key


class Purgatory(Face):
    """A purgatory on the running loop: predicates and callbacks run in the loop's thread.

    Make it inside a coroutine. News and signals may come from any thread; off the loop
    `check_and_complete`, `signal` and `signal_many` hand them to the loop and return 0 at once.
    Looking is safe from any thread too. Everything else belongs to the loop's thread.

    `timer`, an `aio.Timer`, may be shared between purgatories; without one the purgatory makes
    its own, with `tick_ms` and `wheel_size`, and closes it. The other options are those of
    `sojourn.Purgatory`, in milliseconds.
    """

    if TYPE_CHECKING:
        _sj_core: sojourn.core.purgatory.Purgatory
    _sj_timer: Any = NotYet()
    _sj_owns_timer: Any = NotYet()

    def __init__(
        self,
        name: str = "purgatory",
        timer: Timer | None = None,
        *,
        tick_ms: int | None = None,
        wheel_size: int | None = None,
        max_waiting: int | None = None,
        audit_every_ms: int | None = None,
        audit_sample: int = 100,
        forget_keys_after_ms: int | None = None,
    ) -> None:
        self._sj_check_new()
        loop = LoopThread("aio.Purgatory()")
        if timer is None:
            owned = Timer(
                tick_ms=1 if tick_ms is None else tick_ms,
                wheel_size=20 if wheel_size is None else wheel_size,
                name=name,
            )
        elif not isinstance(timer, Timer):
            raise WrongType(f"timer must be an aio.Timer, got {timer!r}")
        elif tick_ms is not None or wheel_size is not None:
            raise WrongType("give tick_ms and wheel_size to the timer")
        elif timer._sj_loop.loop is not loop.loop:
            raise WrongThread("the timer belongs to another event loop; make one on this loop")
        self._sj_timer = owned if timer is None else timer
        self._sj_owns_timer = timer is None
        self._sj_core = sojourn.core.purgatory.Purgatory(
            name,
            self._sj_timer._sj_core,
            max_waiting=max_waiting,
            audit_every_ms=audit_every_ms,
            audit_sample=audit_sample,
            forget_keys_after_ms=forget_keys_after_ms,
        )
        self._sj_loop = Home(loop, self._sj_core)

    @property
    def timer(self) -> Timer:
        """The timer in use."""
        return self._sj_timer  # type: ignore[no-any-return]

    # Waiting.

    @overload
    def wait(
        self,
        predicate: Callable[[], Value],
        *,
        keys: Iterable[Hashable],
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, Value | Literal[False]]: ...

    @overload
    def wait(
        self,
        *,
        requires: Iterable[tuple[Hashable, int]],
        needed: int | None = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, bool]: ...

    def wait(
        self,
        predicate: Callable[[], object] | None = None,
        *,
        keys: Iterable[Hashable] | None = None,
        requires: Iterable[tuple[Hashable, int]] | None = None,
        needed: int | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Wait until the predicate holds, and give what it returned; False after `timeout` seconds.

        The predicate is a plain function, looked at now and whenever one of the keys has news.
        If it raises, so does this. With `requires` in place of both, wait for progress: until
        `needed` of the requirements (key, offset) hold, by default all of them; True or False.

        Await it or make a task of it; until then nothing happens. Cancelling the task leaves
        nothing behind. Raises `Closed` if the purgatory is closed meanwhile, and `Cancelled` if
        somebody cancels the wait but not the task, for instance by its key.
        """
        return new_wait(self._sj_loop, predicate, keys, requires, needed, timeout)

    def submit(
        self,
        operation: DelayedOperation,
        keys: Iterable[Hashable] | None = None,
        *,
        requires: Iterable[tuple[Hashable, int]] | None = None,
        needed: int | None = None,
    ) -> asyncio.Future[bool]:
        """Let an operation of yours wait; return a future of the loop's to await.

        Its result is True if the operation completed and False if it expired, after the
        callbacks; an error that a callback raised is raised by it. It raises `Cancelled` if the
        operation is cancelled and `Closed` if the purgatory is closed. Cancelling the future
        cancels the operation.
        """
        future: asyncio.Future[bool] = self._sj_loop.loop.create_future()
        self.submit_into(future, operation, keys, requires=requires, needed=needed)
        return future

    def submit_into(
        self,
        future: asyncio.Future[bool],
        operation: DelayedOperation,
        keys: Iterable[Hashable] | None = None,
        *,
        requires: Iterable[tuple[Hashable, int]] | None = None,
        needed: int | None = None,
    ) -> None:
        """Do the same with a future of the caller's."""
        self._sj_loop.check()
        self._sj_loop.check_open()
        if not isinstance(operation, DelayedOperation):
            raise WrongType(f"operation must be a DelayedOperation, got {operation!r}")
        relay = Relay(self._sj_loop, future, operation)
        self._sj_core.submit_into(relay, operation, keys, requires=requires, needed=needed)
        future.add_done_callback(relay.on_done)

    def try_complete_else_watch(
        self,
        operation: DelayedOperation,
        keys: Iterable[Hashable] | None = None,
        *,
        requires: Iterable[tuple[Hashable, int]] | None = None,
        needed: int | None = None,
    ) -> bool:
        """Try to complete the operation; if it is not to be, let it wait. See `Purgatory`."""
        self._sj_loop.check()
        self._sj_loop.check_open()
        return self._sj_core.try_complete_else_watch(
            operation, keys, requires=requires, needed=needed
        )

    def submit_many(self, rows: Iterable[tuple[Any, ...]]) -> int:
        """Let many operations wait for progress; return how many completed at once."""
        self._sj_loop.check()
        self._sj_loop.check_open()
        return self._sj_core.submit_many(rows)

    # News and signals, from any thread.

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that watches the key; return how many this call completed."""
        if self._sj_loop.is_here():
            return self._sj_core.check_and_complete(key)
        return self._sj_hand_over(self._sj_core.check_and_complete, as_key(key))

    def signal(self, key: Hashable, offset: int) -> int:
        """Move the key's progress up to the offset; return how many operations that completed."""
        if self._sj_loop.is_here():
            return self._sj_core.signal(key, offset)
        return self._sj_hand_over(self._sj_core.signal_many, checked_signals([(key, offset)]))

    def signal_many(self, signals: Iterable[tuple[Hashable, int]]) -> int:
        """Do that for each (key, offset), in order; all are checked before the first is sent."""
        if self._sj_loop.is_here():
            return self._sj_core.signal_many(signals)
        signals = as_list(signals, "signals must be (key, offset) pairs")
        if not signals:
            return 0
        return self._sj_hand_over(self._sj_core.signal_many, checked_signals(signals))

    # Looking, from any thread, and ending.

    def progress(self, key: Hashable) -> int | None:
        """How far the key has come: the largest offset signalled; None if none is known."""
        return self._sj_core.progress(key)

    def waiting(self, key: Hashable = _ALL) -> list[DelayedOperation]:
        """Return the operations that wait on the key, or all of them, as they are now."""
        return self._sj_core.waiting() if key is _ALL else self._sj_core.waiting(key)

    @property
    def watched(self) -> int:
        """Places in all watch lists, and requirements that do not hold yet."""
        return self._sj_core.watched

    @property
    def delayed(self) -> int:
        """Operations with a running timeout."""
        return self._sj_core.delayed

    def metrics(self) -> PurgatoryMetrics:
        """Return counts and histograms as they are now."""
        return self._sj_core.metrics()

    def audit(self, sample: int = 100) -> int:
        """Try a sample of the waiting operations, which nobody signalled; return how many held."""
        self._sj_loop.check()
        return self._sj_core.audit(sample)

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Stop waiting, on all their keys, the operations on this one; return them.

        Whoever waits for one of them gets `Cancelled`.
        """
        self._sj_loop.check()
        return self._sj_core.cancel_for_key(key)

    def close(self) -> int:
        """Take no more operations and drop those that wait; return how many that was.

        Whoever waits for one of them gets `Closed`.
        """
        self._sj_loop.check()
        self._sj_loop.is_closed = True
        dropped = self._sj_core.close()
        if self._sj_owns_timer:
            self._sj_timer.close()
        return dropped

    def _sj_hand_over(self, call: Callable[..., int], *args: Any) -> int:
        try:
            self._sj_loop.loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            self._sj_loop.check_open()
            raise
        return 0
