cimport cython

from sojourn.replay.texts cimport Texts

cdef long long _BLOCK
cdef long long _AHEAD
cdef unsigned long long _HIGH
cdef unsigned long long _LOW
cdef unsigned long long _SEED


@cython.final
cdef class NameTable:
    cdef readonly Texts texts
    cdef readonly long long count
    cdef long long _bits
    cdef unsigned long long[::1] _places
    cdef long long _free
    cdef int[::1] _next

    @cython.locals(
        wrap="long long",
        at="long long",
        hole="long long",
        entry="unsigned long long",
        home="long long",
    )
    cdef int remove(self, long long number) except -1

    @cython.locals(
        shift="long long",
        wrap="unsigned long long",
        n="long long",
        number="unsigned long long",
        at="unsigned long long",
    )
    cdef int _find(
        self,
        const long long[::1] starts,
        const unsigned char[::1] data,
        const unsigned long long[::1] hashes,
        int[::1] numbers,
        long long begin,
        long long end,
    ) except -1

    @cython.locals(n="long long", at="unsigned long long", number="long long")
    cdef int _add(
        self,
        const long long[::1] starts,
        const unsigned char[::1] data,
        const unsigned long long[::1] hashes,
        int[::1] numbers,
        long long begin,
        long long end,
    ) except -1

    @cython.locals(size="long long", mine="long long")
    cdef bint _is(
        self, long long number, const unsigned char[::1] data, long long start, long long end
    ) noexcept nogil

    @cython.locals(number="long long")
    cdef int _new_number(self) except -1

    @cython.locals(n="long long", at="unsigned long long", old="unsigned long long[::1]")
    cdef int _widen(self) except -1
