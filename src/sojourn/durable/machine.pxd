cimport cython

from sojourn.core.forest cimport Forest
from sojourn.durable.answers cimport Operation, new_operation
from sojourn.durable.room cimport WaitingRoom
from sojourn.durable.submissions cimport Submission, is_same, read_submission
from sojourn.durable.waiting cimport (
    KeyProgress,
    Waiting,
    as_operation,
    is_over,
    new_waiting,
    submission_of,
)


cdef class Machine(WaitingRoom):
    cdef public long long sequence
    cdef public long long outcome
    cdef long long _max_waiting
    cdef object _forget_after_ms
    cdef long long _expire_at_once
    cdef long long _plans
    cdef object _overdue

    @cython.locals(ids=list, submission=Submission)
    cpdef list others(self, object batch)

    @cython.locals(waiting=Waiting)
    cdef int _expire(self, object plan, list endings) except -1

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
    cdef object _count_missing(self, Waiting waiting, Submission submission, dict moved)

    @cython.locals(submission=Submission, waiting=Waiting)
    cdef list _cancel(self, object plan, object batch, dict arrivals, list endings)

    @cython.locals(number="long long", submission=Submission, waiting=Waiting)
    cdef int _number_outcomes(self, object plan, list endings, dict by_id) except -1

    @cython.locals(answers=list, n="Py_ssize_t", submission=Submission)
    cdef int _answer_with_endings(self, object time_ms, object batch, dict by_id) except -1

    cdef int _answer_cancels(
        self, object time_ms, object batch, list verdicts, dict by_id, dict remembered
    ) except -1

    @cython.locals(before_ms="long long", entry=KeyProgress)
    cdef object _forget(self, object plan)

    @cython.locals(entry=KeyProgress, submission=Submission, waiting=Waiting, arrivals=list)
    cpdef object restore(
        self,
        long long time_ms,
        long long sequence,
        long long outcome,
        object progress,
        object parked,
    )


cdef object _answer(str verdict, object at_ms, Operation operation)
cdef object _answer_taken_id(Submission submission, Operation operation, object at_ms)
cdef object _expiry(Waiting waiting)
