cimport cython

from sojourn.durable.checks cimport checked_integer, checked_offset, text_size

cdef enum:
    _HEAD_SIZE = 22
    _REQUIREMENT_SIZE = 10


cdef class Submission:
    cdef readonly str id
    cdef readonly tuple requires
    cdef readonly long long needed
    cdef readonly long long timeout_ms
    cdef readonly bytes content
    cdef public object waiting


cdef object _unpack_head
cdef object _unpack_requirement

@cython.locals(flat=list, size="Py_ssize_t", count="Py_ssize_t", kind=int, payload_bytes=bytes, trace=bytes)
cpdef Submission checked_submission(
    object id,
    object requires,
    object timeout_ms,
    object needed=*,
    object class_=*,
    object payload=*,
    object traceparent=*,
)

cpdef Submission checked_row(object row)

@cython.locals(
    count="Py_ssize_t",
    n="Py_ssize_t",
    content=bytes,
    at="unsigned char *",
    head="unsigned char *",
    text="const char *",
    length="Py_ssize_t",
)
cdef bytes _write_content(
    Py_ssize_t size,
    str id,
    str class_,
    long long timeout_ms,
    long long needed,
    list flat,
    int kind,
    bytes payload,
    bytes trace,
)

@cython.locals(
    start="const unsigned char *",
    at="const unsigned char *",
    id_length="Py_ssize_t",
    length="Py_ssize_t",
    needed="long long",
    timeout_ms="long long",
    requires=list,
    _="Py_ssize_t",
)
cpdef Submission read_submission(bytes content)

@cython.locals(submission=Submission)
cdef Submission _submission(
    str id, tuple requires, long long needed, long long timeout_ms, bytes content
)

@cython.locals(start="const unsigned char *", text="const char *")
cpdef str id_of(bytes content)
cpdef long long timeout_of(bytes content)
cpdef bint is_same(bytes content, bytes other)
