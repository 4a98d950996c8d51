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
         operation._sj_watches -+-> _sibling -> ...             the watches of an operation: a chain
         operation's timer links (task.py)

An operation that ends leaves every circle at once, along its own chain, and a key whose circle
is empty vanishes: nothing dead is ever kept or counted, and there is nothing to purge.

No lock is taken here. What changes circles and counts is an atomic step (_guard.py) and calls
no user code. What may call it, the look-up of a key, whose `__hash__` and `__eq__` may be the
user's, happens between such steps, and what it found is looked at again in the next step. A
step takes keys out of the dictionary only by identity, see `Key`.
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
    from cython.cimports.sojourn._collector import PyObject_GC_Track, PyObject_GC_UnTrack
    from cython.cimports.sojourn.histogram import Histogram
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
        return self._submit(operation, _checked_keys(keys), None)

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
        if operation.is_completed:
            raise AlreadyWaiting(f"{operation!r} has ended already; make a new one")
        self._submit(operation, _checked_keys(keys), future)

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that watches the key; return how many this call completed."""
        return self._check(as_key(key))

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Stop watching, on all their keys, the operations on this one; return them.

        Their timeouts are dropped too. They are not completed: that, if wanted, is up to you.
        """
        return [operation for operation in self._watching(as_key(key)) if self.give_up(operation)]

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
        self._let_go(operation, self.timer.now_us())

    def failed(self, operation: DelayedOperation) -> None:
        self._count_error()

    def give_up(self, operation: DelayedOperation) -> bool:
        taken = self._disown(operation)
        if taken is None:
            return False
        if taken is not self:
            taken.cancel()
        return True

    # Submitting and signalling.

    def _submit(self, operation: DelayedOperation, keys: Any, future: AnyFuture | None) -> bool:
        stay = self._admit(operation, future)
        if not stay:
            return False
        try:
            # The lock is held from the first try to the second, so that a signal that finds the
            # operation in a circle in between leaves its mark instead of waiting (KAFKA-8334).
            completed = False
            operation.enter()
            try:
                checks = self._checks
                completed = operation.attempt()
                if not completed:
                    for key in keys:
                        self._watch(operation, stay, key)
                    if self._checks != checks:  # a signal may have come too early to find it
                        completed = operation.attempt()
            finally:
                operation.leave()
                if operation._sj_again:
                    completed = operation.try_again(completed)
            now_us = self.timer.now_us()
            if self._arm(operation, stay, now_us):
                self.timer.schedule(operation, operation._sj_delay_ms, now_us)
                # It may have ended between the two steps; then it must not stay on the timer.
                if operation._sj_state != PENDING:
                    detach(operation)
        except BaseException:
            if operation._sj_stay == stay:
                self.give_up(operation)
            raise
        return completed

    def _watch(self, operation: DelayedOperation, stay: int, key: Any) -> None:
        watch = Watch.__new__(Watch)
        watch._operation = operation
        watch._key = key
        watch._is_first = True
        watch._sj_next = watch
        watch._sj_prev = watch
        watch._sibling = None
        try:
            # Either it starts the key's circle, or it joins the one that is there.
            while not self._join(operation, stay, watch, self._watchers.setdefault(key, watch)):
                pass
        except BaseException:  # the key's __eq__ raised
            scrap(watch)
            raise

    def _check(self, key: Any) -> int:
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

    def _watching(self, key: Any) -> list[DelayedOperation]:
        """The operations on the key, in the order they came."""
        found: list[DelayedOperation] = []
        while True:
            first = self._watchers.get(key)
            if first is None or self._gather(first, found):
                return found

    # The atomic steps.

    def _admit(self, operation: DelayedOperation, future: AnyFuture | None) -> int:
        """Make the operation ours; return the number of its stay, 0 if it has ended already."""
        if self._closed:
            raise Closed(f"purgatory {self.name!r} is closed; make a new one")
        if operation._sj_state == CANCELLED:
            operation._sj_state = PENDING
            operation._sj_error = None
        elif operation._sj_state != PENDING:
            return 0
        elif operation._sj_keeper is not None or operation._sj_list is not None:
            raise AlreadyWaiting(f"this {type(operation).__name__} waits already; cancel it first")
        operation._sj_keeper = self
        operation._sj_future = future
        operation._sj_stay += 1
        return operation._sj_stay

    def _join(self, operation: DelayedOperation, stay: int, watch: Watch, first: Watch) -> bool:
        """Put the watch into the circle of `first`; False if that has gone in the meantime.

        An operation that has ended by now, or watches the key already, does not join.
        """
        if operation._sj_stay != stay or operation._sj_state != PENDING:
            if first is watch:
                self._part(watch)
            else:
                scrap(watch)
            return True
        if first is not watch:
            if first._operation is None:
                return False
            last = first._sj_prev
            if last._operation is operation:  # the same key twice
                scrap(watch)
                return True
            watch._key = first._key  # the very one that is in the dictionary
            watch._is_first = False
            watch._sj_prev = last
            watch._sj_next = first
            last._sj_next = watch
            first._sj_prev = watch
        watch._sibling = operation._sj_watches
        operation._sj_watches = watch
        self.watched += 1
        return True

    def _gather(self, first: Watch, found: list[DelayedOperation]) -> bool:
        """List the operations of a circle; False if it has gone in the meantime."""
        if first._operation is None:
            return False
        watch = first
        while True:
            found.append(watch._operation)
            watch = watch._sj_next
            if watch is first:
                return True

    def _arm(self, operation: DelayedOperation, stay: int, now_us: int) -> bool:
        """Note that the operation's time runs from now; False if it has ended."""
        if operation._sj_stay != stay or operation._sj_state != PENDING:
            return False
        if self._closed:
            raise Closed(f"purgatory {self.name!r} was closed as the operation came in")
        operation._sj_armed = True
        if cython.compiled:  # we hold it now, so there is nothing for the collector to find out
            PyObject_GC_UnTrack(operation)
        operation._sj_started_us = now_us
        self.delayed += 1
        return True

    def _disown(self, operation: DelayedOperation) -> Any:
        """Be the one who cancels the operation; None if it has ended or is not ours.

        Gives its future to the caller, or if it has none this purgatory.
        """
        if operation._sj_state != PENDING or operation._sj_keeper is not self:
            return None
        operation._sj_state = CANCELLED
        operation._sj_keeper = None
        operation._sj_stay += 1
        if operation._sj_list is not None:
            unlink(operation)
        self._cancelled += 1
        self._disarm(operation)
        future, operation._sj_future = operation._sj_future, None
        return self if future is None else future

    def _let_go(self, operation: DelayedOperation, now_us: int) -> None:
        """Count how the operation ended, and how long it waited."""
        if operation._sj_state == EXPIRED:
            self._expired += 1
            self._lateness.record_us(now_us - operation._sj_expiration_ms * 1000)
        else:
            self._completed += 1
        self._waiting.record_us(now_us - operation._sj_started_us if operation._sj_armed else 0)
        self._disarm(operation)

    def _count_error(self) -> None:
        self._errors += 1

    def _count_check(self) -> None:
        self._checks += 1

    # The raw steps.

    def _disarm(self, operation: DelayedOperation) -> None:
        """Leave every circle, and the count of those with a timeout."""
        if operation._sj_armed:
            operation._sj_armed = False
            self.delayed -= 1
            if cython.compiled:
                PyObject_GC_Track(operation)
        watch = operation._sj_watches
        while watch is not None:
            operation._sj_watches = watch._sibling
            self._part(watch)
            self.watched -= 1
            watch = operation._sj_watches

    def _part(self, watch: Watch) -> None:
        """Take the watch out of its circle, and the key with it if it was the last."""
        after = watch._sj_next
        if after is watch:
            self._strike(watch._key)
        else:
            before = watch._sj_prev
            before._sj_next = after
            after._sj_prev = before
            if watch._is_first:
                after._is_first = True
                self._replace(watch._key, after)
        scrap(watch)

    def _strike(self, key: Any) -> None:
        by_identity(True)
        del self._watchers[key]
        by_identity(False)

    def _replace(self, key: Any, first: Watch) -> None:
        by_identity(True)
        self._watchers[key] = first
        by_identity(False)


def scrap(watch: Watch) -> None:
    """Open the links of a watch that is in no circle: the collector does not see them."""
    watch._sj_next = None
    watch._sj_prev = None
    watch._operation = None


class Key:
    """Stands in the dictionary for a key whose `__hash__` or `__eq__` may be the user's code.

    The hash is asked for once, before anything is changed. Inside an atomic step, where only
    keys that are in the dictionary already are looked up, two are equal if they are the same
    object: so no user code can run there, not even for keys whose hashes collide.
    """

    __slots__ = ("hash", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.hash = hash(key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if _by_identity if cython.compiled else GUARD.held_here():
            return False
        key = other.key if isinstance(other, Key) else other
        return self.key is key or bool(self.key == key)


_by_identity = False


def by_identity(only: bool) -> None:
    """Switch `Key` to comparing by identity alone; interpreted, it goes by the guard."""
    if cython.compiled:
        global _by_identity
        _by_identity = only


def as_key(key: Any) -> Any:
    """Return what stands for the key in the dictionary, or say that it cannot be a key."""
    if is_plain(key):
        return key
    try:
        return Key(key)
    except TypeError:
        raise WrongType(f"key {key!r} is not hashable; use a tuple or a string") from None


def is_plain(key: Any) -> bool:
    """Whether looking the key up runs no code of the user's."""
    kind = type(key)
    return kind is str or kind is int or kind is bytes or kind is Key


class _Cancelling:
    """Cancels the operation when its future was cancelled; does not keep it alive."""

    def __init__(self, operation: DelayedOperation) -> None:
        self._operation = weakref.ref(operation)

    def __call__(self, future: Future[bool]) -> None:
        operation = self._operation()
        if operation is not None and future.cancelled():
            operation.cancel()


def _checked_keys(keys: Any) -> Any:
    """Return the keys as a tuple of one or more hashable things, or say what is wrong."""
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
    for key in keys:
        if not is_plain(key):
            return tuple([as_key(key) for key in keys])
    return keys if type(keys) is tuple else tuple(keys)


if not cython.compiled:
    GUARD.protect(
        Purgatory,
        "_admit",
        "_join",
        "_gather",
        "_arm",
        "_disown",
        "_let_go",
        "_count_error",
        "_count_check",
    )
