cimport cython


cdef class ReentrantLock:
    cdef long _owner
    cdef int _depth
    cdef object _gate

    @cython.locals(me=long)
    cpdef bint try_acquire(self) noexcept
    cpdef int acquire(self) except -1
    cpdef int release(self) except -1


cdef ReentrantLock new_lock()
