# Integers in bytes, little-endian on every machine. Compilers make one instruction of each.
cdef inline void put(unsigned char *at, long long value, int size) noexcept:
    cdef int n
    for n in range(size):
        at[n] = <unsigned char> ((<unsigned long long> value) >> (8 * n))


# Those of less than 8 bytes have no sign.
cdef inline long long get(const unsigned char *at, int size) noexcept:
    cdef int n
    cdef unsigned long long value = 0
    for n in range(size):
        value |= (<unsigned long long> at[n]) << (8 * n)
    return <long long> value
