"""The delayed operation: it completes when its condition holds or expires at its deadline, once.

How it ends. Whoever changes the state from PENDING has ended it; everybody else is too late:

                        force_complete()
         +-----------------------------------------> COMPLETED   on_complete()
         |                  its time ran out
      PENDING --------------------------------------> EXPIRED     on_complete(), on_expiration()
         |              cancel, cancel_for_key
         +-----------------------------------------> CANCELLED   nothing is called; it may be
                                                                 completed or submitted later

How it is tried. `try_complete` runs under the operation's lock. A signal that finds another
thread trying does not wait for it, so that a thread inside user code can never hold up, or
deadlock with, the threads that bring news (KAFKA-8334). It leaves a mark instead, and the
thread that is trying tries once more before it is done (KAFKA-6653):

    1. A is inside try_complete and has already looked at the condition: not yet.
    2. B makes the condition true and signals. It sets `again`, fails to get the lock, goes on.
    3. A releases the lock, sees `again`, takes the lock and tries again: completed.

The mark is set before the lock is tried, and looked at after the lock is released, so one of
the two threads always sees the other. A lock of the user's own may be held by anybody for any
reason, so there the signal waits for it.

An operation that waits for progress (progress.py) has no `try_complete` to call: its purgatory
counts the requirements that are missing, and ends it when none is.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import weakref
from collections.abc import Callable
from concurrent.futures import InvalidStateError
from typing import Any, Protocol

from sojourn._log import log, shown
from sojourn.core.alike import not_initialised, start_out
from sojourn.core.guard import GUARD
from sojourn.errors import AlreadyWaiting, WrongType

if cython.compiled:
    from cython.cimports.cpython.object import PyObject
else:
    from threading import get_ident

    from sojourn.core.lock import LockedTask
    from sojourn.core.millis import checked_ms
    from sojourn.core.task import OVERRIDDEN, detach, unlink, waits_already

if not cython.compiled:  # which has them as constants of C, in the .pxd
    PENDING = 0
    COMPLETED = 1
    EXPIRED = 2
    CANCELLED = 3

    # What is known of a condition that is only looked at, at the deadline.
    PROBING = 1  # nothing yet
    HOLDS = 2
    HELD_AT_DEADLINE = 3  # the look is over: it held, and the operation expires all the same

_STATES = ("pending", "completed", "expired", "cancelled")


class Lock(Protocol):
    """What an operation asks of a lock of the user's."""

    def acquire(self) -> Any: ...

    def release(self) -> Any: ...


class AnyFuture(Protocol):
    """What is asked of a future: `concurrent.futures.Future` and `asyncio.Future` both will do."""

    def done(self) -> bool: ...

    def cancel(self) -> bool: ...

    def set_result(self, result: bool, /) -> None: ...

    def set_exception(self, exception: Any, /) -> None: ...


class Keeper:
    """Whoever keeps operations waiting and is told when one ends: the purgatory."""

    __slots__ = ()

    def _sj_on_end(self, operation: DelayedOperation) -> None:
        """The operation has just completed or expired; remove it."""

    def _sj_on_error(self, operation: DelayedOperation) -> None:
        """A callback of the operation raised."""

    def _sj_cancel(self, operation: DelayedOperation, why: BaseException | None) -> bool:
        """Cancel the operation; say whether it was waiting here."""
        return False

    def _sj_before_expiry(self, operation: DelayedOperation) -> None:
        """The operation's time is up, and it is about to expire."""


@cython.no_gc
@cython.cclass
class Keeping:
    """Stands for a keeper in the operations that wait there, and does not keep it alive.

    Compiled, operations that wait are hidden from the garbage collector. If each held a reference
    to its purgatory, the collector would take the purgatory for one that somebody still needs.
    What keeps a purgatory alive while operations wait there is its timer.
    """

    __slots__ = ("keeper",)

    keeper: Any  # a weak reference; compiled, its address, or NULL when it is gone


def keeper_of(operation: DelayedOperation) -> Keeper | None:
    """Return the purgatory in which the operation waits, or last waited; None if it is gone."""
    keeping = operation._sj_keeping
    if keeping is None:
        return None
    if not cython.compiled:
        return keeping.keeper()  # type: ignore[no-any-return]
    if keeping.keeper is cython.NULL or keeping.keeper.ob_refcnt == 0:
        return None
    return cython.cast(Keeper, keeping.keeper)


def new_keeping(keeper: Keeper) -> Keeping:
    """Make what stands for the keeper."""
    keeping = Keeping.__new__(Keeping)
    if cython.compiled:
        keeping.keeper = cython.cast(cython.pointer(PyObject), keeper)
    else:
        keeping.keeper = weakref.ref(keeper)
    return keeping


class Shown:
    """Shows something of an operation under a name that a subclass may use for its own.

    Having no `__set__`, it gives way to an attribute of the same name.
    """

    def __init__(self, look: Callable[[DelayedOperation], Any]) -> None:
        self._look = look
        self.__doc__ = look.__doc__

    def __get__(self, operation: DelayedOperation | None, kind: type | None = None) -> Any:
        return self if operation is None else self._look(operation)


def state_of(operation: DelayedOperation) -> str:
    """Where the operation stands: "pending", "completed", "expired" or "cancelled"."""
    if operation._sj_run is None:
        raise not_initialised(operation)
    return _STATES[operation._sj_state]


def error_of(operation: DelayedOperation) -> BaseException | None:
    """What a callback of the operation raised; None if none has."""
    if operation._sj_run is None:
        raise not_initialised(operation)
    return operation._sj_error  # type: ignore[no-any-return]


def is_cancelled(operation: DelayedOperation) -> bool:
    """Whether the operation was cancelled, and not completed or submitted again since."""
    if operation._sj_run is None:
        raise not_initialised(operation)
    return operation._sj_state == CANCELLED


class DelayedOperation(LockedTask):
    """Something that waits for its condition or its time, whichever comes first.

    Subclass it and give:

    - `try_complete()`: look at the condition; if it holds, return `self.force_complete()` (or
      just True), else False. Called under the operation's lock, from any thread.
    - `on_complete()`: called once when the operation ends, whether in time or not.
    - `on_expiration()`: called after that, only if its time ran out.

    `lock` takes the place of the operation's own re-entrant lock. A callback that raises is
    logged and counted, the operation is ended all the same, and its future gets the error.
    Names that begin with `_sj_` are Sojourn's; a subclass may use any other.
    """

    __slots__ = (
        "__weakref__",
        "_sj_again",
        "_sj_armed",
        "_sj_ended_in_try",
        "_sj_error",
        "_sj_future",
        "_sj_keeping",
        "_sj_missing",
        "_sj_places",
        "_sj_probed",
        "_sj_started_us",
        "_sj_state",
        "_sj_stay",
        "_sj_trier",
    )

    _sj_state: int
    _sj_again: bool
    _sj_armed: bool  # its timeout runs
    _sj_ended_in_try: bool
    _sj_trier: int  # the thread inside try_complete; 0 for none
    _sj_keeping: Any
    _sj_future: Any
    _sj_error: Any
    _sj_started_us: int
    _sj_stay: int  # counts its submissions
    _sj_places: int  # the first of its places in the purgatory; 0 for none
    _sj_missing: int  # waiting for progress: how many requirements must still come to hold
    _sj_probed: int  # 0, PROBING, HOLDS or HELD_AT_DEADLINE

    state: Any = Shown(state_of)
    error: Any = Shown(error_of)
    is_cancelled: Any = Shown(is_cancelled)

    def __init__(self, timeout_ms: int, lock: Lock | None = None) -> None:
        if self._sj_state != PENDING:
            raise AlreadyWaiting(f"{shown(self)} has ended or was cancelled; make a new one")
        if self._sj_list is not None or self._sj_places:
            raise waits_already(self)
        timeout_ms = checked_ms(timeout_ms, "timeout_ms")
        if lock is not None:
            if not (hasattr(lock, "acquire") and hasattr(lock, "release")):
                raise WrongType(f"lock must have acquire() and release(), got {lock!r}")
            self._sj_gate = lock
            self._sj_foreign = True
        self._sj_delay_ms = timeout_ms
        self._sj_run = OVERRIDDEN

    # The user's.

    def try_complete(self) -> bool:
        """Complete the operation if its condition holds; say whether we did.

        Unless overridden it never does: the operation waits for `force_complete()` or its time.
        """
        return False

    def on_complete(self) -> None:
        """The operation has ended, in time or not."""

    def on_expiration(self) -> None:
        """The operation's time ran out; called after `on_complete`."""

    # Ours.

    @property
    def timeout_ms(self) -> int:
        """How long the operation waits at most. Set it only while the operation does not wait."""
        if self._sj_run is None:
            raise not_initialised(self)
        return self._sj_delay_ms

    @timeout_ms.setter
    def timeout_ms(self, timeout_ms: int) -> None:
        if self._sj_run is None:
            raise not_initialised(self)
        if self._sj_list is not None or self._sj_places:
            raise waits_already(self)
        self._sj_delay_ms = checked_ms(timeout_ms, "timeout_ms")

    @property
    def is_completed(self) -> bool:
        """Whether the operation has ended, completed or expired."""
        if self._sj_run is None:
            raise not_initialised(self)
        return self._sj_state == COMPLETED or self._sj_state == EXPIRED

    @property
    def is_expired(self) -> bool:
        """Whether the operation ended because its time ran out; known before `on_complete`."""
        if self._sj_run is None:
            raise not_initialised(self)
        return self._sj_state == EXPIRED

    def force_complete(self) -> bool:
        """Complete the operation unless somebody already has; say whether we did.

        Exactly one caller ever gets True. Cancels the timeout, then calls `on_complete`.
        """
        if self._sj_run is None:
            raise not_initialised(self)
        return self._sj_end(COMPLETED)

    def safe_try_complete(self) -> bool:
        """Try to complete the operation under its lock; say whether we did."""
        if self._sj_run is None:
            raise not_initialised(self)
        completed = False
        self._sj_acquire()
        try:
            completed = self._sj_attempt()
        finally:
            self._sj_release()
            completed = self._sj_try_again(completed)
        return completed

    def safe_try_complete_or_else(self, action: Callable[[], object]) -> bool:
        """Try; if that fails run the action and try again, all under the operation's lock."""
        if self._sj_run is None:
            raise not_initialised(self)
        if not callable(action):
            raise WrongType(f"action must be callable, got {action!r}")
        completed = False
        self._sj_acquire()
        try:
            completed = self._sj_attempt()
            if not completed:
                action()
                completed = self._sj_attempt()
        finally:
            self._sj_release()
            completed = self._sj_try_again(completed)
        return completed

    def cancel(self) -> bool:
        """Stop waiting, without completing; say whether the operation was waiting."""
        if self._sj_run is None:
            raise not_initialised(self)
        if not cython.compiled and GUARD.held_here():
            GUARD.put_off(self.cancel)
            return self._sj_places != 0 or self._sj_list is not None
        keeper = keeper_of(self)
        if keeper is not None:
            return keeper._sj_cancel(self, None)
        return detach(self) is not None

    def run(self) -> None:
        """Expire: the timer calls this at the deadline."""
        if self._sj_run is None:
            raise not_initialised(self)
        keeper = keeper_of(self)
        if keeper is not None:
            keeper._sj_before_expiry(self)
        self._sj_end(EXPIRED)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} timeout_ms={self._sj_delay_ms} {_STATES[self._sj_state]}>"

    # For the purgatory.

    def _sj_attempt(self) -> bool:
        """Call try_complete, if the operation still waits; the lock is held."""
        if self._sj_state != PENDING:
            return False
        outer = self._sj_trier
        self._sj_trier = get_ident()
        self._sj_ended_in_try = False
        try:
            completed = bool(self.try_complete())
            if self._sj_state != PENDING:
                completed = self._sj_ended_in_try
            elif completed:
                completed = self._sj_end(COMPLETED)
        except BaseException as error:
            interrupt = self._sj_fail("try_complete", error)
            completed = self._sj_end(COMPLETED)
            if interrupt is not None:
                raise
        finally:
            self._sj_trier = outer
        return completed

    def _sj_holds(self) -> bool:
        """Look at the condition without completing; False also if another thread is trying."""
        if not self._sj_try_acquire():
            return False
        outer = self._sj_trier
        self._sj_trier = get_ident()
        self._sj_probed = PROBING
        try:
            return bool(self.try_complete()) or self._sj_probed == HOLDS
        except Exception as error:
            self._sj_fail("try_complete", error)
            return False
        finally:
            self._sj_probed = 0
            self._sj_trier = outer
            self._sj_release()

    def _sj_on_signal(self, keeper: Keeper) -> bool:
        """A key has news: try, or leave a mark for the thread that is trying."""
        if keeper_of(self) is not keeper:
            return False
        self._sj_again = True
        me = get_ident()
        if self._sj_trier == me:  # its own try brings the news, and looks at the mark at its end
            return False
        return self._sj_try_again(False)

    def _sj_try_again(self, completed: bool) -> bool:
        """Try for as long as there is news that nobody has tried with."""
        while self._sj_again:
            if not self._sj_try_acquire():
                break  # who has the lock looks at the mark when releasing it
            try:
                self._sj_again = False
                if self._sj_attempt():
                    completed = True
            finally:
                self._sj_release()
        return completed

    def _sj_end(self, state: int) -> bool:
        """End the operation in this state unless somebody already has; say whether we did."""
        me = get_ident()
        if PROBING <= self._sj_probed <= HOLDS and self._sj_trier == me:
            self._sj_probed = HOLDS
            return True
        if not claim(self, state):
            return False
        keeper = keeper_of(self)
        if keeper is not None:
            keeper._sj_on_end(self)
        interrupt = self._sj_finish()
        if interrupt is not None:
            raise interrupt
        return True

    def _sj_finish(self) -> BaseException | None:
        """Call what is to be called once the operation has ended, and tell its future.

        Returns an interrupt that a callback raised, for the caller to raise when it is done.
        """
        interrupt: BaseException | None = None
        try:
            self.on_complete()
        except BaseException as error:
            interrupt = self._sj_fail("on_complete", error)
        if self._sj_state == EXPIRED:
            try:
                self.on_expiration()
            except BaseException as error:
                interrupt = self._sj_fail("on_expiration", error)
        if self._sj_future is not None:
            self._sj_settle()
        return interrupt

    def _sj_fail(self, where: str, error: BaseException) -> BaseException | None:
        """Log, count and keep the error; give it back only if it must be raised again."""
        if error is not self._sj_error:
            self._sj_error = error
            log.error(
                "%s raised in %s; it is ended, the rest goes on",
                shown(self),
                where,
                exc_info=error,
            )
            keeper = keeper_of(self)
            if keeper is not None:
                keeper._sj_on_error(self)
        return error if isinstance(error, (KeyboardInterrupt, SystemExit)) else None

    def _sj_settle(self) -> None:
        """Tell the future how it ended."""
        future = take_future(self)
        if future is None or future.done():  # its owner has cancelled it
            return
        try:
            if self._sj_error is None:
                future.set_result(self._sj_state == COMPLETED)
            elif isinstance(self._sj_error, StopIteration):  # which asyncio's future refuses
                raised = RuntimeError("a callback raised StopIteration")
                raised.__cause__ = self._sj_error
                future.set_exception(raised)
            else:
                future.set_exception(self._sj_error)
        except InvalidStateError:  # cancelled in between
            pass

    def _sj_on_cancel(self, why: BaseException | None) -> None:
        """The purgatory has cancelled the operation: tell whoever waits for it.

        `why` is what a waiter should be told; None if the operation's owner cancelled it.
        """
        future = take_future(self)
        if future is not None:
            future.cancel()


# The atomic steps.


def claim(operation: DelayedOperation, state: int) -> bool:
    """Be the one who ends the operation, and take it off its timer; False if we are too late.

    A cancelled operation may still be completed, by whoever holds it: but not by a try that was
    under way when it was cancelled, or it would end twice.
    """
    me = get_ident()
    if operation._sj_state == CANCELLED:
        if state != COMPLETED or operation._sj_trier == me:
            return False
    elif operation._sj_state != PENDING:
        return False
    elif state == EXPIRED and (
        operation._sj_list is not None
        or (operation._sj_keeping is not None and not operation._sj_armed)
    ):
        return False  # its time was up once, but it was cancelled and waits anew
    operation._sj_state = state
    operation._sj_ended_in_try = state == COMPLETED and operation._sj_trier == me
    if operation._sj_list is not None:
        unlink(operation)
    return True


def take_future(operation: DelayedOperation) -> Any:
    """Give the operation's future to the caller, once."""
    future, operation._sj_future = operation._sj_future, None
    return future


if not cython.compiled:
    start_out(
        DelayedOperation,
        _sj_state=PENDING,
        _sj_again=False,
        _sj_armed=False,
        _sj_ended_in_try=False,
        _sj_probed=0,
        _sj_trier=0,
        _sj_keeping=None,
        _sj_places=0,
        _sj_missing=0,
        _sj_started_us=0,
        _sj_stay=0,
        _sj_future=None,
        _sj_error=None,
    )
    GUARD.protect(globals(), "claim", "take_future")
