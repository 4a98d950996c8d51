cimport cython

cdef long long _BLOCK
cdef long long _RECORD
cdef unsigned long long _ALL
cdef unsigned long long _HIGH
cdef unsigned long long _LOW
cdef unsigned long long _MIX_1
cdef unsigned long long _MIX_2
cdef unsigned long long _MIX_3
cdef unsigned long long _ONE
cdef bint _IS_LITTLE

@cython.locals(word="unsigned long long")
cdef unsigned long long _word(
    const unsigned char[::1] text, long long start, long long length
) noexcept nogil

@cython.locals(mix="unsigned long long", done="long long")
cdef unsigned long long _hashed(
    const unsigned char[::1] text,
    long long start,
    long long length,
    unsigned long long first,
    unsigned long long second,
) noexcept nogil

@cython.locals(
    n="long long",
    start="long long",
    length="long long",
    first="unsigned long long",
    second="unsigned long long",
    mix="unsigned long long",
)
cdef void _hash_block(
    const long long[::1] starts,
    const unsigned char[::1] text,
    unsigned long long[::1] scratch,
    unsigned long long[::1] places,
    long long bits,
    long long begin,
    long long end,
) noexcept nogil

@cython.locals(record="long long", other="long long")
cdef bint _is_same(
    unsigned long long[::1] records,
    long long code,
    const long long[::1] coded_starts,
    const unsigned char[::1] coded_text,
    unsigned long long first,
    unsigned long long second,
    const unsigned char[::1] text,
    long long start,
    long long length,
) noexcept nogil

@cython.locals(
    done="long long",
    count="long long",
    total="long long",
    wrap="unsigned long long",
    end="long long",
    n="long long",
    first="unsigned long long",
    second="unsigned long long",
    mix="unsigned long long",
    start="long long",
    length="long long",
    at="unsigned long long",
    code="long long",
)
cdef int _learn(
    unsigned long long[::1] places,
    long long bits,
    unsigned long long[::1] records,
    const long long[::1] starts,
    const unsigned char[::1] text,
    int[::1] codes,
    unsigned long long[::1] scratch,
    long long[::1] done_and_count,
) except -1

@cython.locals(wrap="unsigned long long", n="long long", at="unsigned long long")
cdef int _move(
    unsigned long long[::1] places, unsigned long long[::1] larger, long long bits
) except -1

@cython.locals(
    wrap="unsigned long long",
    stop="long long",
    n="long long",
    mix="unsigned long long",
    start="long long",
    length="long long",
    at="unsigned long long",
    code="long long",
)
cdef int _find(
    unsigned long long[::1] places,
    long long bits,
    unsigned long long[::1] records,
    const long long[::1] coded_starts,
    const unsigned char[::1] coded_text,
    const long long[::1] starts,
    const unsigned char[::1] text,
    int[::1] codes,
    unsigned long long[::1] scratch,
    long long begin,
    long long end,
) except -1
