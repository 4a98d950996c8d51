cimport cython


cdef class Operation:
    cdef readonly str status
    cdef readonly long long submitted_ms
    cdef readonly str by_key
    cdef readonly bytes content
    cdef long long _at_ms
    cdef long long _number


@cython.locals(operation=Operation)
cpdef Operation new_operation(
    bytes content, str status, long long submitted_ms, long long at_ms, str by_key, long long number
)

cdef object _fields(Operation operation)
