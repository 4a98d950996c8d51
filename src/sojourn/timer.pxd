cimport cython

from sojourn.task cimport TimerTask, TimerTaskList
from sojourn.wheel cimport TimingWheel


cdef class Timer:
    cdef object __weakref__
    cdef readonly str name
    cdef readonly object clock
    cdef readonly long long errors
    cdef readonly long long expired_buckets
    cdef bint _on_system_clock
    cdef bint _closed
    cdef TimingWheel _wheel
    cdef TimerTaskList _ready
    cdef long long _tick_ms
    cdef object _executor
    cdef long long _submitted
    cdef object _driver
    cdef long long _asked

    cpdef long long now_ns(self) except? -1

    cdef int _add(self, TimerTask task) except -1

    @cython.locals(placed=int)
    cdef int schedule(self, TimerTask task, long long delay_ms, long long now_ns) except -1

    @cython.locals(placed=int)
    cdef int _place(self, TimerTask task, long long delay_ms, long long now_ns) except -1

    cdef long long _take_submissions(self) except -1
    cdef TimerTask _take_submitted(self)
    cdef bint _shut(self) except -1
    cdef object _run(self, TimerTask task)
