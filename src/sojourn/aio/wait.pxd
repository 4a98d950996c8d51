cimport cython

from sojourn.aio.conditions cimport as_ms, checked_condition, is_asynchronous
from sojourn.aio.loop cimport LoopThread
from sojourn.core.operation cimport CANCELLED, COMPLETED, DelayedOperation
from sojourn.core.task cimport OVERRIDDEN


cdef int NEW
cdef int WAITING
cdef int OVER
cdef int UNTOUCHED
cdef int AWAITED
cdef int PARKED
cdef int DELIVERED
cdef int NO_FUTURE
cdef int NOT_BLOCKING
cdef int BLOCKING


cdef class Home(LoopThread):
    cdef readonly object core
    cdef public bint is_closed
    cdef list _ended

    cdef int wake(self, Wait wait) except -1


cdef class Wait(DelayedOperation):
    cdef Home _home
    cdef object _predicate
    cdef object _keys
    cdef object _outcome
    cdef object _callback
    cdef object _context
    cdef signed char _phase
    cdef signed char _steps
    cdef signed char _blocking
    cdef signed char _is_cancelled
    cdef signed char _has_failed

    cdef list _callbacks(self)
    cdef int _set_callbacks(self, list callbacks) except -1
    cdef int _start(self) except -1
    cdef int _end_from_here(self) except -1
    cdef int _end(self) except -1
    cdef int _tell(self) except -1
    cpdef object _sj_on_cancel(self, object why)


@cython.locals(waits=list, wait=Wait, count="long long")
cpdef object tell_all(Home home)

cdef int call(Home home, object context, object callback, Wait wait) except -1
cdef int hide(object callback) except -1
cdef int unhide(object callback) except -1
cpdef object end(Wait wait)

@cython.locals(wait=Wait)
cpdef Wait new_wait(
    Home home, object predicate, object keys, object requires, object needed, object timeout
)
