# Ask for memory that will be read, ahead of time, on compilers that know how to.

cdef extern from * nogil:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define sojourn_prefetch(address) __builtin_prefetch(address)
    #else
    #define sojourn_prefetch(address) ((void)(address))
    #endif
    """
    void prefetch "sojourn_prefetch" (const void *address) noexcept
