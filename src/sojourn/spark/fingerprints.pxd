cimport cython

cdef unsigned long long _ALL
cdef unsigned long long _ONE
cdef unsigned long long _TWO
cdef unsigned long long _ROUTE

@cython.locals(
    n="long long", at="long long", end="long long",
    one="unsigned long long", two="unsigned long long", word="unsigned long long",
)
cdef int _of_texts(
    const unsigned char[::1] letters, const long long[::1] places,
    unsigned long long[::1] first, unsigned long long[::1] second,
) except -1

@cython.locals(
    n="long long", r="long long", one="unsigned long long", two="unsigned long long",
)
cdef int _of_operations(
    const unsigned long long[::1] id_first, const unsigned long long[::1] id_second,
    const unsigned long long[::1] submitted_ms, const unsigned long long[::1] timeout_ms,
    const unsigned long long[::1] needed, const long long[::1] starts,
    const unsigned long long[::1] key_first, const unsigned long long[::1] key_second,
    const unsigned long long[::1] offsets,
    unsigned long long[::1] references, unsigned int[::1] checks,
) except -1

@cython.locals(
    n="long long", slot="unsigned long long", mask="unsigned long long", other="long long",
)
cdef long long _places(
    const unsigned long long[::1] references, const unsigned int[::1] checks,
    const unsigned long long[::1] wanted, const unsigned int[::1] wanted_checks,
    long long[::1] table, long long[::1] found,
) except? -2

cdef unsigned long long _wide(unsigned long long letter) noexcept

cdef unsigned long long _mix(unsigned long long word, unsigned long long factor) noexcept
