cimport cython


cdef class Submission:
    cdef readonly str id
    cdef readonly tuple requires
    cdef readonly long long needed
    cdef readonly long long timeout_ms
    cdef readonly str class_
    cdef readonly object payload
    cdef readonly bytes content
    cdef public object waiting


cdef Py_ssize_t _HEAD_SIZE
cdef Py_ssize_t _REQUIREMENT_SIZE
cdef object _pack_head
cdef object _unpack_head
cdef object _pack_requirement
cdef object _unpack_requirement

@cython.locals(
    flat=list, parts=list, count="long long", kind=int, payload_length=int, id_bytes=bytes,
    class_bytes=bytes, key_bytes=bytes,
)
cpdef Submission checked_submission(
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
cpdef Submission read_submission(bytes content)

@cython.locals(submission=Submission)
cdef Submission _submission(
    str id,
    tuple requires,
    long long needed,
    long long timeout_ms,
    str class_,
    object payload,
    bytes content,
)

cpdef object checked_offset(object offset)
cdef object _integer(object value, str name)

@cython.locals(text=bytes)
cdef bytes _text(object value, str name)
