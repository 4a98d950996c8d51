cimport cython

from sojourn.forest cimport Forest
from sojourn.operation cimport DelayedOperation
from sojourn.places cimport Places

cdef int _HELD
cdef int _CUT


cdef class ProgressKey:
    cdef object key
    cdef int anchor
    cdef int root
    cdef long long least
    cdef long long progress
    cdef bint has_progress
    cdef bint is_gone
    cdef long long idle_since_us


cdef class Progress(Places):
    cdef bint forgets
    cdef long long watched
    cdef list graves
    cdef Forest _forest
    cdef dict _keys
    cdef long long _idle
    cdef ProgressKey _spare

    cdef ProgressKey find(self, object key)

    @cython.locals(fresh=ProgressKey, entry=ProgressKey)
    cdef ProgressKey entry(self, object key)

    cdef ProgressKey same_key(self, ProgressKey entry)
    cdef list entries(self)
    cdef int _enlarge(self, long long room) except -1
    cdef long long known_keys(self)
    cdef int swap(self, Forest forest, int[::1] siblings, long long[::1] holders) except -1

    @cython.locals(holding="long long", n="long long", entry=ProgressKey, offset="long long")
    cdef long long count_holding(self, list requires) except -2

    @cython.locals(n="long long", entry=ProgressKey, offset="long long", place="long long")
    cdef int join(self, DelayedOperation operation, list requires) except -1

    @cython.locals(
        forest=Forest,
        cut_off="long long",
        place="long long",
        after="long long",
        operation=DelayedOperation,
    )
    cdef bint advance(
        self, ProgressKey entry, long long offset, long long now_us, list ended
    ) except -1

    @cython.locals(forest=Forest, place="long long", sibling="long long", parent="long long")
    cdef int leave(self, DelayedOperation operation, long long now_us) except -1

    @cython.locals(entry=ProgressKey)
    cdef int _leave_root(self, long long place, long long anchor, long long now_us) except -1

    @cython.locals(n="long long", entry=ProgressKey)
    cdef int remove_unused(self, list requires) except -1

    @cython.locals(entry=ProgressKey, anchor="long long", _=int)
    cdef int forget(self, long long before_us) except -1

    cdef int remove(self, ProgressKey entry) except -1

    @cython.locals(place="long long")
    cdef int gather(self, ProgressKey entry, list operations) except -1

    @cython.locals(anchor="long long")
    cdef int _take_anchor(self, ProgressKey entry) except -1

    @cython.locals(anchor="long long")
    cdef int _give_anchor_back(self, ProgressKey entry) except -1

    cdef int _set_free(self, ProgressKey entry, long long now_us) except -1

    @cython.locals(links="int[::1]", anchor="long long", last="long long")
    cdef int _set_idle(self, ProgressKey entry, long long now_us) except -1

    @cython.locals(links="int[::1]", after="long long", before="long long")
    cdef int _set_busy(self, long long anchor) except -1


@cython.locals(entry=ProgressKey)
cdef ProgressKey _new_entry(object key)

@cython.locals(number="long long")
cdef long long checked_offset(object offset) except? -1

@cython.locals(checked=list, number="long long", n="long long")
cdef list checked_requires(object requires)

cdef long long checked_needed(object needed, long long count) except -1
