cimport cython

cdef long long _LOW
cdef int NOTHING
cdef unsigned long long _ODD_A
cdef unsigned long long _ODD_B
cdef unsigned long long _ODD_C
cdef unsigned long long _SEED


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

    cdef int drop(self, long long place) except -1
    cdef bint holds(self, long long place) noexcept

    @cython.locals(mine="long long", others="long long", a="long long", b="long long", order="int")
    cdef bint before(self, long long place, long long other) noexcept

    @cython.locals(n="long long", place="long long", total="long long")
    cdef long long _lay_out(
        self, const int[::1] places, long long[::1] starts, unsigned char[::1] valid
    ) except -1

    @cython.locals(n="long long", size="long long", start="long long")
    cdef int _copy_out(
        self, const int[::1] places, long long[::1] starts, unsigned char[::1] data
    ) except -1

    cdef int _make_room(self, long long size) except -1

    @cython.locals(used="long long", place="long long", size="long long", start="long long")
    cdef int _pack(self, unsigned char[::1] packed) except -1


cdef class Names:
    cdef readonly Texts texts
    cdef readonly long long count
    cdef long long[::1] _table
    cdef long long _mask
    cdef long long _free
    cdef int[::1] _next

    @cython.locals(at="long long", hole="long long", entry="long long", home="long long")
    cdef int remove(self, long long number) except -1

    @cython.locals(
        n="long long",
        start="long long",
        end="long long",
        hashed="long long",
        at="long long",
        entry="long long",
        number="long long",
    )
    cdef int _look_up(
        self, const long long[::1] starts, const unsigned char[::1] data, int[::1] numbers, bint add
    ) except -1

    @cython.locals(size="long long", mine="long long")
    cdef bint _is(
        self, long long number, const unsigned char[::1] data, long long start, long long end
    ) noexcept

    @cython.locals(number="long long")
    cdef long long _new_number(self) except -1

    @cython.locals(start="long long", end="long long", at="long long")
    cdef long long _find(self, long long number) except -1

    @cython.locals(n="long long", at="long long", old="long long[::1]")
    cdef int _widen(self) except -1


@cython.locals(mixed="unsigned long long", word="unsigned long long")
cdef long long _hash(const unsigned char[::1] data, long long start, long long end) noexcept
