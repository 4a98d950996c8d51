cimport cython

from sojourn.replay.name_table cimport NameTable
from sojourn.replay.needs cimport Needs, RequirementRows
from sojourn.replay.nodes cimport NumberList
from sojourn.replay.signals_ahead cimport SignalRows, SignalsAhead


@cython.final
cdef class Progress:
    cdef object _forget_ms
    cdef long long _keep_ms
    cdef long long _floor_ms
    cdef object _sweep_ms
    cdef bint _started
    cdef long long _now_ms
    cdef NameTable _names
    cdef long long[::1] _reached
    cdef unsigned char[::1] _has_reached
    cdef long long[::1] _busy_ms
    cdef Needs _needs
    cdef SignalsAhead _ahead
    cdef int[::1] _row_numbers
    cdef long long[::1] _row_moments
    cdef long long _row_count
    cdef NumberList _aside
    cdef long long _aside_taken

    @cython.locals(n="long long", row="long long")
    cdef int _take_signals(self, SignalRows rows) except -1

    @cython.locals(row="long long")
    cdef int _take_aside(self, SignalRows rows, long long until_ms) except -1

    @cython.locals(
        bounded="bint",
        bound="long long",
        is_news="bint",
        earlier="long long",
        later="long long",
    )
    cdef int _take_signal(self, long long key, long long offset, long long at_ms) except -1

    @cython.locals(
        n="long long",
        row="long long",
        key="long long",
        offset="long long",
        start_ms="long long",
        covering="long long",
        at_ms="long long",
        moment_ms="long long",
        deadline_ms="long long",
    )
    cdef int _take_requirements(
        self, RequirementRows rows, SignalRows signals, bint has_now, long long now_ms
    ) except -1

    cdef void _note_moment(self, long long row, long long moment_ms) noexcept

    @cython.locals(n="long long", key="long long", offset="long long")
    cdef int _pass_by(self, const int[::1] nodes) except -1

    @cython.locals(n="long long", key="long long")
    cdef int _expire(self, const int[::1] nodes) except -1

    cdef int _note_busy(self, long long key, long long at_ms) except -1
    cdef void _note_wait(self, long long key, long long deadline_ms) noexcept
    cdef bint _is_idle(self, long long key, long long at_ms) noexcept
    cdef bint _is_known(self, long long key) noexcept

    @cython.locals(key="long long")
    cdef int _forget(self, long long before_ms) except -1

    @cython.locals(n="long long")
    cdef int _release_keys(self, const int[::1] keys) except -1

    cdef int _release_key(self, long long key) except -1
