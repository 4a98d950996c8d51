cimport cython

@cython.locals(flat=list, parts=list, count="long long", kind=int)
cpdef object checked_submission(
    object id,
    object requires,
    object timeout_ms,
    object needed=*,
    object class_=*,
    object payload=*,
)

@cython.locals(
    at="Py_ssize_t",
    count="Py_ssize_t",
    id_length="Py_ssize_t",
    class_length="Py_ssize_t",
    payload_length="Py_ssize_t",
    length="Py_ssize_t",
    kind=int,
    requires=list,
    _="Py_ssize_t",
)
cpdef object read_submission(bytes content)

cpdef object checked_offset(object offset)
cdef object _integer(object value, str name)
cdef bytes _text(object value, str name)
