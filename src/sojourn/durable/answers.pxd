cimport cython

from sojourn.durable.records cimport hashes_of
from sojourn.durable.submissions cimport id_of, read_submission, timeout_of


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

@cython.locals(hashes=list, rows=list, n="Py_ssize_t", operation=Operation, status=int, row=tuple)
cpdef list outcome_rows(list outcomes, object told_ms, object prime)

@cython.locals(operation=Operation, is_right="bint")
cpdef Operation operation_of(tuple row)

@cython.locals(length="Py_ssize_t", text="const char *", head=bytes, at="unsigned char *")
cdef object _row_checksum(
    Operation operation, long long id_hash, long long status, long long told_ms
)

cdef unsigned char *_put_integer(unsigned char *at, long long value)

cdef object _fields(Operation operation)
