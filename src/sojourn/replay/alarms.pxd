cimport cython

cdef long long _NONE
cdef long long _SLOT


cdef class Alarms:
    cdef object _wheel
    cdef object _start_ms
    cdef long long[::1] _handles
    cdef int[::1] _owners
    cdef long long[::1] times_ms

    cdef bint is_set(self, long long number) noexcept

    @cython.locals(old="long long")
    cpdef int reserve(self, long long count) except -1

    @cython.locals(n="long long", slot="long long")
    cdef int _own(
        self, const int[::1] numbers, const long long[::1] times_ms, const long long[::1] handles
    ) except -1

    @cython.locals(n="long long", count="long long")
    cdef long long _disown(self, const int[::1] numbers, long long[::1] handles) except -1

    @cython.locals(n="long long", count="long long", last="long long", number="long long")
    cdef long long _owned(
        self, const long long[::1] handles, int[::1] numbers, long long now_ms
    ) except -1
