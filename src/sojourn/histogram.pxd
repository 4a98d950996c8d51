cimport cython


cdef class Histogram:
    cdef long long[::1] _counts
    cdef long long _count
    cdef long long _total_us
    cdef long long _max_us

    @cython.locals(us="long long", octave="long long")
    cdef int record_ns(self, long long ns) except -1
