cdef class LoopThread:
    cdef readonly object loop
    cdef readonly long thread

    cpdef bint is_here(self) noexcept
    cpdef int check(self) except -1
    cpdef int call_soon(self, object fn, object arg, object context) except -1


cdef class LoopClock:
    cdef LoopThread _loop
    cdef object _time
    cdef bint _is_system_time
