cdef bint _by_identity


cdef class Key:
    cdef readonly object key
    cdef Py_hash_t hash


cdef int remove_key(dict keys, object key) except -1
cpdef object as_key(object key)
cdef object user_key(object key)
cdef bint is_plain(object key) noexcept
cdef tuple checked_keys(object keys)
