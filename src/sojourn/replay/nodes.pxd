cimport cython

cdef int _IN_USE


@cython.final
cdef class Nodes:
    cdef int[::1] _next
    cdef long long _free
    cdef long long _free_count
    cdef long long _top

    @cython.locals(top="long long")
    cpdef int reserve(self, long long more) except -1

    @cython.locals(node="long long")
    cdef long long take(self) noexcept

    cdef void free(self, long long node) noexcept
    cdef bint is_used(self, long long node) noexcept


@cython.final
cdef class NumberList:
    cdef int[::1] _numbers
    cdef readonly long long count

    cdef int add(self, long long number) except -1
    cdef long long at(self, long long n) noexcept
