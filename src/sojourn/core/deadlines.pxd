cimport cython

from sojourn.core.levels cimport EMPTY, Levels
from sojourn.core.millis cimport LIMIT_MS
from sojourn.core.places cimport filled, numbers

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
cdef long long _TOO_SMALL


cdef class DeadlineWheel:
    cdef Levels _sj_levels
    cdef object _sj_store
    cdef long long* _sj_slots
    cdef long long _sj_room
    cdef long long[::1] _sj_ends
    cdef long long[::1] _sj_counts
    cdef long long _sj_waiting
    cdef long long _sj_used
    cdef long long _sj_retired
    cdef long long _sj_free

    @cython.locals(latest_ms="long long")
    cdef int _sj_add_all(self, const long long[:] deadlines_ms, long long[::1] handles) except -1

    @cython.locals(needed="long long", levels=Levels, larger=Levels)
    cdef int _sj_make_room(self, long long count, long long latest_ms) except -1

    @cython.locals(room="long long")
    cdef int _sj_grow(self, long long needed) except -1

    @cython.locals(n="long long")
    cdef int _sj_replace_levels(
        self, Levels levels, Levels larger, long long[::1] ends, long long[::1] counts
    ) except -1

    @cython.locals(n="long long", level="long long")
    cdef bint _sj_copy_counts(
        self, Levels levels, long long[::1] counts, long long[::1] cursors
    ) noexcept

    @cython.locals(
        n="long long", slot="long long", needed="long long", deadline_ms="long long"
    )
    cdef bint _sj_add(
        self, const long long[:] deadlines_ms, long long latest_ms, long long[::1] handles
    ) except -1

    @cython.locals(
        n="long long",
        handle="long long",
        slot="long long",
        tag="long long",
        free="long long",
        after="long long",
        before="long long",
        cancelled="long long",
    )
    cdef long long _sj_cancel(self, const long long[:] handles) noexcept

    @cython.locals(
        bucket="long long",
        slot="long long",
        after="long long",
        due="long long",
        due_ms="long long",
    )
    cdef long long _sj_advance(self, long long now_ms, long long[::1] handles) noexcept

    @cython.locals(bucket="long long")
    cdef long long _sj_next_ms(self) noexcept

    cdef bint _sj_is_due(self, long long now_ms) noexcept

    @cython.locals(slot="long long")
    cdef long long _sj_take_slot(self) noexcept

    @cython.locals(tail="long long")
    cdef void _sj_link(self, long long slot, long long number) noexcept

    @cython.locals(number="long long", after="long long", before="long long")
    cdef void _sj_unlink(self, long long slot) noexcept

    @cython.locals(tag="long long")
    cdef void _sj_release(self, long long slot) noexcept

    @cython.locals(
        slot="long long",
        number="long long",
        after="long long",
        before="long long",
        tag="long long",
    )
    cdef void _sj_put_back(self, long long free) noexcept


@cython.locals(n="long long", latest_ms="long long", deadline_ms="long long")
cdef long long _latest(const long long[:] deadlines_ms) except? -1

cdef object _list_ends(Levels levels)
cdef object _list_counts(Levels levels)
cdef object _array(long long count)
cdef object _shortened(object integers, long long count)
