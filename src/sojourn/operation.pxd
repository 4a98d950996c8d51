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
    cdef Watch _sj_next
    cdef Watch _sj_prev
    cdef Watch _sibling
    cdef object _key
    cdef DelayedOperation _operation
    cdef bint _is_first


cdef class DelayedOperation(LockedTask):
    cdef object __weakref__
    cdef int _sj_state
    cdef bint _sj_again
    cdef bint _sj_armed
    cdef bint _sj_ended_in_try
    cdef long _sj_trier
    cdef object _sj_lock
    cdef Keeper _sj_keeper
    cdef Watch _sj_watches
    cdef long long _sj_started_us
    cdef long long _sj_stay
    cdef object _sj_future
    cdef object _sj_error

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
