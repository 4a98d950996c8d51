"""The residents: the operations inside a purgatory, and the counts of those that were.

An operation is admitted, watches keys or waits for progress, has a timeout, and leaves:

    _sj_admit -> _sj_join, once a key -> _sj_arm  ----+---> _sj_remove_ended
    _sj_settle_in, which does all this in one step ---+---> _sj_remove_cancelled
                                                      +---> _sj_advance: signals satisfied it

Each of these is an atomic step (guard.py): it calls no user code and makes no object that the
garbage collector counts. What comes between them, your code and the look-up of a key, is in
purgatory.py.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.core.alike import not_initialised, start_out
from sojourn.core.guard import GUARD
from sojourn.errors import Closed, Full

if cython.compiled:
    from cython.cimports.sojourn.core.collector import (
        PyObject_GC_Track,
        PyObject_GC_UnTrack,
    )
else:
    from sojourn.core.operation import (
        CANCELLED,
        COMPLETED,
        EXPIRED,
        HELD_AT_DEADLINE,
        PENDING,
        DelayedOperation,
        Keeper,
    )
    from sojourn.core.places import at_address
    from sojourn.core.progress import ProgressKey
    from sojourn.core.task import unlink, waits_already
    from sojourn.core.watchers import WatchedKey

if TYPE_CHECKING:
    from sojourn.core.histogram import Histogram, HistogramSnapshot
    from sojourn.core.operation import AnyFuture
    from sojourn.core.progress import Progress
    from sojourn.core.timer import Timer
    from sojourn.core.watchers import Watchers

if not cython.compiled:  # which has them as constants of C, in the .pxd
    # What became of an operation that was to wait for progress, besides its place on the timer.
    AGAIN = -2  # nothing yet: a key went, or room is short
    ENDED = -3  # it had ended before
    AT_ONCE = -4  # it is completed


@dataclass(frozen=True)
class PurgatoryMetrics:
    """A purgatory's counts at one moment."""

    watched: int  #: places in all watch lists, and requirements that do not hold yet
    delayed: int  #: operations with a running timeout
    completed: int
    expired: int
    cancelled: int
    errors: int  #: callbacks that raised
    lateness: HistogramSnapshot
    waiting: HistogramSnapshot
    refused: int = 0  #: submissions refused because `max_waiting` operations waited
    missed_signals: int = 0  #: completed by the audit: the condition held, nobody had signalled
    expired_holding: int = 0  #: expired although the condition held (known with an audit only)
    known_keys: int = 0  #: keys whose progress is kept


class Residents(Keeper):
    """What a purgatory knows of its operations. Steps are atomic unless it says otherwise."""

    __slots__ = (
        "__weakref__",
        "_sj_cancelled",
        "_sj_checks",
        "_sj_closed",
        "_sj_completed",
        "_sj_delayed",
        "_sj_errors",
        "_sj_expired",
        "_sj_expired_holding",
        "_sj_forget_after_us",
        "_sj_inside",
        "_sj_keeping",
        "_sj_lateness",
        "_sj_max_waiting",
        "_sj_missed",
        "_sj_next_sample",
        "_sj_progress",
        "_sj_refused",
        "_sj_waiting",
        "_sj_watchers",
        "name",
        "timer",
    )

    name: str
    timer: Timer
    _sj_cancelled: int
    _sj_checks: int
    _sj_closed: bool
    _sj_completed: int
    _sj_delayed: int
    _sj_errors: int
    _sj_expired: int
    _sj_expired_holding: int
    _sj_forget_after_us: int  # negative: never
    _sj_inside: int  # operations admitted and not ended
    _sj_keeping: Any
    _sj_lateness: Histogram
    _sj_max_waiting: int
    _sj_missed: int
    _sj_next_sample: int
    _sj_progress: Progress
    _sj_refused: int
    _sj_waiting: Histogram
    _sj_watchers: Watchers

    def __dealloc__(self) -> None:
        if self._sj_keeping is not None:
            self._sj_keeping.keeper = cython.NULL

    # What operations tell their keeper.

    def _sj_on_end(self, operation: DelayedOperation) -> None:
        self._sj_remove_ended(operation, self.timer._sj_now_us())
        self._sj_drop_removed()

    def _sj_on_error(self, operation: DelayedOperation) -> None:
        self._sj_count_error()

    def _sj_cancel(self, operation: DelayedOperation, why: BaseException | None) -> bool:
        # The time is for keys that become idle, where those are forgotten.
        now_us = self.timer._sj_now_us() if self._sj_forget_after_us >= 0 else 0
        if not self._sj_remove_cancelled(operation, now_us):
            return False
        self._sj_drop_removed()
        operation._sj_on_cancel(why)
        return True

    def _sj_drop_removed(self) -> None:
        """Drop the keys that were removed, which may run code of yours: outside any step."""
        if self._sj_watchers.removed:
            self._sj_watchers.removed = []
        if self._sj_progress.removed:
            self._sj_progress.removed = []

    # The atomic steps.

    def _sj_admit(self, operation: DelayedOperation, future: AnyFuture | None) -> int:
        return self._sj_take_in(operation, future)

    def _sj_join(self, operation: DelayedOperation, stay: int, entry: WatchedKey) -> bool:
        """Put the operation into the key's circle; False to look the key up again.

        An operation that has ended by now does not join.
        """
        if operation._sj_stay != stay or operation._sj_state != PENDING:
            self._sj_watchers.remove_unused(entry)
            return True
        if not self._sj_watchers.has_room(1):
            return False
        return self._sj_watchers.join(entry, operation)

    def _sj_gather(
        self, watched: WatchedKey | None, entry: ProgressKey | None, operations: list[Any]
    ) -> bool:
        """List the operations of a circle or tree; False if the circle has gone meanwhile."""
        if watched is not None and not self._sj_watchers.gather(watched, operations):
            return False
        if entry is not None:
            self._sj_progress.gather(entry, operations)
        return True

    def _sj_arm(
        self, operation: DelayedOperation, stay: int, now_us: int, expiration_ms: int
    ) -> int:
        """Start the operation's timeout; -1 if it has ended."""
        if operation._sj_stay != stay or operation._sj_state != PENDING:
            return -1
        if self._sj_closed:
            raise Closed(f"purgatory {self.name!r} was closed as the operation came in")
        return self._sj_start(operation, now_us, expiration_ms)

    def _sj_settle_in(
        self,
        operation: DelayedOperation,
        incoming: int,
        count: int,
        needed: int,
        future: AnyFuture | None,
        now_us: int,
        expiration_ms: int,
    ) -> int:
        """Admit the operation, and complete it or let it wait for progress, all at once."""
        holding = self._sj_progress.count_holding(incoming)
        if holding < 0 or not self._sj_progress.has_room(count):
            return AGAIN
        if not self._sj_take_in(operation, future):
            return ENDED
        if holding >= needed:
            operation._sj_state = COMPLETED
            self._sj_inside -= 1
            self._sj_completed += 1
            self._sj_waiting.record_us(0)
            return AT_ONCE
        placed = -1
        try:
            placed = self._sj_start(operation, now_us, expiration_ms)
        finally:
            # Its timer is closed. Making the error may have run a finaliser that has ended it.
            if (
                placed < 0
                and operation._sj_keeping is self._sj_keeping
                and operation._sj_state == PENDING
            ):
                operation._sj_state = CANCELLED
                operation._sj_keeping = None
                operation._sj_future = None
                self._sj_inside -= 1
        operation._sj_missing = needed - holding
        self._sj_progress.join(operation, incoming)
        return placed

    def _sj_withdraw(self, incoming: int) -> None:
        self._sj_progress.withdraw(incoming)

    def _sj_advance(self, entry: ProgressKey, offset: int, now_us: int) -> int:
        """Move a key's progress up; the chain of what ended, -1 to look the key up again."""
        ended = self._sj_progress.advance(entry, offset, now_us)
        place = ended
        while place > 0:
            self._sj_completed += 1
            self._sj_inside -= 1
            self._sj_disarm(
                cython.cast(DelayedOperation, at_address(self._sj_progress.holders[place]))
            )
            place = self._sj_progress.siblings[place]
        return ended

    def _sj_take_ended(self, ended: int, now_us: int) -> DelayedOperation:
        """Take the first of the chain, which has waited until now."""
        operation = self._sj_progress.pop(ended)
        self._sj_waiting.record_us(now_us - operation._sj_started_us)
        return operation

    def _sj_remove_cancelled(self, operation: DelayedOperation, now_us: int) -> bool:
        """Cancel and remove the operation; False if it has ended or is not ours."""
        if operation._sj_state != PENDING or operation._sj_keeping is not self._sj_keeping:
            return False
        operation._sj_state = CANCELLED
        operation._sj_keeping = None
        if operation._sj_list is not None:
            unlink(operation)
        self._sj_cancelled += 1
        self._sj_inside -= 1
        self._sj_leave(operation, now_us)
        return True

    def _sj_remove_ended(self, operation: DelayedOperation, now_us: int) -> None:
        """Count how the operation ended, and how long it waited; it leaves every key."""
        self._sj_inside -= 1
        if operation._sj_state == EXPIRED:
            self._sj_expired += 1
            self._sj_lateness.record_us(now_us - operation._sj_expiration_ms * 1000)
            if operation._sj_probed == HELD_AT_DEADLINE:
                self._sj_expired_holding += 1
        else:
            self._sj_completed += 1
        self._sj_waiting.record_us(now_us - operation._sj_started_us if operation._sj_armed else 0)
        self._sj_leave(operation, now_us)

    def _sj_forget(self, before_us: int) -> None:
        self._sj_progress.forget(before_us)

    def _sj_take_sample(self, count: int, operations: list[Any]) -> None:
        self._sj_next_sample = self._sj_watchers.sample(self._sj_next_sample, count, operations)

    def _sj_keys_of(self, operation: DelayedOperation, keys: list[Any]) -> None:
        if operation._sj_keeping is self._sj_keeping and not operation._sj_missing:
            self._sj_watchers.keys_of(operation, keys)

    def _sj_count_error(self) -> None:
        self._sj_errors += 1

    def _sj_count_check(self) -> None:
        self._sj_checks += 1

    def _sj_count_missed(self) -> None:
        self._sj_missed += 1

    # The raw steps.

    def _sj_take_in(self, operation: DelayedOperation, future: AnyFuture | None) -> int:
        """Make the operation ours; return the number of its stay, 0 if it has ended already."""
        if self._sj_closed:
            raise Closed(f"purgatory {self.name!r} is closed; make a new one")
        if operation._sj_run is None:
            raise not_initialised(operation)
        if operation._sj_state == COMPLETED or operation._sj_state == EXPIRED:
            return 0
        if operation._sj_list is not None or (
            operation._sj_state == PENDING and operation._sj_keeping is not None
        ):
            raise waits_already(operation)
        if self._sj_inside >= self._sj_max_waiting:
            self._sj_refused += 1
            raise Full(
                f"{self._sj_inside} operations wait in purgatory {self.name!r}, which is its "
                "max_waiting; try later"
            )
        operation._sj_state = PENDING
        operation._sj_keeping = self._sj_keeping
        operation._sj_future = future
        operation._sj_probed = 0
        operation._sj_stay += 1
        self._sj_inside += 1
        return operation._sj_stay

    def _sj_start(self, operation: DelayedOperation, now_us: int, expiration_ms: int) -> int:
        """Put the operation on the timer."""
        placed = self.timer._sj_link(operation, expiration_ms, operation._sj_delay_ms <= 0)
        operation._sj_started_us = now_us
        operation._sj_armed = True
        if cython.compiled:  # we hold it now, so there is nothing for the collector to find out
            PyObject_GC_UnTrack(operation)
        if self._sj_delayed == 0:
            self.timer._sj_tenants.append(self)
        self._sj_delayed += 1
        return placed

    def _sj_leave(self, operation: DelayedOperation, now_us: int) -> None:
        """Leave every circle and tree, and the count of those with a timeout."""
        if operation._sj_missing:
            self._sj_progress.leave(operation, 0, now_us)
        elif operation._sj_places:
            self._sj_watchers.leave(operation)
        self._sj_disarm(operation)

    def _sj_disarm(self, operation: DelayedOperation) -> None:
        """Leave the count of those with a timeout; the caller holds the operation and us."""
        if operation._sj_armed:
            operation._sj_armed = False
            if cython.compiled:
                PyObject_GC_Track(operation)
            self._sj_delayed -= 1
            if self._sj_delayed == 0:
                tenants = self.timer._sj_tenants
                for n in range(len(tenants)):
                    if tenants[n] is self:
                        del tenants[n]
                        break


if not cython.compiled:
    start_out(
        Residents,
        name=None,
        timer=None,
        _sj_cancelled=0,
        _sj_checks=0,
        _sj_closed=False,
        _sj_completed=0,
        _sj_delayed=0,
        _sj_errors=0,
        _sj_expired=0,
        _sj_expired_holding=0,
        _sj_forget_after_us=-1,
        _sj_inside=0,
        _sj_keeping=None,
        _sj_lateness=None,
        _sj_max_waiting=0,
        _sj_missed=0,
        _sj_next_sample=0,
        _sj_progress=None,
        _sj_refused=0,
        _sj_waiting=None,
        _sj_watchers=None,
    )
    GUARD.protect(
        Residents,
        "_sj_admit",
        "_sj_join",
        "_sj_gather",
        "_sj_arm",
        "_sj_settle_in",
        "_sj_withdraw",
        "_sj_advance",
        "_sj_take_ended",
        "_sj_remove_cancelled",
        "_sj_remove_ended",
        "_sj_forget",
        "_sj_take_sample",
        "_sj_keys_of",
        "_sj_count_error",
        "_sj_count_check",
        "_sj_count_missed",
    )
