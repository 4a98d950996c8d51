cimport cython


cdef class Driven:
    cpdef long long next_ms(self) except? -1
    cpdef long long turn(self) except -1
    cpdef bint has_ready(self) except -1
    cpdef object run_ready(self)


cdef class SystemClock:
    pass


cdef class ManualClock:
    cdef long long _now_ms
    cdef list _drivers

    @cython.locals(next_ms="long long", at_ms="long long", first=_ByHand, driver=_ByHand)
    cdef int _advance_to(self, long long target_ms) except -1

    cdef int _move_to(self, long long now_ms) except -1


cdef class _ByHand:
    cdef object __weakref__
    cdef Driven timer
    cdef bint _running

    cdef int turn(self) except -1
    cdef int run(self) except -1
