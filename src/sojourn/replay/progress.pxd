cimport cython

from sojourn.replay.alarms cimport Alarms
from sojourn.core.forest cimport Forest
from sojourn.replay.texts cimport Names, Texts


cdef class Progress:
    cdef object _forget_ms
    cdef bint _forgets
    cdef long long _keep_ms
    cdef long long _floor_ms
    cdef object _sweep_ms
    cdef bint _started
    cdef long long _now_ms
    cdef Names _names
    cdef long long[::1] _reached
    cdef unsigned char[::1] _has_reached
    cdef long long[::1] _busy_ms
    cdef int[::1] _roots
    cdef int[::1] _roots_ahead
    cdef Forest _needs
    cdef Texts _ids
    cdef long long[::1] _tags
    cdef int[::1] _indexes
    cdef int[::1] _keys
    cdef long long[::1] _submitted_ms
    cdef Alarms _deadlines
    cdef long long _need_top
    cdef long long _need_free
    cdef long long _need_free_count
    cdef Forest _ahead
    cdef int[::1] _ahead_keys
    cdef Alarms _ahead_ms
    cdef long long _ahead_top
    cdef long long _ahead_free
    cdef long long _ahead_free_count
    cdef int[::1] _fresh
    cdef long long _fresh_count
    cdef int[::1] _fresh_ahead
    cdef long long _fresh_ahead_count
    cdef int[::1] _gone
    cdef long long _gone_count
    cdef int[::1] _work
    cdef int[::1] _out_nodes
    cdef long long[::1] _out_moments
    cdef long long _out_count
    cdef int[::1] _row_numbers
    cdef long long[::1] _row_moments
    cdef long long _row_count

    @cython.locals(n="long long", row="long long")
    cdef int _hear(
        self,
        const int[::1] keys,
        const long long[::1] offsets,
        const long long[::1] at_ms,
        const long long[::1] order,
    ) except -1

    @cython.locals(
        bounded="bint",
        bound="long long",
        earlier="long long",
        later="long long",
        here="long long",
        node="long long",
    )
    cdef bint _hear_one(self, long long key, long long offset, long long at_ms) except -1

    @cython.locals(n="long long")
    cdef int _free_outdone(self) except -1

    @cython.locals(
        count="long long",
        done="long long",
        node="long long",
        above="bint",
        below="bint",
        moment_ms="long long",
    )
    cdef int _improve(
        self, long long key, bint bounded, long long bound, long long offset, long long at_ms
    ) except -1

    @cython.locals(
        n="long long",
        key="long long",
        offset="long long",
        start_ms="long long",
        covering="long long",
        here="long long",
        at_ms="long long",
        moment_ms="long long",
        node="long long",
    )
    cdef int _need(
        self,
        const long long[::1] id_starts,
        const unsigned char[::1] id_data,
        const long long[::1] tags,
        const int[::1] indexes,
        const int[::1] keys,
        const long long[::1] offsets,
        const long long[::1] submitted_ms,
        const long long[::1] deadlines_ms,
        bint has_now,
        long long now_ms,
    ) except -1

    @cython.locals(n="long long", node="long long", key="long long", offset="long long")
    cdef int _collapse(self, const int[::1] nodes) except -1

    @cython.locals(n="long long", node="long long", key="long long")
    cdef int _drop(self, const int[::1] nodes) except -1

    @cython.locals(count="long long", done="long long", node="long long")
    cdef int _free_tree(self, long long root) except -1

    cdef int _note_busy(self, long long key, long long at_ms) except -1
    cdef int _remove_ahead(self, long long key, long long node) except -1

    @cython.locals(key="long long")
    cdef int _forget(self, long long before_ms) except -1

    @cython.locals(n="long long")
    cdef int _release_keys(self, const int[::1] keys) except -1

    cdef int _release_key(self, long long key) except -1

    @cython.locals(n="long long", node="long long", root="long long")
    cdef int _plant_ahead(
        self, const int[::1] keys, const long long[::1] offsets, const long long[::1] at_ms
    ) except -1

    @cython.locals(n="long long", node="long long", key="long long")
    cdef int _plant_needs(
        self,
        const long long[::1] id_starts,
        const unsigned char[::1] id_data,
        const long long[::1] tags,
        const int[::1] indexes,
        const int[::1] keys,
        const long long[::1] offsets,
        const long long[::1] submitted_ms,
        const long long[::1] deadlines_ms,
    ) except -1

    @cython.locals(node="long long")
    cdef long long _new_ahead(self, long long key, long long at_ms) except -1

    cdef int _free_ahead(self, long long node) except -1

    @cython.locals(node="long long")
    cdef long long _new_need(
        self, long long key, long long tag, int index, long long submitted_ms, long long deadline_ms
    ) except -1

    cdef int _free_need(self, long long node) except -1
    cdef int _note_gone(self, long long node) except -1
