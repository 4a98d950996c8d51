cimport cython

from sojourn.task cimport TaskCounter, TimerTask, TimerTaskList

cdef long long EMPTY
cdef int DUE
cdef int WAITING
cdef int EARLIEST




cdef class Level:
    cdef readonly long long tick_ms
    cdef readonly long long interval_ms
    cdef readonly long long current_ms
    cdef readonly list buckets
    cdef Level _overflow
    cdef long long _size


cdef class TimingWheel:
    cdef TaskCounter _counter
    cdef Level _finest
    cdef list _queue
    cdef long long _earliest_ms

    cdef int place(self, TimerTask task, long long expiration_ms) except -1

    @cython.locals(level=Level, slot="long long", starts_ms="long long", bucket=TimerTaskList)
    cdef int put(self, TimerTask task, long long expiration_ms) except -1

    cdef int leave(self, TimerTask task) except -1

    @cython.locals(
        bucket=TimerTaskList, task=TimerTask, level=Level, starts_ms="long long", due_ms="long long"
    )
    cdef long long expire(self, long long now_ms, TimerTaskList ready, list out) except -1

    @cython.locals(bucket=TimerTaskList)
    cdef long long next_ms(self) except? -1

    @cython.locals(bucket=TimerTaskList, task=TimerTask)
    cdef list _drain(self)

    @cython.locals(level=Level, bucket=TimerTaskList, task=TimerTask)
    cdef list _tasks_by_bucket(self)

    cdef Level _add_overflow(self, Level level)
