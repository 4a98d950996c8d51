cimport cython

from sojourn.core.places cimport int_address, long_address, numbers


cdef unsigned long long _LOW


@cython.final
cdef class Forest:
    cdef int* links
    cdef int* parents
    cdef long long* keys
    cdef int[::1] _link_slab
    cdef int[::1] _parent_slab
    cdef long long[::1] key_slab
    cdef long long cut_off

    @cython.locals(room="long long")
    cpdef int reserve(self, long long nodes) except -1

    @cython.locals(n="long long")
    cdef int adopt(self, Forest larger) except -1

    @cython.locals(
        links="int*",
        keys="long long*",
        parents="int*",
        weight="unsigned long long",
        parent="long long",
        above="long long",
        here="long long",
    )
    cdef long long insert(self, long long root, long long node, long long key) noexcept

    @cython.locals(
        links="int*",
        parents="int*",
        parent="long long",
        above="long long",
        left="long long",
        right="long long",
        at="long long",
    )
    cdef long long remove(self, long long root, long long node) noexcept

    @cython.locals(links="int*", parents="int*")
    cdef long long cut(self, long long root, long long bound) noexcept

    @cython.locals(links="int*", keys="long long*", parents="int*")
    cdef void _split(
        self,
        long long here,
        long long bound,
        long long left,
        long long right,
        long long left_parent,
        long long right_parent,
    ) noexcept

    @cython.locals(links="int*", here="long long")
    cdef long long first(self, long long root) noexcept

    @cython.locals(links="int*", parents="int*", here="long long", above="long long")
    cdef long long after(self, long long node) noexcept

    @cython.locals(links="int*", at="long long", here="long long", left="long long")
    cdef long long unfold(self, long long root) noexcept


@cython.locals(mixed="unsigned long long")
cdef unsigned long long _weight(unsigned long long node) noexcept
