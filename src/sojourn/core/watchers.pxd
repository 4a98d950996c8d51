cimport cython

from sojourn.core.keys cimport Key, remove_key, user_key
from sojourn.core.operation cimport DelayedOperation
from sojourn.core.places cimport (
    NOBODY,
    Places,
    as_address,
    at_address,
    numbers,
    references,
)


cdef class WatchedKey:
    cdef object key
    cdef int first
    cdef bint is_gone


cdef class Watchers(Places):
    cdef int[:] following
    cdef int[:] preceding
    cdef long long[:] keys
    cdef long long watched
    cdef list removed
    cdef dict _keys
    cdef WatchedKey _spare

    cdef WatchedKey find(self, object key)

    @cython.locals(fresh=WatchedKey, entry=WatchedKey)
    cdef WatchedKey entry(self, object key)

    cdef list entries(self)
    cdef int _enlarge(self, long long room) except -1

    @cython.locals(n="long long")
    cdef int swap(
        self,
        int[:] following,
        int[:] preceding,
        int[:] siblings,
        long long[:] holders,
        long long[:] keys,
    ) except -1

    @cython.locals(first="long long", last="long long", place="long long")
    cdef bint join(self, WatchedKey entry, DelayedOperation operation) except -1

    @cython.locals(
        place="long long",
        sibling="long long",
        after="long long",
        before="long long",
        entry=WatchedKey,
    )
    cdef int leave(self, DelayedOperation operation) except -1

    cdef int remove_unused(self, WatchedKey entry) except -1

    cdef int remove(self, WatchedKey entry) except -1

    @cython.locals(place="long long")
    cdef bint gather(self, WatchedKey entry, list operations) except -1

    @cython.locals(place="long long", looked_at="long long")
    cdef long long sample(self, long long start, long long count, list operations) except -1

    @cython.locals(place="long long")
    cdef int keys_of(self, DelayedOperation operation, list keys) except -1
