cimport cython

cdef long long EMPTY
cdef long long NEVER


cdef class Level:
    cdef readonly long long tick_ms
    cdef readonly long long interval_ms
    cdef readonly long long current_ms
    cdef readonly long long first_bucket
    cdef readonly Level overflow
    cdef long long _cursor
    cdef bint _is_short


cdef class Levels:
    cdef readonly Level finest
    cdef readonly long long size
    cdef readonly long long bucket_count
    cdef readonly long long earliest_ms
    cdef Level _coarsest
    cdef long long _queued
    cdef long long[::1] _queue
    cdef long long[::1] _starts_ms

    @cython.locals(
        level=Level,
        after_ms="long long",
        ticks="long long",
        bucket="long long",
        starts_ms="long long",
    )
    cdef long long place(self, long long expiration_ms) except -2

    @cython.locals(level=Level, bucket="long long", starts_ms="long long", ticks="long long")
    cdef long long take(self, long long now_ms) except -2

    cdef long long first(self) noexcept

    @cython.locals(
        last="long long", place="long long", child="long long", bucket="long long"
    )
    cdef void drop_first(self) noexcept

    cdef long long starts_ms(self, long long bucket) noexcept

    @cython.locals(place="long long", parent="long long")
    cdef void _push(self, long long bucket) noexcept

    cdef bint _before(self, long long bucket, long long other) noexcept
    cdef Level _add_level(self, long long tick_ms, long long start_ms)
