cimport cython

from sojourn.levels cimport Levels

cdef enum:
    _WORDS = 4
    _AFTER = 1
    _BEFORE = 2
    _TAG = 3

cdef long long _LOW
cdef long long _HIGH
cdef long long _ONE_GENERATION
cdef long long _MOST
cdef long long _FAR
cdef long long _NEAR


cdef class DeadlineWheel:
    cdef Levels _levels
    cdef object _store
    cdef long long[::1] _slots
    cdef object _list_ends
    cdef long long[::1] _ends
    cdef object _handed_out
    cdef long long[::1] _counter
    cdef long long _due
    cdef long long _waiting
    cdef long long _used
    cdef long long _free

    @cython.locals(n="long long", slot="long long")
    cdef int _add(self, const long long[:] deadlines_ms, long long[::1] handles) except -1

    @cython.locals(n="long long", slot="long long", tag="long long", cancelled="long long")
    cdef long long _cancel(self, const long long[:] handles) except -1

    @cython.locals(bucket="long long", slot="long long", after="long long", due_ms="long long")
    cdef object _advance(self, long long now_ms)

    @cython.locals(bucket="long long")
    cdef long long _next_ms(self) except? -1

    cdef int _hand_out(self, long long slot) except -1

    @cython.locals(needed="long long", room="long long", size="long long")
    cdef int _reserve(self, long long count) except -1

    @cython.locals(bucket="long long")
    cdef long long _list_for(self, long long deadline_ms) except -1

    @cython.locals(tail="long long")
    cdef int _link(self, long long slot, long long number) except -1

    @cython.locals(number="long long", after="long long", before="long long")
    cdef int _unlink(self, long long slot) except -1

    cdef int _release(self, long long slot) except -1
