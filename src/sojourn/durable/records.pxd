cimport cython

@cython.locals(
    hashes=list,
    id=str,
    length="Py_ssize_t",
    n="Py_ssize_t",
    text="const unsigned char *",
    rest="unsigned long long",
)
cpdef list hashes_of(list ids, unsigned long long prime)

@cython.locals(size="Py_ssize_t", content=bytes, framed=bytes, at="unsigned char *")
cdef bytes _framed(list contents)
