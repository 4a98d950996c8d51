cimport cython

cdef long long LIMIT_MS

@cython.locals(number="long long", overflow=int)
cpdef long long checked_ms(object value, str name) except? -1

cdef long long ceil_us(long long ns) noexcept
cdef long long floor_ms(long long ns) noexcept

@cython.locals(now_ms="long long")
cpdef long long deadline_ms(long long now_us, long long delay_ms, long long tick_ms) noexcept
