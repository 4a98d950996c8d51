cimport cython


cdef class Histogram:
    cdef long long[::1] _counts
    cdef long long _count
    cdef long long _total_us
    cdef long long _max_us

    @cython.locals(octave="long long")
    cdef int record_us(self, long long us) except -1
