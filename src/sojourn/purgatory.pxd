cimport cython

from sojourn.histogram cimport Histogram
from sojourn.operation cimport DelayedOperation, Keeper, Watch
from sojourn.timer cimport Timer

cdef bint _by_identity


cdef class Purgatory(Keeper):
    cdef object __weakref__
    cdef readonly str name
    cdef readonly Timer timer
    cdef bint _owns_timer
    cdef bint _closed
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

    @cython.locals(completed=bint, checks="long long", stay="long long", now_us="long long")
    cdef bint _submit(self, DelayedOperation operation, tuple keys, object future) except -1

    @cython.locals(watch=Watch)
    cdef int _watch(self, DelayedOperation operation, long long stay, object key) except -1

    @cython.locals(operation=DelayedOperation, completed="long long")
    cdef long long _check(self, object key) except -1

    @cython.locals(first=Watch)
    cdef list _watching(self, object key)

    cdef long long _admit(self, DelayedOperation operation, object future) except -1

    @cython.locals(last=Watch)
    cdef bint _join(
        self, DelayedOperation operation, long long stay, Watch watch, Watch first
    ) except -1

    @cython.locals(watch=Watch)
    cdef bint _gather(self, Watch first, list found) except -1

    cdef bint _arm(self, DelayedOperation operation, long long stay, long long now_us) except -1
    cdef object _disown(self, DelayedOperation operation)
    cdef int _let_go(self, DelayedOperation operation, long long now_us) except -1
    cdef int _count_error(self) except -1
    cdef int _count_check(self) except -1

    @cython.locals(watch=Watch)
    cdef int _disarm(self, DelayedOperation operation) except -1

    @cython.locals(before=Watch, after=Watch)
    cdef int _part(self, Watch watch) except -1

    cdef int _strike(self, object key) except -1
    cdef int _replace(self, object key, Watch first) except -1


cdef class Key:
    cdef readonly object key
    cdef Py_hash_t hash


cdef int scrap(Watch watch) except -1
cdef int by_identity(bint only) except -1
cpdef object as_key(object key)
cdef bint is_plain(object key) noexcept
cdef tuple _checked_keys(object keys)
