cimport cython

from sojourn.durable.answers cimport Operation, new_operation
from sojourn.durable.submissions cimport Submission, read_submission


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


@cython.locals(waiting=Waiting)
cdef Waiting new_waiting(
    bytes content, long long number, long long submitted_ms, long long deadline_ms
)

@cython.locals(entry=KeyProgress)
cdef KeyProgress new_key()

cdef Operation as_operation(Waiting waiting)

@cython.locals(submission=Submission)
cdef Submission submission_of(Waiting waiting)

cdef bint is_over(Waiting waiting)
