cimport cython

from sojourn.replay.nodes cimport TimedNodes


@cython.final
cdef class CancelsAhead(TimedNodes):
    cdef int[::1] _next

    @cython.locals(node="long long")
    cdef int put(self, long long id, long long at_ms) except -1

    cdef long long first(self, long long id) noexcept
    cdef long long next(self, long long node) noexcept

    @cython.locals(id="long long", before="long long")
    cdef long long remove(self, long long node) noexcept
