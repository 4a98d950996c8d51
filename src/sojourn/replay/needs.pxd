cimport cython

from sojourn.replay.nodes cimport NumberList, TimedTrees
from sojourn.replay.texts cimport Texts


@cython.final
cdef class RequirementRows:
    cdef const int[::1] keys
    cdef const long long[::1] id_starts
    cdef const unsigned char[::1] id_data
    cdef const long long[::1] tags
    cdef const int[::1] indexes
    cdef const long long[::1] offsets
    cdef const long long[::1] submitted_ms
    cdef const long long[::1] deadlines_ms
    cdef const long long[::1] order


@cython.final
cdef class Needs(TimedTrees):
    cdef Texts _ids
    cdef long long[::1] _tags
    cdef int[::1] _indexes
    cdef long long[::1] _submitted_ms
    cdef NumberList _improved
    cdef long long[::1] _moments_ms
    cdef NumberList _walk
    cdef NumberList _range

    @cython.locals(node="long long")
    cdef int put(self, RequirementRows rows, long long n) except -1

    @cython.locals(n="long long", node="long long", moment_ms="long long")
    cdef int improve(
        self, long long key, bint bounded, long long bound, long long offset, long long at_ms
    ) except -1

    @cython.locals(n="long long")
    cdef int remove_until(self, long long key, long long offset) except -1

    @cython.locals(key="long long")
    cdef int expire(self, long long node) except -1

    @cython.locals(n="long long")
    cdef int _put_all(self, RequirementRows rows) except -1

    cdef int _free(self, long long node) except -1

    @cython.locals(done="long long", node="long long", above="bint", below="bint")
    cdef int _find_range(
        self, long long root, bint bounded, long long bound, bint limited, long long limit
    ) except -1
