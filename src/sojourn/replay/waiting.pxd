cimport cython

from sojourn.replay.alarms cimport Alarms
from sojourn.replay.cancels_ahead cimport CancelsAhead
from sojourn.replay.cells cimport Cells
from sojourn.replay.name_table cimport NameTable
from sojourn.replay.nodes cimport Nodes, NumberList
from sojourn.replay.remembered cimport Remembered
from sojourn.replay.texts cimport Texts

cdef long long _MOST_MS


cdef class Waiting:
    cdef object _remember_ms
    cdef bint _started
    cdef long long _now_ms
    cdef NameTable _names
    cdef int[::1] _operations
    cdef CancelsAhead _ahead
    cdef Remembered _remembered
    cdef Nodes _nodes
    cdef int[::1] _ids
    cdef long long[::1] _tags
    cdef long long[::1] _submitted_ms
    cdef long long[::1] _deadlines_ms
    cdef int[::1] _needed
    cdef int[::1] _counts
    cdef long long[::1] _firsts
    cdef long long[::1] _cancel_ms
    cdef unsigned char[::1] _has_cancel
    cdef unsigned char[::1] _touched
    cdef Texts _payloads
    cdef Alarms _ends
    cdef Cells _cells
    cdef NumberList _touched_nodes
    cdef NumberList _refused
    cdef NumberList _replaced
    cdef long long _at_ms
    cdef long long _by

    @cython.locals(
        n="long long", id="long long", other="long long", node="long long", cancel="long long"
    )
    cdef int _admit(
        self,
        const int[::1] ids,
        const long long[::1] tags,
        const long long[::1] submitted_ms,
        const long long[::1] deadlines_ms,
        const int[::1] needed,
        const int[::1] counts,
        const long long[::1] payload_starts,
        const unsigned char[::1] payload_data,
        const unsigned char[::1] payload_missing,
    ) except -1

    @cython.locals(n="long long", node="long long", cell="long long")
    cdef int _offer(
        self,
        const int[::1] ids,
        const long long[::1] tags,
        const int[::1] indexes,
        const long long[::1] key_starts,
        const unsigned char[::1] key_data,
        const long long[::1] moments_ms,
    ) except -1

    cdef long long _first_cell(self, long long node) except -1

    @cython.locals(n="long long", node="long long")
    cdef int _take_cancels(
        self, const int[::1] ids, const long long[::1] at_ms, bint has_now, long long now_ms
    ) except -1

    cdef int _cancel(self, long long node, long long at_ms) except -1
    cdef int _touch(self, long long node) except -1

    @cython.locals(n="long long", node="long long")
    cdef int _plan(
        self,
        const int[::1] touched,
        NumberList ended,
        NumberList moved,
        long long[::1] ends_ms,
        bint has_now,
        long long now_ms,
    ) except -1

    @cython.locals(n="long long")
    cdef int _end_all(
        self, const int[::1] ended, int[::1] status, long long[::1] at_ms, int[::1] by
    ) except -1

    @cython.locals(first="long long", is_met="bint", how="int")
    cdef int _end(self, long long node) except -1

    @cython.locals(
        n="long long", node="long long", id="long long", at_ms="long long", until_ms="long long"
    )
    cdef int _remember(
        self, const int[::1] ended, long long now_ms, long long remember_ms
    ) except -1

    @cython.locals(id="long long")
    cdef int _forget(self, long long now_ms) except -1

    @cython.locals(n="long long")
    cdef int _remove_cancels(self, const int[::1] cancels) except -1

    @cython.locals(n="long long")
    cdef int _free_operations(self, const int[::1] nodes) except -1

    cdef int _free_operation(self, long long node) except -1

    @cython.locals(n="long long")
    cdef int _release_ids(self, const int[::1] ids) except -1

    cdef int _release_id(self, long long id) except -1

    @cython.locals(n="long long", cell="long long")
    cdef int _fill_cells(
        self,
        const int[::1] operations,
        const int[::1] indexes,
        const long long[::1] key_starts,
        const unsigned char[::1] key_data,
        const long long[::1] moments_ms,
    ) except -1
