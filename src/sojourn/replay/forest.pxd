cimport cython


cdef class Forest:
    cdef int[::1] links
    cdef long long[::1] keys
    cdef long long cut_off

    cpdef int reserve(self, long long nodes) except -1

    @cython.locals(
        links="int[::1]",
        keys="long long[::1]",
        weight="unsigned long long",
        above="long long",
        here="long long",
        left="long long",
        right="long long",
    )
    cdef long long insert(self, long long root, long long node, long long key) noexcept

    @cython.locals(
        links="int[::1]",
        keys="long long[::1]",
        key="long long",
        above="long long",
        here="long long",
        left="long long",
        right="long long",
        at="long long",
    )
    cdef long long remove(self, long long root, long long node) noexcept

    @cython.locals(
        links="int[::1]",
        keys="long long[::1]",
        left="long long",
        right="long long",
        here="long long",
    )
    cdef long long cut(self, long long root, long long bound) noexcept


@cython.locals(mixed="unsigned long long")
cdef unsigned long long _weight(unsigned long long node) noexcept
