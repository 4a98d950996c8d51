cimport cython

from sojourn.core.forest cimport Forest
from sojourn.core.keys cimport Key, as_key, is_plain, remove_key
from sojourn.core.operation cimport COMPLETED, PENDING, DelayedOperation
from sojourn.core.places cimport NOBODY, Places, at_address, numbers, references
from sojourn.core.task cimport unlink

cdef enum:
    _HELD = -0x80000000
    _CUT = -0x7FFFFFFF
    _INCOMING = -0x7FFFFFFE


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
    cdef list removed
    cdef Forest _forest
    cdef dict _keys
    cdef long long _idle

    cdef ProgressKey find(self, object key)

    cdef ProgressKey entry(self, object key)

    cdef list entries(self)
    cdef int _enlarge(self, long long room) except -1
    cdef long long known_keys(self)

    @cython.locals(place="long long")
    cdef long long prepend(self, ProgressKey entry, long long offset, long long incoming) except -1

    cdef int swap(self, Forest forest, int[:] siblings, long long[:] holders) except -1

    @cython.locals(holding="long long", place="long long", entry=ProgressKey)
    cdef long long count_holding(self, long long incoming) except -2

    @cython.locals(forest=Forest, entry=ProgressKey, offset="long long", place="long long")
    cdef int join(self, DelayedOperation operation, long long incoming) except -1

    @cython.locals(entry=ProgressKey, place="long long")
    cdef int withdraw(self, long long incoming) except -1

    @cython.locals(
        forest=Forest,
        cut_off="long long",
        place="long long",
        after="long long",
        ended="long long",
        last="long long",
        operation=DelayedOperation,
    )
    cdef long long advance(self, ProgressKey entry, long long offset, long long now_us) except -2

    @cython.locals(operation=DelayedOperation)
    cdef DelayedOperation pop(self, long long ended)

    @cython.locals(forest=Forest, place="long long", sibling="long long", parent="long long")
    cdef int leave(self, DelayedOperation operation, long long kept, long long now_us) except -1

    @cython.locals(entry=ProgressKey)
    cdef int _leave_root(self, long long place, long long anchor, long long now_us) except -1

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

    @cython.locals(links="int*", anchor="long long", last="long long")
    cdef int _set_idle(self, ProgressKey entry, long long now_us) except -1

    @cython.locals(links="int*", after="long long", before="long long")
    cdef int _set_busy(self, long long anchor) except -1


@cython.locals(entry=ProgressKey)
cdef ProgressKey _new_entry(object key)

@cython.locals(number="long long", overflow=int)
cdef long long checked_offset(object offset) except? -1

@cython.locals(pairs=tuple, n="long long")
cdef tuple checked_requires(object requires)

@cython.locals(pair=tuple, overflow=int)
cdef bint _is_checked(object requirement) except -1

@cython.locals(number="long long", overflow=int)
cdef long long checked_needed(object needed, long long count) except -1
