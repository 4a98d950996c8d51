cimport cython

cdef long long _RUN
cdef long long _AHEAD

@cython.locals(
    n="long long", total="long long", key="long long", size="long long", at="long long"
)
cdef int _deal(
    const int[::1] codes,
    const long long[::1] offsets,
    const long long[::1] at_ms,
    long long[::1] bounds,
    long long[::1] steps,
) except -1

@cython.locals(
    key="long long", start="long long", stop="long long", n="long long", last="long long"
)
cdef int _reduce(
    long long[::1] steps, long long[::1] bounds, long long[::1] spare, long long begin, long long end
) except -1

@cython.locals(
    run="long long",
    end="long long",
    n="long long",
    offset="long long",
    at_ms="long long",
    to="long long",
    size="long long",
)
cdef void _sort(
    long long[::1] steps, long long[::1] spare, long long start, long long stop
) noexcept nogil

@cython.locals(n="long long", left="long long", right="long long", to="long long")
cdef void _merge(
    long long[::1] steps, long long[::1] spare, long long start, long long middle, long long stop
) noexcept nogil

@cython.locals(
    n="long long",
    offset="long long",
    low="long long",
    stop="long long",
    size="long long",
    half="long long",
)
cdef int _search(
    const long long[::1] steps,
    const long long[::1] bounds,
    const int[::1] codes,
    const long long[::1] offsets,
    long long[::1] moments,
    unsigned char[::1] holds,
    long long begin,
    long long end,
) except -1
