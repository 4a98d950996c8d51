cimport cython


@cython.final
cdef class Remembered:
    cdef long long[::1] _until_ms
    cdef unsigned char[::1] _has_until
    cdef long long[::1] _queue_ms
    cdef int[::1] _queue_ids
    cdef long long _first
    cdef long long _last

    cdef bint has(self, long long id) noexcept
    cdef bint has_until(self, long long id, long long at_ms) noexcept
    cdef int put(self, long long id, long long until_ms) except -1

    @cython.locals(id="long long")
    cdef long long pop(self, long long now_ms) noexcept

    @cython.locals(n="long long")
    cdef int fill(self, const int[::1] ids, const long long[::1] until_ms) except -1
