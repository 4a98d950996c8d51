cimport cython

from sojourn.core.forest cimport Forest
from sojourn.replay.alarms cimport Alarms

cdef int _IN_USE


@cython.final
cdef class Nodes:
    cdef int[::1] _next
    cdef long long _free
    cdef long long _free_count
    cdef long long _top

    @cython.locals(top="long long")
    cpdef int reserve(self, long long more) except -1

    @cython.locals(node="long long")
    cdef long long take(self) noexcept

    cdef void free(self, long long node) noexcept


cdef class TimedNodes:
    cdef int[::1] _firsts
    cdef Nodes _nodes
    cdef int[::1] _keys
    cdef Alarms _alarms
    cdef NumberList _fresh

    @cython.locals(node="long long")
    cdef long long _add(self, long long key, long long at_ms) except -1

    cdef bint has(self, long long key) noexcept
    cdef long long at_ms(self, long long node) noexcept


cdef class TimedTrees(TimedNodes):
    cdef Forest _forest
    cdef NumberList _gone

    @cython.locals(node="long long")
    cdef long long _insert(self, long long key, long long offset, long long at_ms) except -1

    @cython.locals(key="long long")
    cdef long long _remove(self, long long node) noexcept


@cython.final
cdef class NumberList:
    cdef int[::1] _numbers
    cdef readonly long long count

    cdef int add(self, long long number) except -1
    cdef long long at(self, long long n) noexcept
