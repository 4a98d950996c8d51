cimport cython
from cpython.time cimport monotonic_ns

from sojourn.core.clock cimport Driven, ManualClock, SystemClock
from sojourn.core.millis cimport ceil_us, checked_ms, deadline_ms, floor_ms
from sojourn.core.task cimport (
    OVERRIDDEN,
    RELEASED,
    TaskCounter,
    TimerTask,
    TimerTaskList,
    link,
    new_list,
    new_task,
    pop,
    pop_first,
)
from sojourn.core.wheel cimport DUE, WAITING, TimingWheel

cdef enum:
    _NOT_INITIALISED = 0
    _OPEN = 1
    _CLOSED = 2
    _FORKED = 3


cdef class Timer(Driven):
    cdef object __weakref__
    cdef int _sj_state
    cdef bint _sj_on_system_clock
    cdef ManualClock _sj_hand_moved
    cdef TimingWheel _sj_wheel
    cdef TimerTaskList _sj_ready
    cdef long long _sj_tick_ms
    cdef long long _sj_submitted
    cdef long long _sj_expired
    cdef long long _sj_expired_seen
    cdef long long _sj_errors
    cdef readonly object _sj_driver
    cdef object _sj_handover
    cdef object _sj_clock
    cdef str _sj_name
    cdef list _sj_tenants

    cpdef object _sj_run_submitted(self)

    @cython.locals(counter=TaskCounter)
    cpdef bint _sj_is_empty(self) except -1

    cpdef long long _sj_count_expired(self) except -1
    cpdef int _sj_take_back(self, long long turns) except -1
    cpdef int _sj_mark_forked(self) except -1

    cdef long long _sj_now_us(self) except? -1
    @cython.locals(expiration_ms="long long")
    cdef long long _sj_make_room(self, long long delay_ms, long long now_us) except? -1

    cdef int _sj_wake(self, int placed) except -1

    @cython.locals(placed=int)
    cdef int _sj_link(self, TimerTask task, long long expiration_ms, bint at_once) except -1

    @cython.locals(now_us="long long", expiration_ms="long long", at_once=bint, placed=int)
    cdef int _sj_add(self, TimerTask task) except -1

    cdef object _sj_refusal(self)
    cdef int _sj_finish(self, bint drop) except -1
    cdef long long _sj_floor_ms(self) except? -1

    cdef int _sj_place(self, TimerTask task, long long expiration_ms, bint at_once) except -1

    @cython.locals(fresh="long long")
    cdef long long _sj_take_turns(self) except -1

    cdef TimerTask _sj_take_submitted(self)
    cdef int _sj_count_error(self) except -1
    cdef int _sj_shut(self) except -1
    cdef int _sj_reopen(self, int before) except -1
    cdef int _sj_run(self, TimerTask task) except -1

    @cython.locals(task=TimerTask)
    cdef int _sj_run_all(self) except -1
