cimport cython
from cpython.object cimport PyObject
from cpython.pythread cimport PyThread_get_thread_ident as get_ident

from sojourn.core.lock cimport LockedTask
from sojourn.core.millis cimport checked_ms
from sojourn.core.task cimport OVERRIDDEN, detach, unlink, waits_already

cdef enum:
    PENDING = 0
    COMPLETED = 1
    EXPIRED = 2
    CANCELLED = 3
    PROBING = 1
    HOLDS = 2
    HELD_AT_DEADLINE = 3


cdef class Keeper:
    cdef int _sj_on_end(self, DelayedOperation operation) except -1
    cdef int _sj_on_error(self, DelayedOperation operation) except -1
    cdef bint _sj_cancel(self, DelayedOperation operation, object why) except -1
    cdef object _sj_before_expiry(self, DelayedOperation operation)


cdef class Keeping:
    cdef PyObject* keeper


@cython.locals(keeping=Keeping)
cdef Keeper keeper_of(DelayedOperation operation)


@cython.locals(keeping=Keeping)
cdef Keeping new_keeping(Keeper keeper)


cpdef object state_of(DelayedOperation operation)
cpdef object error_of(DelayedOperation operation)
cpdef object is_cancelled(DelayedOperation operation)


cdef class DelayedOperation(LockedTask):
    cdef signed char _sj_state
    cdef signed char _sj_again
    cdef signed char _sj_armed
    cdef signed char _sj_ended_in_try
    cdef signed char _sj_probed
    cdef int _sj_places
    cdef int _sj_missing
    cdef object __weakref__
    cdef long _sj_trier
    cdef Keeping _sj_keeping
    cdef long long _sj_started_us
    cdef long long _sj_stay
    cdef object _sj_future
    cdef object _sj_error

    @cython.locals(completed=bint, outer=long)
    cdef bint _sj_attempt(self) except -1

    @cython.locals(outer=long)
    cdef bint _sj_holds(self) except -1

    @cython.locals(me=long)
    cdef bint _sj_on_signal(self, Keeper keeper) except -1

    cdef bint _sj_try_again(self, bint completed) except -1

    @cython.locals(me=long, keeper=Keeper)
    cdef bint _sj_end(self, int state) except -1

    cdef object _sj_finish(self)

    @cython.locals(keeper=Keeper)
    cdef object _sj_fail(self, str where, object error)

    cdef object _sj_settle(self)
    cpdef object _sj_on_cancel(self, object why)


@cython.locals(me=long)
cdef bint claim(DelayedOperation operation, int state) except -1

cdef object take_future(DelayedOperation operation)
