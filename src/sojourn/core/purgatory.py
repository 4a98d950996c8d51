"""The purgatory: where operations wait, by key, until they complete or expire.

An operation waits in one of two ways. Either it has a condition in Python and watches keys:

    try_complete_else_watch(op, ["a", "b"])

      1. try                        done? then it never waits
      2. watch "a" and "b"          from here on a signal finds it
      3. try again                  if a signal came between 1 and 2, when it found nothing
      4. start the timeout

    check_and_complete("a")         try every operation that watches "a"

or it waits for progress, and there is nothing to call:

    try_complete_else_watch(op, requires=[("a", 10), ("b", 7)])

      1. in one step: count what holds; enough? then it never waits; else join the trees of
         "a" and "b" and start the timeout

    signal("a", 12)                 completes what that satisfies, and looks at nothing else

Who is inside, on which keys, and for how long is in residents.py, which changes in atomic steps.
Here is what comes before, between and after them: checks, your callbacks and the look-up of keys,
which may call code of yours (keys.py). No lock is taken here.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import weakref
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, TypeVar

from sojourn._log import log, shown
from sojourn.core.alike import already_initialised, not_copied, not_initialised, start_out
from sojourn.core.guard import GUARD
from sojourn.errors import AlreadyWaiting, Cancelled, Closed, WrongType

if not cython.compiled:
    from sojourn.core.histogram import Histogram
    from sojourn.core.keys import as_key, checked_keys
    from sojourn.core.millis import LIMIT_MS
    from sojourn.core.operation import (
        CANCELLED,
        HELD_AT_DEADLINE,
        DelayedOperation,
        new_keeping,
    )
    from sojourn.core.progress import (
        Progress,
        checked_needed,
        checked_offset,
        checked_requires,
    )
    from sojourn.core.residents import AGAIN, AT_ONCE, ENDED, Residents
    from sojourn.core.timer import Timer
    from sojourn.core.watchers import Watchers
    from sojourn.core.wheel import WAITING

from sojourn.core.audit import Auditor
from sojourn.core.millis import checked_count
from sojourn.core.residents import PurgatoryMetrics
from sojourn.core.waits import Wait

if TYPE_CHECKING:
    from sojourn.core.clock import Clock
    from sojourn.core.operation import AnyFuture

Value = TypeVar("Value")
_ALL: Any = object()  # in place of a key
_MOST = 2**62


class Purgatory(Residents):
    """Operations waiting, each for news of its keys or for their progress.

    `timer` may be shared between purgatories; without one the purgatory makes its own, on
    `clock` and with `tick_ms`, `wheel_size` and `executor`, and closes it. At most `max_waiting`
    operations wait; beyond that a submission raises `Full`. With `audit_every_ms` a sample of
    the waiting operations is tried again that often, for signals that nobody sent. Keys for
    which nobody waits and that had no signal for `forget_keys_after_ms` are forgotten, with
    their progress. Every method may be called from any thread, also from inside an operation's
    callbacks.
    """

    __slots__ = ("_sj_auditor", "_sj_owns_timer")

    _sj_auditor: Any

    def __init__(
        self,
        name: str = "purgatory",
        timer: Timer | None = None,
        clock: Clock | None = None,
        *,
        tick_ms: int | None = None,
        wheel_size: int | None = None,
        executor: Executor | None = None,
        max_waiting: int | None = None,
        audit_every_ms: int | None = None,
        audit_sample: int = 100,
        forget_keys_after_ms: int | None = None,
    ) -> None:
        if self._sj_keeping is not None:
            raise already_initialised(self)
        if timer is not None:
            if not isinstance(timer, Timer):
                raise WrongType(f"timer must be a sojourn.Timer, got {timer!r}")
            its_clock = timer.clock  # which an empty timer does not have, and says so
            if clock is not None and its_clock is not clock:
                raise WrongType("give timer or clock, not both: the timer has its own clock")
            if tick_ms is not None or wheel_size is not None or executor is not None:
                raise WrongType("give tick_ms, wheel_size and executor to the timer")
        if max_waiting is None:
            most = _MOST
        else:
            most = checked_count(max_waiting, "max_waiting", 1, _MOST, "None means no limit")
        forget_after_us = -1
        if forget_keys_after_ms is not None:
            forget_after_us = 1000 * checked_count(
                forget_keys_after_ms,
                "forget_keys_after_ms",
                0,
                LIMIT_MS // 1000,
                "None means never",
            )
        auditor = None
        if audit_every_ms is not None:
            auditor = Auditor(
                checked_count(audit_every_ms, "audit_every_ms", 1, LIMIT_MS, "None means never"),
                checked_count(audit_sample, "audit_sample", 1, 2**31, "the default is 100"),
            )
        self.name = str(name)
        self._sj_owns_timer = timer is None
        if timer is None:
            timer = Timer(
                clock,
                tick_ms=1 if tick_ms is None else tick_ms,
                wheel_size=20 if wheel_size is None else wheel_size,
                executor=executor,
                name=self.name,
            )
        self.timer = timer
        self._sj_max_waiting = most
        self._sj_forget_after_us = forget_after_us
        self._sj_watchers = Watchers()
        self._sj_progress = Progress(forget_after_us >= 0)
        self._sj_lateness = Histogram()
        self._sj_waiting = Histogram()
        self._sj_auditor = auditor
        self._sj_keeping = new_keeping(self)
        if auditor is not None:
            auditor.start(self)

    # Waiting with a condition, and news.

    def try_complete_else_watch(
        self,
        operation: DelayedOperation,
        keys: Iterable[Hashable] | None = None,
        *,
        requires: Iterable[tuple[Hashable, int]] | None = None,
        needed: int | None = None,
    ) -> bool:
        """Try to complete the operation; if it is not to be, let it wait.

        It waits for news of `keys`, one or more hashable objects, and is tried again when there
        is some. Or it waits until `needed` of the requirements (key, offset) in `requires` hold,
        all of them if `needed` is None; `try_complete` is not called then. True only if this
        call completed it. False means that it waits, or that another thread has ended it.
        """
        return self._sj_submit(operation, keys, requires, needed, None)

    def submit(
        self,
        operation: DelayedOperation,
        keys: Iterable[Hashable] | None = None,
        *,
        requires: Iterable[tuple[Hashable, int]] | None = None,
        needed: int | None = None,
    ) -> Future[bool]:
        """Do the same, and return a future for code that wants to wait.

        Its result is True if the operation completed and False if it expired, after the
        callbacks; an error that a callback raised is raised by it. Cancelling the operation
        cancels the future, and cancelling the future cancels the operation.
        """
        future: Future[bool] = Future()
        self.submit_into(future, operation, keys, requires=requires, needed=needed)
        future.add_done_callback(_Cancelling(operation))
        return future

    def submit_into(
        self,
        future: AnyFuture,
        operation: DelayedOperation,
        keys: Iterable[Hashable] | None = None,
        *,
        requires: Iterable[tuple[Hashable, int]] | None = None,
        needed: int | None = None,
    ) -> None:
        """Do the same with a future of the caller's, also asyncio's; cancelling is up to them."""
        if not isinstance(operation, DelayedOperation):
            raise _not_an_operation(operation)
        if operation.is_completed:
            _ended_before(operation, future)
        self._sj_submit(operation, keys, requires, needed, future)

    def wait(
        self,
        predicate: Callable[[], Value] | None = None,
        keys: Iterable[Hashable] | None = None,
        timeout_ms: int | None = None,
        *,
        requires: Iterable[tuple[Hashable, int]] | None = None,
        needed: int | None = None,
    ) -> Value | bool:
        """Block until the predicate holds, and return what it returned; False if time ran out.

        The predicate is looked at now and whenever one of the keys has news. If it raises, so
        does this. With `requires` in place of both, wait for progress: True or False. Raises
        `Closed` if the purgatory is closed meanwhile, `Cancelled` if the wait is cancelled.
        """
        if (predicate is None) == (requires is None):
            raise WrongType("give a predicate and keys, or requires")
        if predicate is not None and not callable(predicate):
            raise WrongType(f"predicate must be callable, got {predicate!r}")
        wait = Wait(predicate, LIMIT_MS if timeout_ms is None else timeout_ms)
        self._sj_submit(wait, keys, requires, needed, wait.outcome)
        return wait.result()  # type: ignore[no-any-return]

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that watches the key; return how many this call completed."""
        if self._sj_keeping is None:
            raise not_initialised(self)
        return self._sj_check(as_key(key))

    # Waiting for progress, and signals.

    def signal(self, key: Hashable, offset: int) -> int:
        """Move the key's progress up to the offset; return how many operations that completed.

        Progress never goes down: a lesser offset does nothing. What is completed is completed in
        the order of its offset on this key, then of its submission.
        """
        if self._sj_keeping is None:
            raise not_initialised(self)
        return self._sj_signal(as_key(key), checked_offset(offset))

    def signal_many(self, signals: Iterable[tuple[Hashable, int]]) -> int:
        """Do that for each (key, offset), in order; all are checked before the first is sent."""
        if self._sj_keeping is None:
            raise not_initialised(self)
        signals = as_list(signals, "signals must be (key, offset) pairs")
        if not signals:
            return 0
        completed = 0
        for key, offset in checked_requires(signals):
            completed += self._sj_signal(key, offset)
        return completed

    def submit_many(self, rows: Iterable[tuple[Any, ...]]) -> int:
        """Let many operations wait for progress; return how many completed at once.

        A row is (operation, requires) or (operation, requires, needed). All rows are checked
        before the first is taken. If one is refused then (`Full`, `AlreadyWaiting`), those
        before it stay, and the error is raised.
        """
        if self._sj_keeping is None:
            raise not_initialised(self)
        rows = as_list(rows, "rows must be (operation, requires) pairs")
        for n, row in enumerate(rows):
            rows[n] = _checked_row(row)
        completed = 0
        for operation, requires, needed in rows:
            if self._sj_park(operation, requires, needed, None):
                completed += 1
        return completed

    def progress(self, key: Hashable) -> int | None:
        """How far the key has come: the largest offset signalled; None if none is known."""
        if self._sj_keeping is None:
            raise not_initialised(self)
        entry = self._sj_progress.find(as_key(key))
        return entry.progress if entry is not None and entry.has_progress else None

    # Looking, and ending.

    def waiting(self, key: Hashable = _ALL) -> list[DelayedOperation]:
        """Return the operations that wait on the key, or all of them, as they are now."""
        if self._sj_keeping is None:
            raise not_initialised(self)
        if key is not _ALL:
            return self._sj_on_key(as_key(key))
        operations: list[DelayedOperation] = []
        for watched in self._sj_watchers.entries():
            self._sj_gather(watched, None, operations)
        for entry in self._sj_progress.entries():
            self._sj_gather(None, entry, operations)
        return _unique(operations)

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Stop waiting, on all their keys, the operations on this one; return them.

        Their timeouts are dropped too. They are not completed: that, if wanted, is up to you.
        """
        if self._sj_keeping is None:
            raise not_initialised(self)
        why = Cancelled(f"the operations on key {key!r} of purgatory {self.name!r} were cancelled")
        operations = self._sj_on_key(as_key(key))
        return [operation for operation in operations if self._sj_cancel(operation, why)]

    def audit(self, sample: int = 100) -> int:
        """Try a sample of the waiting operations, which nobody signalled; return how many held.

        Each that completes is counted in `missed_signals`, and logged with its keys: somebody
        changed its condition and forgot to signal. The next call goes on where this one ended.
        """
        if self._sj_keeping is None:
            raise not_initialised(self)
        operations: list[DelayedOperation] = []
        self._sj_take_sample(checked_count(sample, "sample", 1, 2**31, "100 is usual"), operations)
        missed = 0
        for operation in operations:
            keys: list[Any] = []
            self._sj_keys_of(operation, keys)
            if self._sj_try(operation):
                missed += 1
                self._sj_count_missed()
                log.warning(
                    "purgatory %r: %s held, and nobody had signalled any of its keys: %s",
                    self.name,
                    shown(operation),
                    ", ".join(map(shown, keys)),
                )
        return missed

    @property
    def watched(self) -> int:
        """Places in all watch lists, and requirements that do not hold yet."""
        if self._sj_keeping is None:
            raise not_initialised(self)
        return self._sj_watchers.watched + self._sj_progress.watched

    @property
    def delayed(self) -> int:
        """Operations with a running timeout."""
        if self._sj_keeping is None:
            raise not_initialised(self)
        return self._sj_delayed

    def metrics(self) -> PurgatoryMetrics:
        """Return counts and histograms as they are now."""
        return PurgatoryMetrics(
            self.watched,
            self._sj_delayed,
            self._sj_completed,
            self._sj_expired,
            self._sj_cancelled,
            self._sj_errors,
            self._sj_lateness.snapshot(),
            self._sj_waiting.snapshot(),
            self._sj_refused,
            self._sj_missed,
            self._sj_expired_holding,
            self._sj_progress.known_keys(),
        )

    def close(self) -> int:
        """Take no more operations and drop those that wait; return how many that was.

        They are not completed; their futures are cancelled. Waits for callbacks that the
        purgatory's own timer is running, unless called from inside one.
        """
        if self._sj_keeping is None:
            raise not_initialised(self)
        self._sj_closed = True
        if self._sj_auditor is not None:
            self._sj_auditor.cancel()
        dropped = self._sj_drop(Closed(f"purgatory {self.name!r} was closed"))
        if self._sj_owns_timer:
            self.timer.close()
        return dropped

    def __enter__(self) -> Purgatory:
        if self._sj_keeping is None:
            raise not_initialised(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._sj_keeping is None:
            return f"<{type(self).__name__}, never initialised>"
        state = " closed" if self._sj_closed else ""
        return f"<Purgatory {self.name!r} watched={self.watched} delayed={self.delayed}{state}>"

    def __reduce__(self) -> Any:
        raise not_copied(self)

    def __del__(self) -> None:
        # Nobody can signal any more, and no time passes: what waits would wait for ever, and keys
        # that are to be forgotten in time would stay.
        if self._sj_keeping is not None and (self._sj_inside or self._sj_forget_after_us >= 0):
            if not cython.compiled and GUARD.held_here():  # collected in the middle of a step
                GUARD.put_off(self._sj_drop_all)
            else:
                self._sj_drop_all()

    def _sj_before_expiry(self, operation: DelayedOperation) -> None:
        if self._sj_auditor is None or operation._sj_missing or not operation._sj_armed:
            return
        keys: list[Any] = []
        self._sj_keys_of(operation, keys)
        if operation._sj_holds():
            operation._sj_probed = HELD_AT_DEADLINE
            log.warning(
                "purgatory %r: %s expires although its condition holds; "
                "nobody had signalled any of its keys: %s",
                self.name,
                shown(operation),
                ", ".join(map(shown, keys)),
            )

    # Submitting and signalling.

    def _sj_submit(
        self,
        operation: DelayedOperation,
        keys: Any,
        requires: Any,
        needed: Any,
        future: AnyFuture | None,
    ) -> bool:
        if not isinstance(operation, DelayedOperation):
            raise _not_an_operation(operation)
        if self._sj_keeping is None:
            raise not_initialised(self)
        if requires is not None:
            if keys is not None:
                raise WrongType("give keys or requires, not both")
            checked = checked_requires(requires)
            count = checked_needed(needed, len(checked))
            return self._sj_park(cython.cast(DelayedOperation, operation), checked, count, future)
        if needed is not None:
            raise WrongType("needed goes with requires; keys alone bring news")
        if keys is None:
            raise WrongType("keys must be a list of keys; or give requires, to wait for progress")
        return self._sj_watch_all(operation, checked_keys(keys), future)

    def _sj_watch_all(
        self, operation: DelayedOperation, keys: Any, future: AnyFuture | None
    ) -> bool:
        if operation._sj_error is not None and operation._sj_state == CANCELLED:
            operation._sj_error = None
        stay = self._sj_admit(operation, future)
        if not stay:
            return _ended_before(operation, future)
        try:
            # The lock is held from the first try to the second, so that a signal that finds the
            # operation in a circle in between leaves its mark instead of waiting (KAFKA-8334).
            completed = False
            operation._sj_acquire()
            try:
                checks = self._sj_checks
                completed = operation._sj_attempt()
                if not completed:
                    for key in keys:
                        self._sj_watch(operation, stay, key)
                    if self._sj_checks != checks:  # a signal may have come too early to find it
                        completed = operation._sj_attempt()
            finally:
                operation._sj_release()
                if operation._sj_again:
                    completed = operation._sj_try_again(completed)
            now_us = self.timer._sj_now_us()
            expiration_ms = self.timer._sj_make_room(operation._sj_delay_ms, now_us)
            placed = self._sj_arm(operation, stay, now_us, expiration_ms)
            if placed >= 0:
                self.timer._sj_wake(placed)
        except BaseException:
            if operation._sj_stay == stay:
                self._sj_cancel(operation, None)
            raise
        return completed

    def _sj_watch(self, operation: DelayedOperation, stay: int, key: Any) -> None:
        while True:
            entry = self._sj_watchers.entry(key)
            if not self._sj_watchers.has_room(1):
                self._sj_watchers.reserve(1)
            if self._sj_join(operation, stay, entry):
                break
        self._sj_drop_removed()

    def _sj_park(
        self, operation: DelayedOperation, requires: Any, needed: int, future: Any
    ) -> bool:
        """Let the operation wait for progress; True if what it needs holds already.

        `requires` are checked.
        """
        if operation._sj_error is not None and operation._sj_state == CANCELLED:
            operation._sj_error = None
        placed = AGAIN
        incoming = 0
        try:
            while True:
                for n in range(len(requires)):
                    incoming = self._sj_look_up(incoming, cython.cast(tuple, requires[n]))
                if not self._sj_progress.has_room(len(requires)):  # an anchor for each key
                    self._sj_progress.reserve(len(requires))
                now_us = self.timer._sj_now_us()
                expiration_ms = self.timer._sj_make_room(operation._sj_delay_ms, now_us)
                placed = self._sj_settle_in(
                    operation, incoming, len(requires), needed, future, now_us, expiration_ms
                )
                if placed != AGAIN:
                    break
                self._sj_withdraw(incoming)
                incoming = 0
        finally:
            if placed < 0:  # it does not wait
                self._sj_withdraw(incoming)
                self._sj_drop_removed()
        if placed == ENDED:
            return _ended_before(operation, future)
        if placed == AT_ONCE:
            interrupt = operation._sj_finish()
            if interrupt is not None:
                raise interrupt
            return True
        if placed != WAITING:
            self.timer._sj_wake(placed)
        return False

    def _sj_look_up(self, incoming: int, requirement: Any) -> int:
        """Look the key up, and put the requirement before the chain of incoming ones."""
        entry = self._sj_progress.entry(requirement[0])
        offset: int = requirement[1]
        while True:
            place = self._sj_progress.prepend(entry, offset, incoming)
            if place:
                return place
            self._sj_progress.reserve(2)

    def _sj_check(self, key: Any) -> int:
        self._sj_count_check()
        completed = 0
        interrupt: BaseException | None = None
        for operation in self._sj_watching(key):
            try:
                if operation._sj_on_signal(self):
                    completed += 1
            except (KeyboardInterrupt, SystemExit) as error:  # the others are tried first
                interrupt = error
        if interrupt is not None:
            raise interrupt
        return completed

    def _sj_try(self, operation: DelayedOperation) -> bool:
        return operation._sj_on_signal(self)

    def _sj_signal(self, key: Any, offset: int) -> int:
        now_us = 0
        if self._sj_forget_after_us >= 0:
            now_us = self.timer._sj_now_us()
            self._sj_forget(now_us - self._sj_forget_after_us)
        while True:
            ended = self._sj_advance(self._sj_progress.entry(key), offset, now_us)
            if ended >= 0:
                break
            if not self._sj_progress.has_room(1):
                self._sj_progress.reserve(1)
        self._sj_drop_removed()
        if ended == 0:
            return 0
        now_us = self.timer._sj_now_us()
        completed = 0
        interrupt: BaseException | None = None
        while ended:
            after = self._sj_progress.siblings[ended]
            raised = self._sj_take_ended(ended, now_us)._sj_finish()
            if raised is not None:  # the others are ended first
                interrupt = raised
            ended = after
            completed += 1
        if interrupt is not None:
            raise interrupt
        return completed

    def _sj_watching(self, key: Any) -> list[DelayedOperation]:
        """The operations that watch the key, in the order they came."""
        operations: list[DelayedOperation] = []
        while True:
            entry = self._sj_watchers.find(key)
            if entry is None or self._sj_gather(entry, None, operations):
                return operations

    def _sj_on_key(self, key: Any) -> list[DelayedOperation]:
        """The operations that watch the key, then those that wait for its progress."""
        operations = self._sj_watching(key)
        entry = self._sj_progress.find(key)
        if entry is not None:
            self._sj_gather(None, entry, operations)
        return _unique(operations)

    def _sj_drop(self, why: BaseException) -> int:
        """Cancel all that waits, and forget the keys; how many waited."""
        dropped = sum([self._sj_cancel(operation, why) for operation in self.waiting()])
        if self._sj_forget_after_us >= 0:
            self._sj_forget_all()
        return dropped

    def _sj_drop_all(self) -> None:
        self._sj_drop(Cancelled(f"purgatory {self.name!r} was dropped without close()"))

    def _sj_forget_all(self) -> None:
        """Forget the keys that nobody waits on: their places hold them, and would for ever."""
        before = -1
        while before != self._sj_progress.known_keys():
            before = self._sj_progress.known_keys()
            self._sj_forget(_MOST)
            self._sj_drop_removed()


class _Cancelling:
    """Cancels the operation when its future was cancelled; does not keep it alive."""

    def __init__(self, operation: DelayedOperation) -> None:
        self._operation = weakref.ref(operation)

    def __call__(self, future: Future[bool]) -> None:
        operation = self._operation()
        if operation is not None and future.cancelled():
            operation.cancel()


def _checked_row(row: Any) -> tuple[DelayedOperation, Any, int]:
    if not isinstance(row, tuple) or len(row) not in (2, 3):
        raise WrongType(f"a row must be (operation, requires) or with needed, got {row!r}")
    if not isinstance(row[0], DelayedOperation):
        raise _not_an_operation(row[0])
    requires = checked_requires(row[1])
    needed = row[2] if len(row) == 3 else None
    return row[0], requires, checked_needed(needed, len(requires))


def _not_an_operation(thing: Any) -> WrongType:
    return WrongType(f"operation must be a DelayedOperation, got {thing!r}")


def as_list(rows: Any, rule: str) -> list[Any]:
    """Return the rows as a list of our own, or say what they must be."""
    try:
        return list(rows)
    except TypeError:
        raise WrongType(f"{rule}, got {rows!r}") from None


def _ended_before(operation: DelayedOperation, future: Any) -> bool:
    """An operation that has ended is not submitted again; nobody would ever settle the future."""
    if future is not None:
        raise AlreadyWaiting(f"{shown(operation)} has ended already; make a new one")
    return False


def _unique(operations: list[DelayedOperation]) -> list[DelayedOperation]:
    """The same without repeats, by identity."""
    return list({id(operation): operation for operation in operations}.values())


if not cython.compiled:
    start_out(Purgatory, _sj_auditor=None, _sj_owns_timer=False)
