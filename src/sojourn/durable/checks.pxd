cimport cython

cpdef object checked_offset(object offset)
cdef object checked_integer(object value, str name)

@cython.locals(size="Py_ssize_t")
cdef Py_ssize_t text_size(object value, str name) except -1

@cython.locals(good=list, errors=list)
cpdef tuple check_each(object rows, object check)
