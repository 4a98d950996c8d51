cimport cython

cdef unsigned long long _STEP
cdef unsigned long long _LAST
cdef unsigned long long _ALL
cdef unsigned long long _ONE

@cython.locals(mix="unsigned long long")
cdef unsigned long long hash_one(
    const unsigned char[::1] data, long long start, long long length, unsigned long long seed
) noexcept nogil

@cython.locals(n="long long")
cdef int _hash(
    const long long[::1] starts,
    const unsigned char[::1] data,
    unsigned long long[::1] numbers,
    unsigned long long seed,
    long long begin,
    long long end,
) except -1

@cython.locals(n="long long")
cdef int _mix_all(unsigned long long[::1] numbers) except -1

cdef unsigned long long _mix(unsigned long long word) noexcept nogil

@cython.locals(word="unsigned long long")
cdef unsigned long long _word(
    const unsigned char[::1] data, long long start, long long length
) noexcept nogil
