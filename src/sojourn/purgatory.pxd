cimport cython
from cpython.object cimport PyObject

from sojourn.histogram cimport Histogram
from sojourn.operation cimport DelayedOperation, Keeper, Keeping
from sojourn.progress cimport Progress, ProgressKey
from sojourn.timer cimport Timer
from sojourn.watchers cimport WatchedKey, Watchers

cdef int _AGAIN
cdef int _ENDED
cdef int _AT_ONCE


cdef class Purgatory(Keeper):
    cdef object __weakref__
    cdef readonly str name
    cdef readonly Timer timer
    cdef bint _sj_owns_timer
    cdef bint _sj_closed
    cdef Keeping _sj_keeping
    cdef Watchers _sj_watchers
    cdef Progress _sj_progress
    cdef object _sj_auditor
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

    cdef bint _sj_submit(
        self, object operation, object keys, object requires, object needed, object future
    ) except -1

    @cython.locals(
        completed=bint, checks="long long", stay="long long", now_us="long long", placed=int
    )
    cdef bint _sj_watch_all(
        self, DelayedOperation operation, tuple keys, object future
    ) except -1

    @cython.locals(entry=WatchedKey)
    cdef int _sj_watch(self, DelayedOperation operation, long long stay, object key) except -1

    @cython.locals(
        progress=Progress, n="long long", now_us="long long", placed=int
    )
    cdef bint _sj_park(
        self, DelayedOperation operation, list requires, long long needed, object future
    ) except -1

    @cython.locals(operation=DelayedOperation, completed="long long")
    cdef long long _sj_check(self, object key) except -1

    cdef bint _sj_try(self, DelayedOperation operation) except -1

    @cython.locals(operation=DelayedOperation, now_us="long long", ended=list)
    cdef long long _sj_signal(self, object key, long long offset) except -1

    @cython.locals(entry=WatchedKey)
    cdef list _sj_watching(self, object key)

    @cython.locals(operations=list, entry=ProgressKey)
    cdef list _sj_on_key(self, object key)

    cdef object _sj_drop(self, object why)
    cdef object _sj_drop_all(self)
    cdef int _sj_bury(self) except -1

    cdef long long _sj_admit(self, DelayedOperation operation, object future) except -1
    cdef long long _sj_take_in(self, DelayedOperation operation, object future) except -1

    cdef bint _sj_join(
        self, DelayedOperation operation, long long stay, WatchedKey entry
    ) except -1

    cdef bint _sj_gather(
        self, WatchedKey watched, ProgressKey entry, list operations
    ) except -1

    cdef int _sj_arm(
        self, DelayedOperation operation, long long stay, long long now_us
    ) except -5

    @cython.locals(holding="long long", placed=int)
    cdef int _sj_settle_in(
        self,
        DelayedOperation operation,
        list requires,
        long long needed,
        object future,
        long long now_us,
    ) except -5

    @cython.locals(operation=DelayedOperation)
    cdef bint _sj_advance(
        self, ProgressKey entry, long long offset, long long now_us, list ended
    ) except -1

    cdef bint _sj_disown(self, DelayedOperation operation, long long now_us) except -1
    cdef int _sj_remove(self, DelayedOperation operation, long long now_us) except -1
    cdef int _sj_record(self, DelayedOperation operation, long long now_us) except -1
    cdef int _sj_forget(self, long long before_us) except -1
    cdef int _sj_tidy(self, list requires) except -1
    cdef int _sj_take_sample(self, long long count, list operations) except -1
    cdef int _sj_keys_of(self, DelayedOperation operation, list keys) except -1
    cdef int _sj_count_error(self) except -1
    cdef int _sj_count_check(self) except -1
    cdef int _sj_count_missed(self) except -1

    cdef int _sj_start(self, DelayedOperation operation, long long now_us) except -1
    cdef int _sj_leave(self, DelayedOperation operation, long long now_us) except -1

    @cython.locals(tenants=list, n="long long")
    cdef int _sj_disarm(self, DelayedOperation operation) except -1


cdef list _unique(list operations)
