cimport cython

from sojourn.replay.alarms cimport Alarms
from sojourn.replay.texts cimport Names, Texts

cdef int _COMPLETED
cdef int _EXPIRED
cdef int _CANCELLED
cdef long long _MOST_MS


cdef class Waiting:
    cdef long long _remember_ms
    cdef bint _started
    cdef long long _now_ms
    cdef Names _names
    cdef int[::1] _ops
    cdef int[::1] _cancels
    cdef long long[::1] _until_ms
    cdef unsigned char[::1] _has_until
    cdef int[::1] _ids
    cdef long long[::1] _tags
    cdef long long[::1] _submitted_ms
    cdef long long[::1] _deadlines_ms
    cdef int[::1] _needed
    cdef int[::1] _counts
    cdef long long[::1] _cells
    cdef long long[::1] _cancel_ms
    cdef unsigned char[::1] _has_cancel
    cdef unsigned char[::1] _touched
    cdef Texts _payloads
    cdef Alarms _ends
    cdef long long _op_top
    cdef long long _op_free
    cdef long long _op_free_count
    cdef long long[::1] _cell_moments
    cdef Texts _cell_keys
    cdef long long[::1] _cell_free
    cdef long long _cell_top
    cdef int[::1] _cancel_ids
    cdef int[::1] _cancel_next
    cdef Alarms _cancel_alarms
    cdef long long _cancel_top
    cdef long long _cancel_free
    cdef long long _cancel_free_count
    cdef long long[::1] _memory_ms
    cdef int[::1] _memory_ids
    cdef long long _memory_first
    cdef long long _memory_last
    cdef int[::1] _touched_ops
    cdef long long _touched_count
    cdef int[::1] _fresh_cancels
    cdef long long _fresh_cancel_count
    cdef long long[::1] _refused
    cdef long long _refused_count
    cdef int[::1] _ousted
    cdef long long _ousted_count
    cdef long long[::1] _scratch
    cdef long long _condition_ms
    cdef long long _at_ms
    cdef long long _by

    @cython.locals(
        n="long long",
        id="long long",
        other="long long",
        node="long long",
        cancel="long long",
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

    @cython.locals(n="long long", id="long long", node="long long")
    cdef int _call_off(
        self, const int[::1] ids, const long long[::1] at_ms, bint has_now, long long now_ms
    ) except -1

    cdef int _cancelled(self, long long node, long long at_ms) except -1
    cdef int _touch(self, long long node) except -1

    @cython.locals(
        n="long long", node="long long", ended_count="long long", moved_count="long long"
    )
    cdef long long _plan(
        self,
        int[::1] moved,
        long long[::1] ends_ms,
        int[::1] ended,
        bint has_now,
        long long now_ms,
    ) except -1

    @cython.locals(n="long long")
    cdef int _tell(
        self, const int[::1] ended, int[::1] status, long long[::1] at_ms, int[::1] by
    ) except -1

    @cython.locals(holds="bint", cell="long long", last="long long")
    cdef int _end(self, long long node) except -1

    @cython.locals(needed="long long", cell="long long", last="long long", count="long long")
    cdef bint _find_condition(self, long long node) except -1

    @cython.locals(
        low="long long",
        high="long long",
        pivot="long long",
        left="long long",
        right="long long",
        swapped="long long",
    )
    cdef long long _least(self, long long count, long long rank) noexcept

    @cython.locals(
        n="long long", node="long long", id="long long", at_ms="long long", until_ms="long long"
    )
    cdef int _remember(
        self, const int[::1] ended, long long now_ms, long long remember_ms
    ) except -1

    @cython.locals(count="long long", n="long long")
    cdef int _memorise(self, long long id, long long until_ms) except -1

    @cython.locals(id="long long")
    cdef int _forget(self, long long now_ms) except -1

    @cython.locals(n="long long", node="long long", id="long long", before="long long")
    cdef int _pass(self, const int[::1] cancels) except -1

    @cython.locals(n="long long")
    cdef int _free_operations(self, const int[::1] nodes) except -1

    cdef int _free_operation(self, long long node) except -1

    @cython.locals(first="long long")
    cdef long long _new_cells(self, long long count) except -1

    @cython.locals(cell="long long")
    cdef int _free_cells(self, long long first, long long count) except -1

    @cython.locals(n="long long")
    cdef int _release_ids(self, const int[::1] ids) except -1

    cdef int _release_id(self, long long id) except -1

    @cython.locals(n="long long", node="long long", cell="long long")
    cdef int _plant_cells(
        self,
        const int[::1] operations,
        const int[::1] indexes,
        const long long[::1] key_starts,
        const unsigned char[::1] key_data,
        const long long[::1] moments_ms,
    ) except -1

    @cython.locals(n="long long")
    cdef int _plant_memory(self, const int[::1] ids, const long long[::1] until_ms) except -1
