cimport cython

from sojourn.operation cimport DelayedOperation
from sojourn.places cimport Places

cdef long long _FAR


cdef class WatchedKey:
    cdef object key
    cdef int root
    cdef bint is_gone


cdef class Watchers(Places):
    cdef int[::1] links
    cdef long long watched
    cdef list graves
    cdef dict _keys
    cdef WatchedKey _spare

    cdef WatchedKey find(self, object key)

    @cython.locals(fresh=WatchedKey, entry=WatchedKey)
    cdef WatchedKey entry(self, object key)

    cdef list entries(self)
    cdef int _enlarge(self, long long room) except -1

    @cython.locals(n="long long")
    cdef int swap(self, int[::1] links, int[::1] siblings, long long[::1] holders) except -1

    @cython.locals(root="long long", last="long long", place="long long")
    cdef bint join(self, WatchedKey entry, DelayedOperation operation) except -1

    @cython.locals(
        place="long long", sibling="long long", after="long long", before="long long"
    )
    cdef int leave(self, DelayedOperation operation) except -1

    cdef int remove_unused(self, WatchedKey entry) except -1

    @cython.locals(root="long long")
    cdef int remove(self, WatchedKey entry) except -1

    @cython.locals(place="long long")
    cdef bint gather(self, WatchedKey entry, list operations) except -1

    @cython.locals(place="long long", looked_at="long long")
    cdef long long sample(self, long long start, long long count, list operations) except -1

    @cython.locals(place="long long", here="long long", far="long long")
    cdef int keys_of(self, DelayedOperation operation, list keys) except -1
