cimport cython

from sojourn.levels cimport Levels
from sojourn.task cimport TaskCounter, TimerTask, TimerTaskList

cdef int DUE
cdef int WAITING
cdef int EARLIEST


cdef class TimingWheel:
    cdef TaskCounter _counter
    cdef Levels _levels
    cdef list _buckets

    cdef int place(self, TimerTask task, long long expiration_ms) except -1

    @cython.locals(
        expired="long long",
        number="long long",
        due_ms="long long",
        bucket=TimerTaskList,
        task=TimerTask,
    )
    cdef long long expire(self, long long now_ms, TimerTaskList ready, list out) except -1

    @cython.locals(number="long long", bucket=TimerTaskList)
    cdef long long next_ms(self) except? -1

    @cython.locals(bucket=TimerTaskList, task=TimerTask)
    cdef list _drain(self)

    @cython.locals(level="long long", number="long long", tasks=list)
    cdef list _tasks_by_bucket(self)

    cdef int leave(self, TimerTask task) except -1

    @cython.locals(earliest_ms="long long", number="long long")
    cdef int put(self, TimerTask task, long long expiration_ms) except -1
