cdef class ReentrantLock:
    cdef unsigned long _owner
    cdef int _depth
    cdef object _gate

    cpdef bint try_acquire(self)
    cpdef acquire(self)
    cpdef release(self)
