from sojourn.aio.loop cimport LoopThread
from sojourn.operation cimport DelayedOperation

cdef int NEW
cdef int WAITING
cdef int OVER
cdef int UNTOUCHED
cdef int AWAITED
cdef int PARKED
cdef int DELIVERED


cdef class Wait(DelayedOperation):
    cdef LoopThread _loop
    cdef object _core
    cdef object _predicate
    cdef object _keys
    cdef object _value
    cdef object _failure
    cdef object _callback
    cdef object _context
    cdef list _more_callbacks
    cdef public object _asyncio_future_blocking
    cdef signed char _phase
    cdef signed char _steps
    cdef signed char _is_cancelled

    cdef int _start(self) except -1
    cdef int _end_here(self) except -1
    cdef int _end_wait(self) except -1
    cdef list _take_callbacks(self)
    cpdef object _sj_on_cancel(self, object why)


cpdef object end_wait(Wait wait)
cdef bint is_asynchronous(object value) except -1
cpdef object as_ms(object seconds, str name)
