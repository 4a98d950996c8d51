cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

cdef enum:
    NOBODY = 0


cdef inline long long as_address(object thing) noexcept:
    return <long long> <PyObject*> thing


cdef inline object at_address(long long address):
    return <object> <PyObject*> address


cdef inline int* int_address(int[::1] slab) noexcept:
    return &slab[0]


cdef inline long long* long_address(long long[::1] slab) noexcept:
    return &slab[0]


cdef object numbers(str kind, long long count)
cdef object filled(long long count, long long value)
cdef object references(long long count)


cdef class Places:
    cdef int[:] siblings
    cdef long long[:] holders
    cdef long long _free
    cdef long long _used

    @cython.locals(room="long long")
    cdef int reserve(self, long long count) except -1
    cdef int _enlarge(self, long long room) except -1

    @cython.locals(place="long long")
    cdef bint has_room(self, long long count) noexcept

    @cython.locals(n="long long")
    cdef int adopt(self, int[:] siblings, long long[:] holders) except -1

    @cython.locals(place="long long")
    cdef long long take(self, object holder) noexcept
    cdef void hand_over(self, long long place, object holder) noexcept
    cdef void give_back(self, long long place) noexcept
    cdef void release(self, long long place) noexcept
