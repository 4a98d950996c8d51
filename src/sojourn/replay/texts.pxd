cimport cython

cdef int NOTHING


@cython.final
cdef class Texts:
    cdef unsigned char[::1] _data
    cdef long long _used
    cdef long long _live
    cdef long long[::1] _starts
    cdef int[::1] _sizes
    cdef readonly long long places

    cpdef int reserve(self, long long places) except -1

    @cython.locals(size="long long")
    cdef int put(
        self, long long place, const unsigned char[::1] data, long long start, long long end
    ) except -1

    cdef int remove(self, long long place) except -1
    cdef bint holds(self, long long place) noexcept

    @cython.locals(a="long long", b="long long")
    cdef bint before(self, long long place, long long other) noexcept

    @cython.locals(n="long long", place="long long", total="long long")
    cdef long long _lay_out(
        self, const int[::1] places, long long[::1] starts, unsigned char[::1] valid
    ) noexcept

    @cython.locals(n="long long", size="long long", start="long long")
    cdef int _copy_out(
        self, const int[::1] places, long long[::1] starts, unsigned char[::1] data
    ) except -1

    cdef int _make_room(self, long long size) except -1

    @cython.locals(used="long long", place="long long", size="long long", start="long long")
    cdef int _pack(self, unsigned char[::1] packed) except -1


@cython.locals(length="long long", other_length="long long", order="int")
cdef bint precedes(
    const unsigned char[::1] data,
    long long start,
    long long end,
    long long other_start,
    long long other_end,
) noexcept nogil
