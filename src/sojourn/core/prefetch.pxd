cdef extern from *:
    """
    #if defined(__GNUC__)
    #define sojourn_prefetch(address) __builtin_prefetch((address), 1)
    #else
    #define sojourn_prefetch(address) ((void)0)
    #endif
    """
    void prefetch "sojourn_prefetch"(void* address) noexcept nogil
