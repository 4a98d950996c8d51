cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from sojourn.core.millis cimport checked_ms


cdef object OVERRIDDEN
cdef object RELEASED


cdef class TaskCounter:
    cdef long long waiting
    cdef long long ready


cdef class TimerTask:
    cdef PyObject* _sj_next
    cdef PyObject* _sj_prev
    cdef TimerTaskList _sj_list
    cdef long long _sj_expiration_ms
    cdef long long _sj_delay_ms
    cdef object _sj_run


cdef class TimerTaskList(TimerTask):
    cdef TaskCounter _counter
    cdef bint _is_ready


cdef inline PyObject* address(TimerTask task) noexcept:
    return <PyObject*> task

cdef bint is_empty(TimerTaskList tasks) noexcept
@cython.locals(task=TimerTask)
cdef TimerTask first(TimerTaskList tasks)

@cython.locals(tail="PyObject*")
cdef void link(TimerTaskList tasks, TimerTask task) noexcept

@cython.locals(tasks=TimerTaskList, before="PyObject*", after="PyObject*")
cdef void unlink(TimerTask task) noexcept

@cython.locals(task=TimerTask)
cdef TimerTask pop_first(TimerTaskList tasks)

cdef TimerTask pop(TimerTaskList tasks)

@cython.locals(task=TimerTask)
cdef TimerTask new_task(long long delay_ms, object callback)

@cython.locals(tasks=TimerTaskList)
cdef TimerTaskList new_list(TaskCounter counter, bint is_ready)

cdef object detach(TimerTask task)
cdef object take_callback(TimerTask task)
cdef object release_callback(TimerTask task)
cpdef object waits_already(TimerTask task)
