cimport cython
from cpython.pythread cimport PyThread_get_thread_ident as get_ident

from sojourn.core.task cimport TimerTask


cdef class LockedTask(TimerTask):
    cdef long _sj_owner
    cdef object _sj_gate
    cdef int _sj_depth
    # The first of a row of small fields, which DelayedOperation goes on with.
    cdef signed char _sj_foreign

    @cython.locals(me=long)
    cpdef bint _sj_try_acquire(self) except -1
    cpdef int _sj_acquire(self) except -1
    cpdef int _sj_release(self) except -1
