cimport cython

cdef long long LIMIT_MS

@cython.locals(number="long long")
cpdef long long checked_ms(object value, str name) except? -1

@cython.locals(now_ms="long long")
cpdef long long deadline_ms(long long now_us, long long delay_ms, long long tick_ms) noexcept
