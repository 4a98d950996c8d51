cimport cython

from sojourn.replay.alarms cimport Alarms
from sojourn.replay.nodes cimport Nodes, NumberList


@cython.final
cdef class CancelsAhead:
    cdef int[::1] _firsts
    cdef Nodes _nodes
    cdef int[::1] _ids
    cdef int[::1] _next
    cdef Alarms _alarms
    cdef NumberList _fresh

    @cython.locals(node="long long")
    cdef int put(self, long long id, long long at_ms) except -1

    cdef long long first(self, long long id) noexcept
    cdef long long next(self, long long node) noexcept
    cdef long long at_ms(self, long long node) noexcept

    @cython.locals(id="long long", before="long long")
    cdef long long remove(self, long long node) noexcept
