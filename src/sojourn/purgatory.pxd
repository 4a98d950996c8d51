cimport cython

from sojourn.histogram cimport Histogram
from sojourn.lock cimport ReentrantLock
from sojourn.operation cimport DelayedOperation, Keeper, Watch
from sojourn.timer cimport Timer


cdef class Purgatory(Keeper):
    cdef object __weakref__
    cdef readonly str name
    cdef readonly Timer timer
    cdef bint _owns_timer
    cdef bint _closed
    cdef ReentrantLock _lock
    cdef dict _watchers
    cdef readonly long long watched
    cdef readonly long long delayed
    cdef long long _checks
    cdef long long _completed
    cdef long long _expired
    cdef long long _cancelled
    cdef long long _errors
    cdef Histogram _lateness
    cdef Histogram _waiting

    @cython.locals(completed=bint, checks="long long")
    cdef bint _submit(self, DelayedOperation operation, object keys) except -1

    cdef object _submit_for(self, object future, DelayedOperation operation, object keys)

    @cython.locals(operation=DelayedOperation, completed="long long")
    cdef long long _check(self, object key) except -1

    @cython.locals(first=Watch, watch=Watch, last=Watch)
    cdef int _watch(self, DelayedOperation operation, object keys) except -1

    @cython.locals(watch=Watch, before=Watch, after=Watch)
    cdef int _unwatch(self, DelayedOperation operation) except -1

    @cython.locals(now_us="long long")
    cdef int _start_timeout(self, DelayedOperation operation) except -1

    @cython.locals(first=Watch, watch=Watch)
    cdef list _watching(self, object key)

    cdef bint _admit(self, DelayedOperation operation) except -1
    cdef bint _arm(self, DelayedOperation operation, long long now_us) except -1
    cdef bint _disown(self, DelayedOperation operation) except -1
    cdef int _count_end(self, DelayedOperation operation, long long now_us) except -1
    cdef int _count_error(self) except -1
    cdef int _count_check(self) except -1


cdef object _checked_keys(object keys)
cdef object _check_hashable(object keys)
