cimport cython

from sojourn.replay.texts cimport Texts


@cython.final
cdef class Cells:
    cdef long long[::1] _moments_ms
    cdef Texts _keys
    cdef long long _top
    cdef long long[::1] _free
    cdef long long[::1] _scratch
    cdef long long condition_ms

    @cython.locals(first="long long")
    cdef int take(self, long long count) except -1

    @cython.locals(cell="long long")
    cdef int free(self, long long first, long long count) except -1

    cdef bint is_better(self, long long cell, long long moment_ms) noexcept

    cdef int fill(
        self,
        long long cell,
        long long moment_ms,
        const unsigned char[::1] data,
        long long start,
        long long end,
    ) except -1

    @cython.locals(held="long long", cell="long long")
    cdef bint find_condition(self, long long first, long long count, long long needed) except -1

    @cython.locals(smallest="long long", cell="long long")
    cdef int smallest(self, long long first, long long count) noexcept
