cimport cython

from sojourn.core.places cimport filled, numbers


cdef long long EMPTY
cdef long long NEVER
cdef long long _SHORT


cdef class Levels:
    cdef readonly long long size
    cdef readonly long long count
    cdef readonly long long earliest_ms
    cdef readonly long long[::1] ticks_ms
    cdef readonly long long[::1] intervals_ms
    cdef readonly long long[::1] currents_ms
    cdef long long[::1] cursors
    cdef long long _queued
    cdef long long[::1] _queue
    cdef long long[::1] _starts_ms

    @cython.locals(
        level="long long",
        after_ms="long long",
        ticks="long long",
        slot="long long",
        bucket="long long",
        starts_ms="long long",
    )
    cdef long long place(self, long long expiration_ms) noexcept

    @cython.locals(
        level="long long", bucket="long long", starts_ms="long long", ticks="long long"
    )
    cdef long long take(self, long long now_ms) noexcept

    cdef long long due_ms(self) noexcept
    cdef long long first(self) noexcept

    @cython.locals(
        last="long long", place="long long", child="long long", bucket="long long"
    )
    cdef void drop_first(self) noexcept

    cdef long long starts_ms(self, long long bucket) noexcept

    @cython.locals(place="long long", parent="long long")
    cdef void _push(self, long long bucket) noexcept

    cdef bint _before(self, long long bucket, long long other) noexcept

    @cython.locals(level="long long", current_ms="long long", cursor="long long")
    cdef void _begin(self, long long first, long long start_ms) noexcept

    @cython.locals(last="long long")
    cdef long long end_ms(self) noexcept

    @cython.locals(count="long long", current_ms="long long", interval_ms="long long")
    cdef Levels spanning(self, long long expiration_ms)

    @cython.locals(level="long long", bucket="long long", place="long long")
    cdef void take_over(self, Levels other) noexcept


cdef long long interval_of(long long tick_ms, long long size) noexcept

@cython.locals(rest="long long")
cdef long long floored(long long ms, long long tick_ms) noexcept
