cimport cython

cdef object RELEASED


cdef class TaskCounter:
    cdef long long waiting
    cdef long long ready


cdef class TimerTask:
    cdef TimerTask _next
    cdef TimerTask _prev
    cdef TimerTaskList _list
    cdef long long _expiration_ms
    cdef long long _delay_ms
    cdef object _run


cdef class TimerTaskList(TimerTask):
    cdef TaskCounter _counter
    cdef bint _is_ready


@cython.locals(tail=TimerTask)
cdef void link(TimerTaskList tasks, TimerTask task) noexcept

@cython.locals(tasks=TimerTaskList, before=TimerTask, after=TimerTask)
cdef void unlink(TimerTask task) noexcept

@cython.locals(first=TimerTask)
cdef TimerTask pop(TimerTaskList tasks)

@cython.locals(task=TimerTask)
cdef TimerTask new_task(long long delay_ms, object callback)

cdef object detach(TimerTask task)
cdef object take_callback(TimerTask task)
