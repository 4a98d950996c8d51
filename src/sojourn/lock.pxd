cimport cython

from sojourn.task cimport TimerTask


cdef class LockedTask(TimerTask):
    cdef long _sj_owner
    cdef int _sj_depth
    cdef object _sj_gate

    @cython.locals(me=long)
    cpdef bint try_acquire(self) noexcept
    cpdef int acquire(self) except -1
    cpdef int release(self) except -1
