cimport cython

from sojourn.replay.nodes cimport TimedTrees


@cython.final
cdef class SignalRows:
    cdef const int[::1] keys
    cdef const long long[::1] offsets
    cdef const long long[::1] at_ms
    cdef const long long[::1] order


@cython.final
cdef class SignalsAhead(TimedTrees):
    cdef long long offset(self, long long node) noexcept

    cdef int put(self, long long key, long long offset, long long at_ms) except -1

    @cython.locals(latest="long long", here="long long")
    cdef long long latest_until(self, long long key, long long at_ms) noexcept

    @cython.locals(earliest="long long", here="long long")
    cdef long long earliest_from(self, long long key, long long at_ms) noexcept

    @cython.locals(covering="long long", here="long long")
    cdef long long covering(self, long long key, long long offset) noexcept

    cdef int remove(self, long long node) except -1
    cdef int remove_all(self, long long key) except -1

    @cython.locals(key="long long")
    cdef long long pass_by(self, long long node) noexcept

    @cython.locals(n="long long")
    cdef int _free_all(self, const int[::1] nodes) except -1

    @cython.locals(n="long long")
    cdef int _put_all(self, SignalRows rows) except -1
