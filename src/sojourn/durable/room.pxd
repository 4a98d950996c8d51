cimport cython

from sojourn.core.forest cimport Forest
from sojourn.core.places cimport numbers
from sojourn.durable.submissions cimport Submission, read_submission
from sojourn.durable.waiting cimport KeyProgress, Waiting, as_operation, new_key


cdef int _HELD
cdef long long _SLOT
cdef long long _LOOKS


cdef class WaitingRoom:
    cdef public long long time_ms
    cdef dict _waiting
    cdef dict _keys
    cdef dict _idle
    cdef object _wheel
    cdef list _by_slot
    cdef Forest _forest
    cdef int[::1] _siblings
    cdef list _holders
    cdef long long _free
    cdef long long _used
    cdef long long _looked

    @cython.locals(entry=KeyProgress)
    cpdef object progress(self, str key)

    @cython.locals(entry=KeyProgress, place="long long", waiting=Waiting)
    cpdef list waiting_on(self, str key, long long limit)

    @cython.locals(entry=KeyProgress)
    cpdef long long waiting_count(self, str key) except? -1

    @cython.locals(
        counts=dict,
        used="long long",
        looks="long long",
        n="long long",
        step="double",
        place="long long",
        waiting=Waiting,
        entry=KeyProgress,
    )
    cpdef list busiest_keys(self, object limit)

    @cython.locals(submission=Submission, n="Py_ssize_t", here="long long")
    cdef str _key_of(self, long long place, Waiting waiting)

    @cython.locals(
        forest=Forest,
        submission=Submission,
        waiting=Waiting,
        requires=tuple,
        n="long long",
        entry=KeyProgress,
        place="long long",
        offset="long long",
        slot="long long",
        all_waiting=dict,
        by_slot=list,
        count="Py_ssize_t",
        deadlines="long long[::1]",
        handles="long long[::1]",
    )
    cdef int _park(self, list arrivals) except -1

    @cython.locals(place="long long", room="long long", siblings="int[::1]")
    cdef long long _take_place(self) except -1

    @cython.locals(entry=KeyProgress)
    cdef KeyProgress _entry(self, str key)

    @cython.locals(handles=list, submission=Submission, waiting=Waiting)
    cdef int _remove(self, list ended, long long time_ms) except -1

    @cython.locals(
        forest=Forest, place="long long", sibling="long long", n="long long", entry=KeyProgress
    )
    cdef int _release_places(self, Waiting waiting, tuple requires, long long time_ms) except -1

    @cython.locals(
        forest=Forest,
        entry=KeyProgress,
        place="long long",
        after="long long",
        waiting=Waiting,
    )
    cdef int _advance(self, str key, long long offset, long long time_ms) except -1

    @cython.locals(
        due=list,
        handle="long long",
        slot="long long",
        deadline_ms="long long",
        number="long long",
        is_sorted="bint",
        waiting=Waiting,
    )
    cdef list _take_off_wheel(self, object handles)

    cpdef list parked(self)

    @cython.locals(
        size="Py_ssize_t", count="Py_ssize_t", each=Waiting, body=bytes, at="unsigned char *"
    )
    cpdef bytes write_parked(self, list waiting)

    @cython.locals(entry=KeyProgress)
    cpdef list all_progress(self)


cpdef object _by_deadline(Waiting waiting)
