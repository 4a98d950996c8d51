cimport cython

from sojourn.core.histogram cimport Histogram
from sojourn.core.operation cimport (
    CANCELLED,
    COMPLETED,
    EXPIRED,
    HELD_AT_DEADLINE,
    PENDING,
    DelayedOperation,
    Keeper,
    Keeping,
)
from sojourn.core.places cimport at_address
from sojourn.core.progress cimport Progress, ProgressKey
from sojourn.core.task cimport unlink, waits_already
from sojourn.core.timer cimport Timer
from sojourn.core.watchers cimport WatchedKey, Watchers

cdef enum:
    AGAIN = -2
    ENDED = -3
    AT_ONCE = -4


cdef class Residents(Keeper):
    cdef object __weakref__
    cdef readonly str name
    cdef readonly Timer timer
    cdef bint _sj_closed
    cdef Keeping _sj_keeping
    cdef Watchers _sj_watchers
    cdef Progress _sj_progress
    cdef long long _sj_delayed
    cdef long long _sj_inside
    cdef long long _sj_max_waiting
    cdef long long _sj_forget_after_us
    cdef long long _sj_next_sample
    cdef long long _sj_checks
    cdef long long _sj_completed
    cdef long long _sj_expired
    cdef long long _sj_expired_holding
    cdef long long _sj_cancelled
    cdef long long _sj_missed
    cdef long long _sj_refused
    cdef long long _sj_errors
    cdef Histogram _sj_lateness
    cdef Histogram _sj_waiting

    cdef int _sj_drop_removed(self) except -1

    cdef long long _sj_admit(self, DelayedOperation operation, object future) except -1
    cdef long long _sj_take_in(self, DelayedOperation operation, object future) except -1

    cdef bint _sj_join(
        self, DelayedOperation operation, long long stay, WatchedKey entry
    ) except -1

    cdef bint _sj_gather(
        self, WatchedKey watched, ProgressKey entry, list operations
    ) except -1

    cdef int _sj_arm(
        self,
        DelayedOperation operation,
        long long stay,
        long long now_us,
        long long expiration_ms,
    ) except -5

    @cython.locals(holding="long long", placed=int)
    cdef int _sj_settle_in(
        self,
        DelayedOperation operation,
        long long incoming,
        long long count,
        long long needed,
        object future,
        long long now_us,
        long long expiration_ms,
    ) except -5

    cdef int _sj_withdraw(self, long long incoming) except -1

    @cython.locals(ended="long long", place="long long")
    cdef long long _sj_advance(
        self, ProgressKey entry, long long offset, long long now_us
    ) except -2

    @cython.locals(operation=DelayedOperation)
    cdef DelayedOperation _sj_take_ended(self, long long ended, long long now_us)

    cdef bint _sj_remove_cancelled(self, DelayedOperation operation, long long now_us) except -1
    cdef int _sj_remove_ended(self, DelayedOperation operation, long long now_us) except -1
    cdef int _sj_forget(self, long long before_us) except -1
    cdef int _sj_take_sample(self, long long count, list operations) except -1
    cdef int _sj_keys_of(self, DelayedOperation operation, list keys) except -1
    cdef int _sj_count_error(self) except -1
    cdef int _sj_count_check(self) except -1
    cdef int _sj_count_missed(self) except -1

    cdef int _sj_start(
        self, DelayedOperation operation, long long now_us, long long expiration_ms
    ) except -1
    cdef int _sj_leave(self, DelayedOperation operation, long long now_us) except -1

    @cython.locals(tenants=list, n="long long")
    cdef int _sj_disarm(self, DelayedOperation operation) except -1
