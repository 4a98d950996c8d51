cimport cython

from sojourn.durable.answers cimport Operation
from sojourn.durable.records cimport Submission
from sojourn.core.forest cimport Forest

cdef int _HELD
cdef long long _SLOT
cdef long long _LOOKS


cdef class Waiting:
    cdef bytes content
    cdef long long number
    cdef long long submitted_ms
    cdef long long deadline_ms
    cdef long long handle
    cdef int place
    cdef int missing
    cdef int missing_then
    cdef unsigned char is_overdue
    cdef unsigned char is_over
    cdef long long plan


cdef class KeyProgress:
    cdef long long progress
    cdef long long idle_since_ms
    cdef int root
    cdef int waiters
    cdef int unmet
    cdef bint has_progress


cdef class Machine:
    cdef public long long time_ms
    cdef public long long sequence
    cdef public long long outcome
    cdef long long _max_waiting
    cdef object _forget_after_ms
    cdef long long _expire_at_once
    cdef dict _waiting
    cdef dict _keys
    cdef dict _idle
    cdef long long _plans
    cdef object _wheel
    cdef list _by_slot
    cdef object _overdue
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

    @cython.locals(ids=list, submission=Submission)
    cpdef list others(self, object batch)

    @cython.locals(waiting=Waiting)
    cdef int _expire(self, object plan, list endings) except -1

    @cython.locals(
        fresh=list,
        handle="long long",
        slot="long long",
        deadline_ms="long long",
        number="long long",
        is_sorted="bint",
        waiting=Waiting,
    )
    cdef list _off_the_wheel(self, object handles)

    @cython.locals(moved=dict, keys=dict, entry=KeyProgress)
    cdef int _move(self, object plan, object batch) except -1

    @cython.locals(
        forest=Forest,
        by_key=dict,
        completed=list,
        entry=KeyProgress,
        place="long long",
        bound="long long",
        waiting=Waiting,
    )
    cdef int _complete(self, object plan, list endings) except -1

    @cython.locals(
        arrivals=dict,
        room="long long",
        number="long long",
        time_ms="long long",
        moved=dict,
        all_waiting=dict,
        contents=list,
        answers=list,
        submission=Submission,
        other=Submission,
        waiting=Waiting,
        id=str,
    )
    cdef dict _arrive(
        self, object plan, object batch, dict remembered, list endings, long long leaving
    )

    @cython.locals(requires=tuple, n="long long", missing="long long", entry=KeyProgress)
    cdef object _settle(self, Waiting waiting, Submission submission, dict moved)

    @cython.locals(submission=Submission, waiting=Waiting)
    cdef list _cancel(self, object plan, object batch, dict arrivals, list endings)

    @cython.locals(number="long long", submission=Submission, waiting=Waiting)
    cdef int _number(self, object plan, list endings, dict by_id) except -1

    @cython.locals(answers=list, n="Py_ssize_t", submission=Submission)
    cdef int _correct(self, object time_ms, object batch, dict by_id) except -1

    cdef int _answer_cancels(
        self, object time_ms, object batch, list verdicts, dict by_id, dict remembered
    ) except -1

    @cython.locals(before_ms="long long", entry=KeyProgress)
    cdef object _forget(self, object plan)

    @cython.locals(handles=list, submission=Submission, waiting=Waiting)
    cdef int _remove(self, object plan) except -1

    @cython.locals(
        forest=Forest, place="long long", sibling="long long", n="long long", entry=KeyProgress
    )
    cdef int _leave(self, Waiting waiting, tuple requires, long long time_ms) except -1

    @cython.locals(
        forest=Forest,
        entry=KeyProgress,
        place="long long",
        after="long long",
        waiting=Waiting,
    )
    cdef int _advance(self, str key, long long offset, long long time_ms) except -1

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

    cpdef list parked(self)

    @cython.locals(
        size="Py_ssize_t", count="Py_ssize_t", each=Waiting, body=bytes, at="unsigned char *"
    )
    cpdef bytes write_parked(self, list waiting)

    @cython.locals(entry=KeyProgress)
    cpdef list all_progress(self)

    @cython.locals(entry=KeyProgress, submission=Submission, waiting=Waiting, arrivals=list)
    cpdef object restore(
        self,
        long long time_ms,
        long long sequence,
        long long outcome,
        object progress,
        object parked,
    )


@cython.locals(waiting=Waiting)
cdef Waiting _new_waiting(
    bytes content, long long number, long long submitted_ms, long long deadline_ms
)

@cython.locals(entry=KeyProgress)
cdef KeyProgress _new_key()

cdef Operation _as_operation(Waiting waiting)

@cython.locals(submission=Submission)
cdef Submission _submission_of(Waiting waiting)

cdef object _answer(str verdict, object at_ms, Operation operation)
cdef object _compared(Submission submission, Operation operation, object at_ms)
cdef object _expiry(Waiting waiting)
cpdef object _by_deadline(Waiting waiting)
cdef bint _is_over(Waiting waiting)
