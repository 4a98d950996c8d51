cimport cython

from sojourn.core.forest cimport Forest
from sojourn.replay.nodes cimport NumberList, TimedNodes
from sojourn.replay.texts cimport Texts


@cython.final
cdef class Needs(TimedNodes):
    cdef Forest _forest
    cdef Texts _ids
    cdef long long[::1] _tags
    cdef int[::1] _indexes
    cdef long long[::1] _submitted_ms
    cdef NumberList _gone
    cdef NumberList _improved
    cdef long long[::1] _moments_ms
    cdef NumberList _walk
    cdef NumberList _range

    @cython.locals(node="long long")
    cdef int put(
        self,
        long long key,
        long long offset,
        long long tag,
        int index,
        long long submitted_ms,
        long long deadline_ms,
    ) except -1

    cdef int name(
        self, long long node, const unsigned char[::1] data, long long start, long long end
    ) except -1

    @cython.locals(n="long long", node="long long", moment_ms="long long")
    cdef int improve(
        self, long long key, bint bounded, long long bound, long long offset, long long at_ms
    ) except -1

    @cython.locals(n="long long")
    cdef int remove_until(self, long long key, long long offset) except -1

    @cython.locals(key="long long")
    cdef int expire(self, long long node) except -1

    @cython.locals(n="long long", node="long long")
    cdef int _put_all(
        self,
        const long long[::1] id_starts,
        const unsigned char[::1] id_data,
        const long long[::1] tags,
        const int[::1] indexes,
        const int[::1] keys,
        const long long[::1] offsets,
        const long long[::1] submitted_ms,
        const long long[::1] deadlines_ms,
    ) except -1

    cdef int _free(self, long long node) except -1

    @cython.locals(done="long long", node="long long", above="bint", below="bint")
    cdef int _find_range(
        self, long long root, bint bounded, long long bound, bint limited, long long limit
    ) except -1
