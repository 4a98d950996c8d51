cimport cython

from sojourn.clock cimport Driven, ManualClock
from sojourn.task cimport TimerTask, TimerTaskList
from sojourn.wheel cimport TimingWheel


cdef class Timer(Driven):
    cdef object __weakref__
    cdef readonly str name
    cdef readonly object clock
    cdef readonly long long errors
    cdef readonly long long expired_buckets
    cdef bint _on_system_clock
    cdef ManualClock _hand_moved
    cdef bint _closed
    cdef TimingWheel _wheel
    cdef TimerTaskList _ready
    cdef long long _tick_ms
    cdef object _handover
    cdef long long _submitted
    cdef object _driver
    cdef long long _asked
    cdef list _sj_tenants

    cpdef long long now_us(self) except? -1
    cdef long long _floor_ms(self) except? -1

    cdef int _add(self, TimerTask task) except -1

    @cython.locals(placed=int)
    cdef int schedule(self, TimerTask task, long long delay_ms, long long now_us) except -1

    cdef long long _sj_now_us(self) except? -1
    cdef int _sj_make_room(self, long long delay_ms, long long now_us) except -1

    @cython.locals(placed=int)
    cdef int _sj_put(self, TimerTask task, long long delay_ms, long long now_us) except -1

    cdef int _sj_wake(self, int placed) except -1
    cdef int _place(self, TimerTask task, long long delay_ms, long long now_us) except -1

    cdef long long _take_submissions(self) except -1
    cdef TimerTask _take_submitted(self)
    cdef int _count_error(self) except -1
    cdef bint _shut(self) except -1
    cdef int _run(self, TimerTask task) except -1

    @cython.locals(task=TimerTask)
    cdef int _run_all(self) except -1
