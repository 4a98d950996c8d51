"""Texts: very many short byte strings, by number.

Their bytes lie end to end in one arena. A removed string leaves a gap. When the gaps have more
bytes than the strings, the arena is compacted instead of grown.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

import pyarrow as pa

from sojourn.replay.arrays import grown, slab, text_column

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy

NOTHING = -1  # the size of a text that is not there


class Texts:
    """Byte strings by place. A place that was never filled holds nothing."""

    def __init__(self) -> None:
        self._data = slab(64, "B")
        self._used = 0
        self._live = 0
        self._starts = slab(0, "q")
        self._sizes = slab(0, "i")
        self.places = 0

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self._data.nbytes + self._starts.nbytes + self._sizes.nbytes)

    def reserve(self, places: int) -> None:
        """Make room for places up to this many."""
        if places > len(self._starts):
            self._starts = grown(self._starts, places, "q")
            self._sizes = grown(self._sizes, places, "i")
        while self.places < places:
            self._sizes[self.places] = NOTHING
            self.places += 1

    def put(self, place: int, data: Any, start: int, end: int) -> None:
        """Put these bytes into the place, which is reserved."""
        size = end - start
        self.remove(place)
        if self._used + size > len(self._data):
            self._make_room(size)
        self._starts[place] = self._used
        self._sizes[place] = size
        if cython.compiled:
            if size > 0:
                memcpy(cython.address(self._data[self._used]), cython.address(data[start]), size)
        else:
            self._data[self._used : self._used + size] = data[start:end]
        self._used += size
        self._live += size

    def remove(self, place: int) -> None:
        """Let the place hold nothing."""
        if self._sizes[place] >= 0:
            self._live -= self._sizes[place]
            self._sizes[place] = NOTHING

    def holds(self, place: int) -> bool:
        return bool(self._sizes[place] >= 0)

    def before(self, place: int, other: int) -> bool:
        """Whether the text in the one place is less than that in the other, by its bytes."""
        a = self._starts[place]
        b = self._starts[other]
        return precedes(self._data, a, a + self._sizes[place], b, b + self._sizes[other])

    def column(self, places: Any, kind: pa.DataType) -> pa.Array:
        """Return the texts of these places as a column; null where there is nothing."""
        count = len(places)
        starts = slab(count + 1, "q")
        valid = slab(count, "B")
        total = self._lay_out(places, starts, valid) if count else 0
        data = slab(total, "B")
        if total:
            self._copy_out(places, starts, data)
        return text_column(starts, data, valid, kind)

    def _lay_out(self, places: Any, starts: Any, valid: Any) -> int:
        """Say where each text is to start, and which are there; return their size together."""
        total = 0
        for n in range(len(places)):
            place = places[n]
            if place >= 0 and self._sizes[place] >= 0:
                total += self._sizes[place]
                valid[n] = 1
            starts[n + 1] = total
        return total

    def _copy_out(self, places: Any, starts: Any, data: Any) -> None:
        for n in range(len(places)):
            size = starts[n + 1] - starts[n]
            if size > 0:
                start = self._starts[places[n]]
                if cython.compiled:
                    memcpy(cython.address(data[starts[n]]), cython.address(self._data[start]), size)
                else:
                    data[starts[n] : starts[n + 1]] = self._data[start : start + size]

    def _make_room(self, size: int) -> None:
        """Pack the arena anew if that helps much, else let it grow."""
        if 2 * self._live > self._used or self._live + size > len(self._data):
            self._data = grown(self._data, self._used + size, "B")
        else:
            packed = slab(len(self._data), "B")
            self._pack(packed)
            self._data = packed

    def _pack(self, packed: Any) -> None:
        used = 0
        for place in range(self.places):
            size = self._sizes[place]
            if size >= 0:
                start = self._starts[place]
                if cython.compiled:
                    if size > 0:
                        memcpy(
                            cython.address(packed[used]), cython.address(self._data[start]), size
                        )
                else:
                    packed[used : used + size] = self._data[start : start + size]
                self._starts[place] = used
                used += size
        self._used = used


def precedes(data: Any, start: int, end: int, other_start: int, other_end: int) -> bool:
    """Say whether a text comes before another by its bytes, which is by its code points."""
    if cython.compiled:
        length = end - start
        other_length = other_end - other_start
        order = memcmp(
            cython.address(data[start]),
            cython.address(data[other_start]),
            length if length < other_length else other_length,
        )
        return order < 0 or (order == 0 and length < other_length)
    else:  # noqa: RET505 - compiled, the rest is unreachable
        return bytes(data[start:end]) < bytes(data[other_start:other_end])
