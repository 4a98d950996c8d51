cimport cython

from sojourn.core.levels cimport EMPTY
from sojourn.core.millis cimport checked_ms


cdef class Driven:
    cpdef long long _sj_next_ms(self) except? -1
    cpdef long long _sj_turn(self) except -1
    cpdef bint _sj_has_ready(self) except -1
    cpdef object _sj_run_ready(self)


cdef class SystemClock:
    pass


cdef class ManualClock:
    cdef long long _sj_now_ms
    cdef list _sj_drivers

    @cython.locals(
        next_ms="long long", at_ms="long long", first=_ByHand, driver=_ByHand, drivers=list
    )
    cdef int _sj_advance_to(self, long long target_ms) except -1

    cdef int _sj_move_to(self, long long now_ms) except -1
    cdef bint _sj_replace(self, list before, list after) except -1


cdef class _ByHand:
    cdef object __weakref__
    cdef Driven timer
    cdef bint _running

    cdef int turn(self) except -1
    cdef int run(self) except -1


cpdef bint runs_at_once(object driver) except -1
