cimport cython

from sojourn.lock cimport LockedTask

cdef int PENDING
cdef int COMPLETED
cdef int EXPIRED
cdef int CANCELLED


cdef class Keeper:
    cdef int ended(self, DelayedOperation operation) except -1
    cdef int failed(self, DelayedOperation operation) except -1
    cdef bint give_up(self, DelayedOperation operation) except -1


cdef class Watch:
    cdef Watch _next
    cdef Watch _prev
    cdef Watch _sibling
    cdef object _key
    cdef DelayedOperation _operation
    cdef bint _is_first


cdef class DelayedOperation(LockedTask):
    cdef object __weakref__
    cdef int _state
    cdef bint _again
    cdef bint _armed
    cdef bint _ended_in_try
    cdef long _trier
    cdef object _lock
    cdef Keeper _keeper
    cdef Watch _watches
    cdef long long _started_us
    cdef long long _stay
    cdef object _future
    cdef object _error

    cdef int enter(self) except -1
    cdef int leave(self) except -1

    @cython.locals(completed=bint, outer=long)
    cdef bint attempt(self) except -1

    @cython.locals(me=long)
    cdef bint signalled(self, Keeper keeper) except -1

    @cython.locals(completed=bint)
    cdef bint try_again(self, bint completed) except -1

    cdef bint end(self, int state) except -1
    cdef object _failed(self, str where, object error)


@cython.locals(me=long)
cdef bint claim(DelayedOperation operation, int state) except -1
cdef object take_future(DelayedOperation operation)
