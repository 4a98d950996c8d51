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
    2. B makes the condition true and signals. It sets `_sj_again`, fails to get the lock, goes on.
    3. A lets go of the lock, sees `_sj_again`, takes the lock and tries again: completed.

The mark is set before the lock is tried, and looked at after the lock is let go of, so one of
the two threads always sees the other. A lock of the user's own may be held by anybody for any
reason, so there the signal waits for it.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections.abc import Callable
from concurrent.futures import InvalidStateError
from typing import Any, Protocol

from sojourn._guard import GUARD
from sojourn._log import log, shown
from sojourn.errors import WrongType

if cython.compiled:
    from cython.cimports.cpython.pythread import (
        PyThread_get_thread_ident as get_ident,
    )
    from cython.cimports.sojourn.lock import LockedTask
    from cython.cimports.sojourn.millis import checked_ms
    from cython.cimports.sojourn.task import detach, unlink
else:
    from threading import get_ident

    from sojourn.lock import LockedTask
    from sojourn.millis import checked_ms
    from sojourn.task import detach, unlink

PENDING = 0
COMPLETED = 1
EXPIRED = 2
CANCELLED = 3


class Lock(Protocol):
    """What an operation asks of a lock of the user's."""

    def acquire(self) -> Any: ...

    def release(self) -> Any: ...


class Keeper:
    """Whoever keeps operations waiting and is told when one ends: the purgatory."""

    __slots__ = ()

    def ended(self, operation: DelayedOperation) -> None:
        """The operation has just completed or expired; let go of it."""

    def failed(self, operation: DelayedOperation) -> None:
        """A callback of the operation raised."""

    def give_up(self, operation: DelayedOperation) -> bool:
        """Cancel the operation; say whether it was waiting here."""
        return False


@cython.freelist(256)
@cython.no_gc
@cython.cclass
class Watch:
    """One operation's place in the circle of those that watch one key."""

    __slots__ = ("_is_first", "_key", "_sj_next", "_operation", "_sj_prev", "_sibling")

    _sj_next: Any  # in the key's circle
    _sj_prev: Any
    _key: Any
    _is_first: bool  # of its circle
    _sibling: Any  # the operation's next watch
    _operation: Any


class DelayedOperation(LockedTask):
    """Something that waits for its condition or its time, whichever comes first.

    Subclass it and give:

    - `try_complete()`: look at the condition; if it holds, return `self.force_complete()` (or
      just True), else False. Called under the operation's lock, from any thread.
    - `on_complete()`: called once when the operation ends, whether in time or not.
    - `on_expiration()`: called after that, only if its time ran out.

    `lock` takes the place of the operation's own re-entrant lock. A callback that raises is
    logged and counted, the operation is ended all the same, and its future gets the error.
    """

    __slots__ = (
        "__weakref__",
        "_sj_again",
        "_sj_armed",
        "_sj_ended_in_try",
        "_sj_error",
        "_sj_future",
        "_sj_keeper",
        "_sj_lock",
        "_sj_started_us",
        "_sj_state",
        "_sj_stay",
        "_sj_trier",
        "_sj_watches",
    )

    _sj_lock: Any  # the user's, or None
    _sj_watches: Any
    _sj_future: Any
    _sj_keeper: Any

    def __init__(self, timeout_ms: int, lock: Lock | None = None) -> None:
        self._sj_delay_ms = checked_ms(timeout_ms, "timeout_ms")
        if lock is not None and not (hasattr(lock, "acquire") and hasattr(lock, "release")):
            raise WrongType(f"lock must have acquire() and release(), got {lock!r}")
        self._sj_lock = lock
        if not cython.compiled:  # a compiled object starts out like this
            LockedTask.__init__(self, self._sj_delay_ms)
            self._sj_state = PENDING
            self._sj_again = False
            self._sj_armed = False
            self._sj_ended_in_try = False
            self._sj_trier = 0
            self._sj_keeper = None
            self._sj_watches = None
            self._sj_started_us = 0
            self._sj_stay = 0
            self._sj_future = None
            self._sj_error: BaseException | None = None

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
        """How long the operation waits at most."""
        return self._sj_delay_ms

    @property
    def is_completed(self) -> bool:
        """Whether the operation has ended, completed or expired."""
        return self._sj_state == COMPLETED or self._sj_state == EXPIRED

    @property
    def is_expired(self) -> bool:
        """Whether the operation ended because its time ran out; known before `on_complete`."""
        return self._sj_state == EXPIRED

    def force_complete(self) -> bool:
        """Complete the operation unless somebody already has; say whether we did.

        Exactly one caller ever gets True. Cancels the timeout, then calls `on_complete`.
        """
        return self.end(COMPLETED)

    def safe_try_complete(self) -> bool:
        """Try to complete the operation under its lock; say whether we did."""
        completed = False
        self.enter()
        try:
            completed = self.attempt()
        finally:
            self.leave()
            completed = self.try_again(completed)
        return completed

    def safe_try_complete_or_else(self, action: Callable[[], object]) -> bool:
        """Try; if that fails run the action and try again, all under the operation's lock."""
        completed = False
        self.enter()
        try:
            completed = self.attempt()
            if not completed:
                action()
                completed = self.attempt()
        finally:
            self.leave()
            completed = self.try_again(completed)
        return completed

    def cancel(self) -> bool:
        """Stop waiting, without completing; say whether the operation was waiting."""
        if not cython.compiled and GUARD.held_here():
            GUARD.put_off(self.cancel)
            return self._sj_keeper is not None or self._sj_list is not None
        keeper = self._sj_keeper
        if keeper is not None:
            return bool(keeper.give_up(self))
        return detach(self) is not None

    def run(self) -> None:
        """Expire: the timer calls this at the deadline."""
        self.end(EXPIRED)

    def __repr__(self) -> str:
        state = ("pending", "completed", "expired", "cancelled")[self._sj_state]
        return f"<{type(self).__name__} timeout_ms={self._sj_delay_ms} {state}>"

    # For the purgatory.

    def enter(self) -> None:
        """Take the operation's lock."""
        if self._sj_lock is None:
            self.acquire()
        else:
            self._sj_lock.acquire()

    def leave(self) -> None:
        """Let go of the operation's lock."""
        if self._sj_lock is None:
            self.release()
        else:
            self._sj_lock.release()

    def attempt(self) -> bool:
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
                completed = self.end(COMPLETED)
        except BaseException as error:
            interrupt = self._failed("try_complete", error)
            completed = self.end(COMPLETED)
            if interrupt is not None:
                raise
        finally:
            self._sj_trier = outer
        return completed

    def signalled(self, keeper: Keeper) -> bool:
        """A key has news: try, or leave a mark for the thread that is trying."""
        if self._sj_keeper is not keeper:
            return False
        self._sj_again = True
        me = get_ident()
        if self._sj_trier == me:  # its own try brings the news, and looks at the mark at its end
            return False
        return self.try_again(False)

    def try_again(self, completed: bool) -> bool:
        """Try for as long as there is news that nobody has tried with."""
        while self._sj_again:
            if self._sj_lock is not None:
                self._sj_lock.acquire()
            elif not self.try_acquire():
                break  # who has the lock looks at the mark when letting go of it
            try:
                self._sj_again = False
                if self.attempt():
                    completed = True
            finally:
                self.leave()
        return completed

    def end(self, state: int) -> bool:
        """End the operation in this state unless somebody already has; say whether we did."""
        if not claim(self, state):
            return False
        if self._sj_keeper is not None:
            self._sj_keeper.ended(self)
        interrupt: BaseException | None = None
        try:
            self.on_complete()
        except BaseException as error:
            interrupt = self._failed("on_complete", error)
        if state == EXPIRED:
            try:
                self.on_expiration()
            except BaseException as error:
                interrupt = self._failed("on_expiration", error)
        if self._sj_future is not None:
            self._settle()
        if interrupt is not None:
            raise interrupt
        return True

    def _failed(self, where: str, error: BaseException) -> BaseException | None:
        """Log, count and keep the error; give it back only if it must be raised again."""
        if error is not self._sj_error:
            self._sj_error = error
            log.error(
                "%s raised in %s; it is ended, the rest goes on",
                shown(self),
                where,
                exc_info=error,
            )
            if self._sj_keeper is not None:
                self._sj_keeper.failed(self)
        return error if isinstance(error, (KeyboardInterrupt, SystemExit)) else None

    def _settle(self) -> None:
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
        operation._sj_list is not None or (operation._sj_keeper is not None and not operation._sj_armed)
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
    GUARD.protect(globals(), "claim", "take_future")
