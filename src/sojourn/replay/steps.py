# cython: cdivision=True
"""The steps: the times at which each key's progress rose, and with them when a requirement holds.

A key's progress is the largest offset signalled so far. Only signals that raise it matter; in the
order of time these are the key's steps, and a requirement holds from the first step that reaches
its offset:

    offset
      9               +---    signals of a key, in time order:  (10, 3) (12, 2) (15, 7) (20, 9)
      7        +------+       its steps:                        (10, 3)         (15, 7) (20, 9)
               |
      3   +----+              offset 3 is reached at 10, 4 at 15, 10 never
          10   15     20   at_ms

Signals are grouped by key, in their order; a key whose signals did not come in time order is
sorted. Steps rise in time and in offset, so each requirement takes one binary search.

Steps can replace their signals: the steps of several parts of the signals, grouped again, give the
steps of all. So they can be found part by part, sent to one place and merged there.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.replay.arrays import Integers, Mask, one_piece, view
from sojourn.replay.codes import Codes
from sojourn.replay.threads import in_parts

if cython.compiled:
    from cython.cimports.sojourn.replay._prefetch import prefetch

# From which moment on each requirement holds, and whether it ever does.
Moments = tuple[Integers, Mask]

_RUN = 16  # signals, sorted by insertion
_AHEAD = 24  # requirements; how far ahead memory is asked for
_NOTHING = np.zeros(0, dtype=np.int64)


class Steps:
    """The steps of many keys: found once, asked as often as one likes; `len` says how many.

    Keys are Arrow strings, none null. `threads`: as many as there are processors if not said.
    They can be pickled; each key is written once.

    `_codes` is None in steps that were pickled, until they are asked: often they are only merged.
    """

    __slots__ = ("_bounds", "_codes", "_keys", "_pairs")

    _bounds: Integers
    _keys: pa.Array
    _codes: Codes | None
    _pairs: Integers

    def __init__(
        self, keys: pa.Array, offsets: Integers, at_ms: Integers, *, threads: int | None = None
    ) -> None:
        codes = Codes(keys)
        self._find(keys, codes, codes.codes, offsets, at_ms, threads)

    @classmethod
    def merged(cls, parts: Sequence[Steps], *, threads: int | None = None) -> Steps:
        """Return the steps of all signals that these parts stand for; there may be none."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls(pa.array([], pa.string()), _NOTHING, _NOTHING)
        keys, counts, pairs = zip(*(part._packed() for part in parts), strict=True)
        names = _joined(keys)
        codes_of_keys = Codes(names)
        every = np.concatenate(pairs)
        steps = cls.__new__(cls)
        codes = np.repeat(codes_of_keys.codes, np.concatenate(counts))
        steps._find(names, codes_of_keys, codes, every[:, 0], every[:, 1], threads)
        return steps

    def __len__(self) -> int:
        return int((self._bounds[1::2] - self._bounds[::2]).sum())

    def __reduce__(self) -> Any:
        return _unpacked, self._packed()

    def held_ms(self, keys: pa.Array, offsets: Integers, *, threads: int | None = None) -> Moments:
        """Return from which moment on each requirement holds.

        A requirement (`keys[n]`, `offsets[n]`) holds from the earliest `at_ms` among the signals
        of its key with an offset at least its own. Where it never holds the moment means nothing.
        """
        pairs, bounds = view(self._pairs.ravel()), view(self._bounds)
        if self._codes is None:
            self._codes = Codes(self._keys)
        codes = view(self._codes.find(keys, threads))
        required = view(offsets)
        moments = np.zeros(len(keys), dtype=np.int64)
        holds = np.zeros(len(keys), dtype=np.bool_)

        def part(begin: int, end: int) -> None:
            _search(pairs, bounds, codes, required, view(moments), view(holds), begin, end)

        in_parts(part, len(keys), threads)
        return moments, holds

    def _find(
        self,
        keys: pa.Array,
        codes_of_keys: Codes,
        codes: npt.NDArray[np.int32],
        offsets: Integers,
        at_ms: Integers,
        threads: int | None,
    ) -> None:
        self._keys, self._codes = keys, codes_of_keys
        # Those of key n are `_bounds[2 * n]` up to `_bounds[2 * n + 1]` of the pairs of offset
        # and time; in between is what was no step.
        self._bounds = np.zeros(2 * codes_of_keys.count, dtype=np.int64)
        self._pairs = np.empty((len(codes), 2), dtype=np.int64)
        steps, bounds = view(self._pairs.ravel()), view(self._bounds)
        _deal(view(codes), view(offsets), view(at_ms), bounds, steps)
        spare = view(np.empty(len(steps), dtype=np.int64))

        def part(begin: int, end: int) -> None:
            _reduce(steps, bounds, spare, begin, end)

        in_parts(part, codes_of_keys.count, threads, 1000)

    def _packed(self) -> tuple[pa.Array, Integers, Integers]:
        """Each key once, how many steps it has, and all steps end to end."""
        starts = self._bounds[::2]
        counts = self._bounds[1::2] - starts
        if self._codes is None:
            return self._keys, counts, self._pairs
        first = np.empty(self._codes.count, dtype=np.int64)
        first[self._codes.codes[::-1]] = np.arange(len(self._codes.codes))[::-1]
        keys = self._keys
        if len(first) < len(keys) or keys.offset:
            keys = keys.take(pa.array(first))
        pairs = self._pairs
        if int(counts.sum()) < len(pairs):
            before = np.cumsum(counts) - counts
            pairs = pairs[np.arange(int(counts.sum())) + np.repeat(starts - before, counts)]
        return keys, counts, pairs


def _unpacked(keys: pa.Array, counts: Integers, pairs: Integers) -> Steps:
    steps = Steps.__new__(Steps)
    ends = np.cumsum(counts)
    steps._keys, steps._codes, steps._pairs = keys, None, pairs
    steps._bounds = np.column_stack((ends - counts, ends)).ravel()
    return steps


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """All strings in one array, of narrow or wide ones."""
    if len({part.type for part in parts}) > 1:
        parts = [part.cast(pa.large_string()) for part in parts]
    return one_piece(pa.chunked_array(parts))


def _deal(
    codes: memoryview, offsets: memoryview, at_ms: memoryview, bounds: memoryview, steps: memoryview
) -> None:
    """Lay out the signals by key, as pairs of offset and time: those of key n from
    `bounds[2 * n]` up to `bounds[2 * n + 1]`, in the order they came.
    """
    with cython.nogil:
        for n in range(len(codes)):
            bounds[2 * codes[n]] += 1
        total = 0
        for key in range(len(bounds) // 2):
            size = bounds[2 * key]
            bounds[2 * key] = total
            bounds[2 * key + 1] = total
            total += size
        for n in range(len(codes)):
            at = bounds[2 * codes[n] + 1]
            bounds[2 * codes[n] + 1] = at + 1
            steps[2 * at] = offsets[n]
            steps[2 * at + 1] = at_ms[n]


def _reduce(steps: memoryview, bounds: memoryview, spare: memoryview, begin: int, end: int) -> None:
    """Of the signals of these keys leave the steps, in time order."""
    with cython.nogil:
        for key in range(begin, end):
            start = bounds[2 * key]
            stop = bounds[2 * key + 1]
            for n in range(start + 1, stop):
                if steps[2 * n + 1] < steps[2 * n - 1]:
                    _sort(steps, spare, start, stop)
                    break
            last = start
            for n in range(start + 1, stop):
                if steps[2 * n] > steps[2 * last]:
                    # Of several signals at one moment only the largest offset makes a step.
                    if steps[2 * n + 1] > steps[2 * last + 1]:
                        last += 1
                    steps[2 * last] = steps[2 * n]
                    steps[2 * last + 1] = steps[2 * n + 1]
            if stop > start:
                bounds[2 * key + 1] = last + 1


def _sort(steps: memoryview, spare: memoryview, start: int, stop: int) -> None:
    """Sort pairs by their second number: short runs by insertion, then merged pair by pair.

    By hand, because C's qsort calls a function for each comparison and takes twice as long, and
    the sort of C++ needs a second compiler.
    """
    run = start
    while run < stop:
        end = run + _RUN if run + _RUN < stop else stop
        for n in range(run + 1, end):
            offset = steps[2 * n]
            at_ms = steps[2 * n + 1]
            to = n
            while to > run and steps[2 * to - 1] > at_ms:
                steps[2 * to] = steps[2 * to - 2]
                steps[2 * to + 1] = steps[2 * to - 1]
                to -= 1
            steps[2 * to] = offset
            steps[2 * to + 1] = at_ms
        run = end
    size = _RUN
    while size < stop - start:
        run = start
        while run + size < stop:
            end = run + 2 * size if run + 2 * size < stop else stop
            _merge(steps, spare, run, run + size, end)
            run = end
        size *= 2


def _merge(steps: memoryview, spare: memoryview, start: int, middle: int, stop: int) -> None:
    """Merge two sorted runs that lie side by side; the first is put aside meanwhile."""
    if steps[2 * middle - 1] <= steps[2 * middle + 1]:
        return
    for n in range(2 * start, 2 * middle):
        spare[n] = steps[n]
    left = start
    right = middle
    to = start
    while left < middle:
        if right < stop and steps[2 * right + 1] < spare[2 * left + 1]:
            steps[2 * to] = steps[2 * right]
            steps[2 * to + 1] = steps[2 * right + 1]
            right += 1
        else:
            steps[2 * to] = spare[2 * left]
            steps[2 * to + 1] = spare[2 * left + 1]
            left += 1
        to += 1


def _search(
    steps: memoryview,
    bounds: memoryview,
    codes: memoryview,
    offsets: memoryview,
    moments: memoryview,
    holds: memoryview,
    begin: int,
    end: int,
) -> None:
    """Find the first step of its key that reaches each requirement."""
    with cython.nogil:
        for n in range(begin, end):
            if cython.compiled:
                if n + 2 * _AHEAD < end and codes[n + 2 * _AHEAD] >= 0:
                    prefetch(cython.address(bounds[2 * codes[n + 2 * _AHEAD]]))
                if n + _AHEAD < end and codes[n + _AHEAD] >= 0:
                    low = bounds[2 * codes[n + _AHEAD]]
                    size = bounds[2 * codes[n + _AHEAD] + 1] - low
                    # At a quarter, at half and at three quarters: where halving looks first.
                    prefetch(cython.address(steps[2 * low + size // 2]))
                    prefetch(cython.address(steps[2 * low + size]))
                    prefetch(cython.address(steps[2 * low + size + size // 2]))
            if codes[n] < 0:
                continue
            offset = offsets[n]
            low = bounds[2 * codes[n]]
            stop = bounds[2 * codes[n] + 1]
            # Halved without a branch, which the processor could not predict.
            size = stop - low
            while size > 1:
                half = size // 2
                low += half * (steps[2 * (low + half - 1)] < offset)
                size -= half
            low += steps[2 * low] < offset
            if low < stop:
                moments[n] = steps[2 * low + 1]
                holds[n] = 1
