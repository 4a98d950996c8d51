from sojourn.core.millis cimport checked_ms
from sojourn.core.progress cimport checked_requires

cpdef object checked_condition(object predicate, object keys, object requires, object needed)
cdef bint is_asynchronous(object value) except -1
cpdef long long as_ms(object seconds, str name) except? -1
