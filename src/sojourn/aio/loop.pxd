cimport cython
from cpython.pythread cimport PyThread_get_thread_ident as get_ident


cdef class LoopThread:
    cdef readonly object loop
    cdef readonly unsigned long thread

    cpdef bint is_here(self) noexcept
    cpdef int check(self) except -1
    cpdef int check_open(self) except -1
    cpdef int check_running(self) except -1
    cpdef int call_soon(self, object fn, object arg, object context) except -1


cdef class LoopClock:
    cdef LoopThread _loop

    @cython.locals(seconds=double)
    cpdef long long now_ns(self) except? -1
