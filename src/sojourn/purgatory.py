"""The purgatory: where operations wait, watched by key, until they complete or expire.

    try_complete_else_watch(op, ["a", "b"])

      1. try                        done? then it never waits
      2. watch "a" and "b"          from here on a signal finds it
      3. try again                  if a signal came between 1 and 2, when it found nothing
      4. start the timeout

    check_and_complete("a")         try every operation that watches "a"

What each operation hangs on:

    "a" -> first Watch <-> Watch <-> Watch <-> (first)       the watchers of a key: a circle
    "b" -> first Watch <-> Watch <-> (first)
                             |
         operation._watches -+-> _sibling -> ...             the watches of an operation: a chain
         operation's timer links (task.py)

An operation that ends leaves every circle at once, along its own chain, and a key whose circle
is empty vanishes: nothing dead is ever kept or counted, and there is nothing to purge.

Locks. The purgatory's own lock covers the dictionary and the circles. Under it run only the
`__hash__` and `__eq__` of keys, as in any dictionary; no callback ever does.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import weakref
from collections.abc import Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sojourn._guard import GUARD
from sojourn.errors import AlreadyWaiting, Closed, OutOfRange, WrongType

if cython.compiled:
    from cython.cimports.sojourn.histogram import Histogram
    from cython.cimports.sojourn.lock import ReentrantLock
    from cython.cimports.sojourn.operation import (
        CANCELLED,
        EXPIRED,
        PENDING,
        DelayedOperation,
        Keeper,
        Watch,
    )
    from cython.cimports.sojourn.task import detach, unlink
    from cython.cimports.sojourn.timer import Timer
else:
    from sojourn.histogram import Histogram
    from sojourn.lock import ReentrantLock
    from sojourn.operation import (
        CANCELLED,
        EXPIRED,
        PENDING,
        DelayedOperation,
        Keeper,
        Watch,
    )
    from sojourn.task import detach, unlink
    from sojourn.timer import Timer

if TYPE_CHECKING:
    from sojourn.clock import Clock
    from sojourn.histogram import HistogramSnapshot


class AnyFuture(Protocol):
    """What is asked of a future: `concurrent.futures.Future` and `asyncio.Future` both will do."""

    def done(self) -> bool: ...

    def cancel(self) -> bool: ...

    def set_result(self, result: bool, /) -> None: ...

    def set_exception(self, exception: Any, /) -> None: ...


@dataclass(frozen=True)
class PurgatoryMetrics:
    """A purgatory's counts at one moment."""

    watched: int
    delayed: int
    completed: int
    expired: int
    cancelled: int
    errors: int
    lateness: HistogramSnapshot
    waiting: HistogramSnapshot


class Purgatory(Keeper):
    """Operations waiting, each watched on one or more keys.

    `timer` may be shared between purgatories; without one the purgatory makes its own, on
    `clock`, and closes it. Every method may be called from any thread, also from inside an
    operation's callbacks.
    """

    __slots__ = (
        "__weakref__",
        "_cancelled",
        "_checks",
        "_closed",
        "_completed",
        "_errors",
        "_expired",
        "_lateness",
        "_lock",
        "_owns_timer",
        "_waiting",
        "_watchers",
        "delayed",
        "name",
        "timer",
        "watched",
    )

    def __init__(
        self, name: str = "purgatory", timer: Timer | None = None, clock: Clock | None = None
    ) -> None:
        if timer is not None and not isinstance(timer, Timer):
            raise WrongType(f"timer must be a sojourn.Timer, got {timer!r}")
        if timer is not None and clock is not None and timer.clock is not clock:
            raise WrongType("give timer or clock, not both: the timer has its own clock")
        self.name = str(name)
        self._owns_timer = timer is None
        self.timer = Timer(clock, name=self.name) if timer is None else timer
        self._closed = False
        self._lock = ReentrantLock()
        self._watchers: dict[Hashable, Watch] = {}  # key -> the first of its circle
        #: Entries in all watch lists.
        self.watched = 0
        #: Operations with a running timeout.
        self.delayed = 0
        self._checks = 0
        self._completed = 0
        self._expired = 0
        self._cancelled = 0
        self._errors = 0
        self._lateness = Histogram()
        self._waiting = Histogram()

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        """Try to complete the operation; if it is not to be, watch it on every key.

        True only if this call completed it. False means that it waits, or that another thread
        has ended it. `keys` are one or more hashable objects.
        """
        if not isinstance(operation, DelayedOperation):
            raise WrongType(f"operation must be a DelayedOperation, got {operation!r}")
        return self._submit(operation, _checked_keys(keys))

    def submit(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> Future[bool]:
        """Do the same, and return a future for code that wants to wait.

        Its result is True if the operation completed and False if it expired, after the
        callbacks; an error that a callback raised is raised by it. Cancelling the operation
        cancels the future, and cancelling the future cancels the operation.
        """
        future: Future[bool] = Future()
        self.submit_into(future, operation, keys)
        future.add_done_callback(_Cancelling(operation))
        return future

    def submit_into(
        self, future: AnyFuture, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> None:
        """Do the same with a future of the caller's, also asyncio's; cancelling is up to them."""
        if not isinstance(operation, DelayedOperation):
            raise WrongType(f"operation must be a DelayedOperation, got {operation!r}")
        keys = _checked_keys(keys)
        if operation.is_completed:
            raise AlreadyWaiting(f"{operation!r} has ended already; make a new one")
        self._submit_for(future, operation, keys)

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that watches the key; return how many this call completed."""
        return self._check(key)

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Stop watching, on all their keys, the operations on this one; return them.

        Their timeouts are dropped too. They are not completed: that, if wanted, is up to you.
        """
        return [operation for operation in self._watching(key) if self.give_up(operation)]

    def metrics(self) -> PurgatoryMetrics:
        """Return counts and histograms as they are now."""
        return PurgatoryMetrics(
            self.watched,
            self.delayed,
            self._completed,
            self._expired,
            self._cancelled,
            self._errors,
            self._lateness.snapshot(),
            self._waiting.snapshot(),
        )

    def close(self) -> int:
        """Take no more operations and drop those that wait; return how many that was.

        They are not completed; their futures are cancelled. Waits for callbacks that the
        purgatory's own timer is running, unless called from inside one.
        """
        self._closed = True
        dropped = sum(len(self.cancel_for_key(key)) for key in list(self._watchers))
        if self._owns_timer:
            self.timer.close()
        return dropped

    def __enter__(self) -> Purgatory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<Purgatory {self.name!r} watched={self.watched} delayed={self.delayed}{state}>"

    # What operations tell their keeper.

    def ended(self, operation: DelayedOperation) -> None:
        self._unwatch(operation)
        self._count_end(operation, self.timer.now_us())

    def failed(self, operation: DelayedOperation, where: str, error: BaseException) -> None:
        self._count_error()

    def give_up(self, operation: DelayedOperation) -> bool:
        if not self._disown(operation):
            return False
        self._unwatch(operation)
        future, operation._future = operation._future, None
        if future is not None:
            future.cancel()
        return True

    # Submitting and signalling.

    def _check(self, key: Hashable) -> int:
        self._count_check()
        completed = 0
        interrupt: BaseException | None = None
        for operation in self._watching(key):
            try:
                if operation.signalled(self):
                    completed += 1
            except (KeyboardInterrupt, SystemExit) as error:  # the others are tried first
                interrupt = error
        if interrupt is not None:
            raise interrupt
        return completed

    def _submit_for(self, future: AnyFuture, operation: DelayedOperation, keys: Any) -> None:
        operation._future = future
        try:
            self._submit(operation, keys)
        except BaseException:
            operation._future = None
            raise

    def _submit(self, operation: DelayedOperation, keys: Any) -> bool:
        if not self._admit(operation):
            return False
        try:
            # The lock is held from the first try to the second, so that a signal that finds the
            # operation on a list in between leaves its mark instead of waiting (KAFKA-8334).
            operation.enter()
            try:
                checks = self._checks
                completed = operation.attempt()
                if not completed:
                    self._watch(operation, keys)
                    if self._checks != checks:  # a signal may have come too early to find it
                        completed = operation.attempt()
            finally:
                operation.leave()
            if operation._again:
                completed = operation.try_again(completed)
            if operation._state == PENDING:
                self._start_timeout(operation)
        except BaseException:
            self.give_up(operation)
            raise
        return completed

    def _start_timeout(self, operation: DelayedOperation) -> None:
        now_us = self.timer.now_us()
        if self._arm(operation, now_us):
            self.timer.schedule(operation, operation._delay_ms, now_us)
            # It may have ended between the two steps; then it must not stay on the timer.
            if operation._state != PENDING or operation._keeper is not self:
                detach(operation)

    def _watch(self, operation: DelayedOperation, keys: Any) -> None:
        self._lock.acquire()
        try:
            for key in keys:
                if operation._state != PENDING or operation._keeper is not self:
                    break  # another thread has ended it
                first = self._watchers.get(key)
                if first is not None and first._prev._operation is operation:
                    continue  # the same key twice
                watch = Watch.__new__(Watch)
                watch._operation = operation
                watch._key = key
                watch._is_first = first is None
                if first is None:
                    watch._prev = watch
                    watch._next = watch
                    self._watchers[key] = watch
                else:
                    last = first._prev
                    watch._prev = last
                    watch._next = first
                    last._next = watch
                    first._prev = watch
                watch._sibling = operation._watches
                operation._watches = watch
                self.watched += 1
        finally:
            self._lock.release()

    def _unwatch(self, operation: DelayedOperation) -> None:
        """Take the operation out of every list."""
        self._lock.acquire()
        watch = operation._watches
        operation._watches = None
        while watch is not None:
            after = watch._next
            if after is watch:
                del self._watchers[watch._key]
            else:
                before = watch._prev
                before._next = after
                after._prev = before
                if watch._is_first:
                    after._is_first = True
                    self._watchers[after._key] = after
            watch._next = None
            watch._prev = None
            watch._operation = None
            watch = watch._sibling
            self.watched -= 1
        self._lock.release()

    def _watching(self, key: Hashable) -> list[DelayedOperation]:
        """The operations on the key, in the order they came."""
        found: list[DelayedOperation] = []
        self._lock.acquire()
        try:
            first = self._watchers.get(key)
            if first is not None:
                found.append(first._operation)
                watch = first._next
                while watch is not first:
                    found.append(watch._operation)
                    watch = watch._next
        except TypeError:
            _check_hashable((key,))
            raise
        finally:
            self._lock.release()
        return found

    # The atomic steps.

    def _admit(self, operation: DelayedOperation) -> bool:
        """Make the operation ours, or say why not; False if it has ended already."""
        if self._closed:
            raise Closed(f"purgatory {self.name!r} is closed; make a new one")
        if operation._state == CANCELLED:
            operation._state = PENDING
        elif operation._state != PENDING:
            return False
        elif operation._keeper is not None or operation._list is not None:
            raise AlreadyWaiting(f"{operation!r} waits already; cancel it first")
        operation._keeper = self
        return True

    def _arm(self, operation: DelayedOperation, now_us: int) -> bool:
        """Note that the operation's time runs from now; False if it has ended."""
        if operation._state != PENDING or operation._keeper is not self:
            return False
        if self._closed:
            raise Closed(f"purgatory {self.name!r} was closed as the operation came in")
        operation._armed = True
        operation._started_us = now_us
        self.delayed += 1
        return True

    def _disown(self, operation: DelayedOperation) -> bool:
        """Be the one who cancels the operation; False if it has ended or is not ours."""
        if operation._state != PENDING or operation._keeper is not self:
            return False
        operation._state = CANCELLED
        operation._keeper = None
        if operation._list is not None:
            unlink(operation)
        self._cancelled += 1
        if operation._armed:
            operation._armed = False
            self.delayed -= 1
        return True

    def _count_end(self, operation: DelayedOperation, now_us: int) -> None:
        if operation._state == EXPIRED:
            self._expired += 1
            self._lateness.record_us(now_us - operation._expiration_ms * 1000)
        else:
            self._completed += 1
        if operation._armed:
            operation._armed = False
            self.delayed -= 1
            self._waiting.record_us(now_us - operation._started_us)
        else:
            self._waiting.record_us(0)

    def _count_error(self) -> None:
        self._errors += 1

    def _count_check(self) -> None:
        self._checks += 1


class _Cancelling:
    """Cancels the operation when its future was cancelled; does not keep it alive."""

    def __init__(self, operation: DelayedOperation) -> None:
        self._operation = weakref.ref(operation)

    def __call__(self, future: Future[bool]) -> None:
        operation = self._operation()
        if operation is not None and future.cancelled():
            operation.cancel()


def _checked_keys(keys: Any) -> Any:
    """Return the keys as a list or tuple of one or more hashable things, or say what is wrong."""
    if type(keys) is not list and type(keys) is not tuple:
        if isinstance(keys, (str, bytes)):
            raise WrongType(f"keys must be a list of keys, got {keys!r}; for one key: [{keys!r}]")
        try:
            keys = list(keys)
        except TypeError:
            raise WrongType(f"keys must be a list of keys, got {keys!r}") from None
    if not keys:
        raise OutOfRange(
            "keys is empty: nothing could ever complete the operation; give at least one key"
        )
    _check_hashable(keys)
    return keys


def _check_hashable(keys: Any) -> None:
    key: Any = None
    try:
        for key in keys:
            hash(key)
    except TypeError:
        raise WrongType(f"key {key!r} is not hashable; use a tuple or a string") from None


if not cython.compiled:
    GUARD.protect(
        Purgatory, "_admit", "_arm", "_disown", "_count_end", "_count_error", "_count_check"
    )
