cimport cython

cdef signed char _PENDING
cdef signed char _COMPLETED
cdef signed char _EXPIRED
cdef signed char _CANCELLED

@cython.locals(
    n="long long",
    r="long long",
    begins_ms="long long",
    deadline_ms="long long",
    held="long long",
    met_ms="long long",
    is_met="bint",
    cancelled_ms="long long",
    is_cancelled="bint",
)
cdef int _end(
    const long long[::1] submitted_ms,
    const long long[::1] timeout_ms,
    const long long[::1] needed,
    const long long[::1] starts,
    const long long[::1] moments,
    const long long[::1] cancel_ms,
    const unsigned char[::1] holds,
    const unsigned char[::1] has_cancel,
    const long long[::1] key_starts,
    const unsigned char[::1] text,
    long long known_ms,
    signed char[::1] status,
    long long[::1] at_ms,
    long long[::1] by,
    long long[::1] condition_ms,
    unsigned char[::1] has_condition,
    long long[::1] scratch,
    long long begin,
    long long end,
) except -1

@cython.locals(best="long long", r="long long")
cdef long long _smallest(
    const long long[::1] key_starts,
    const unsigned char[::1] text,
    const long long[::1] moments,
    const unsigned char[::1] holds,
    long long start,
    long long stop,
    long long begins_ms,
    long long met_ms,
) noexcept nogil

cdef int ending(
    bint is_met, long long met_ms, bint is_cancelled, long long cancel_ms, long long deadline_ms
) noexcept nogil

@cython.locals(best="long long", n="long long")
cdef long long nth(long long[::1] numbers, long long count, long long rank) noexcept nogil

@cython.locals(number="long long", child="long long")
cdef void _sink(long long[::1] numbers, long long place, long long size) noexcept nogil
