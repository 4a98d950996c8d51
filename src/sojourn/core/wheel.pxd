cimport cython
from cpython.object cimport PyObject

from sojourn.core.levels cimport EMPTY, Levels
from sojourn.core.millis cimport checked_ms
from sojourn.core.task cimport (
    TaskCounter,
    TimerTask,
    TimerTaskList,
    address,
    first,
    is_empty,
    link,
    new_list,
    release_callback,
    unlink,
)

cdef enum:
    DUE = 0
    WAITING = 1
    EARLIEST = 2


cdef class TimingWheel:
    cdef TaskCounter _sj_counter
    cdef Levels _sj_levels
    cdef list _sj_buckets
    cdef long long _sj_room_ms

    @cython.locals(levels=Levels, larger=Levels, buckets=list)
    cdef int _sj_make_room(self, long long expiration_ms) except -1

    @cython.locals(number="long long")
    cdef int _sj_grow(self, Levels levels, Levels larger, list buckets) except -1

    cdef int _sj_place(self, TimerTask task, long long expiration_ms) except -1

    @cython.locals(
        expired="long long",
        number="long long",
        due_ms="long long",
        bucket=TimerTaskList,
        task=TimerTask,
    )
    cdef long long _sj_expire(
        self, long long now_ms, TimerTaskList ready, list tasks
    ) except -1

    @cython.locals(number="long long", bucket=TimerTaskList)
    cdef long long _sj_next_ms(self) except? -1

    @cython.locals(bucket=TimerTaskList, task=TimerTask)
    cdef int _sj_drain(self, list dropped) except -1

    @cython.locals(
        level="long long",
        index="long long",
        number="long long",
        bucket=TimerTaskList,
        at="PyObject*",
        task=TimerTask,
    )
    cdef int _sj_look(self, list seen) except -1

    cdef int _sj_leave(self, TimerTask task) except -1

    @cython.locals(earliest_ms="long long", number="long long", bucket=TimerTaskList)
    cdef int _sj_put(self, TimerTask task, long long expiration_ms) except -1
