cimport cython

from sojourn.core.histogram cimport Histogram
from sojourn.core.keys cimport as_key, checked_keys
from sojourn.core.millis cimport LIMIT_MS
from sojourn.core.operation cimport (
    CANCELLED,
    HELD_AT_DEADLINE,
    DelayedOperation,
    new_keeping,
)
from sojourn.core.progress cimport (
    Progress,
    ProgressKey,
    checked_needed,
    checked_offset,
    checked_requires,
)
from sojourn.core.residents cimport AGAIN, AT_ONCE, ENDED, Residents
from sojourn.core.timer cimport Timer
from sojourn.core.watchers cimport WatchedKey, Watchers
from sojourn.core.wheel cimport WAITING


cdef class Purgatory(Residents):
    cdef bint _sj_owns_timer
    cdef object _sj_auditor

    @cython.locals(checked=tuple, count="long long")
    cdef bint _sj_submit(
        self, object operation, object keys, object requires, object needed, object future
    ) except -1

    @cython.locals(
        completed=bint,
        checks="long long",
        stay="long long",
        now_us="long long",
        expiration_ms="long long",
        placed=int,
    )
    cdef bint _sj_watch_all(
        self, DelayedOperation operation, tuple keys, object future
    ) except -1

    @cython.locals(entry=WatchedKey)
    cdef int _sj_watch(self, DelayedOperation operation, long long stay, object key) except -1

    @cython.locals(
        n="long long",
        incoming="long long",
        now_us="long long",
        expiration_ms="long long",
        placed=int,
    )
    cdef bint _sj_park(
        self, DelayedOperation operation, tuple requires, long long needed, object future
    ) except -1

    @cython.locals(entry=ProgressKey, offset="long long", place="long long")
    cdef long long _sj_look_up(self, long long incoming, tuple requirement) except -1

    @cython.locals(operation=DelayedOperation, completed="long long")
    cdef long long _sj_check(self, object key) except -1

    cdef bint _sj_try(self, DelayedOperation operation) except -1

    @cython.locals(
        now_us="long long", ended="long long", after="long long", completed="long long"
    )
    cdef long long _sj_signal(self, object key, long long offset) except -1

    @cython.locals(entry=WatchedKey)
    cdef list _sj_watching(self, object key)

    @cython.locals(operations=list, entry=ProgressKey)
    cdef list _sj_on_key(self, object key)

    cdef object _sj_drop(self, object why)
    cdef object _sj_drop_all(self)
    @cython.locals(before="long long")
    cdef int _sj_forget_all(self) except -1


cdef list _unique(list operations)
