# CPython's garbage collector: begin and stop to look at an object.
cdef extern from "Python.h":
    void PyObject_GC_Track(object thing)
    void PyObject_GC_UnTrack(object thing)
    bint PyObject_GC_IsTracked(object thing)
