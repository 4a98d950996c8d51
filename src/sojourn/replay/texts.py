"""Texts: very many short byte strings, each in a numbered place, and names found by their bytes.

The bytes of all lie end to end in one arena. What was dropped leaves a gap; once the gaps are more
than what is left, the arena is packed anew instead of growing.

Names are found by a table with open addressing: 8 bytes an entry, the upper half of which is a hash
of the name, so that other names are rarely looked at; the lower half is the name's number + 1, or
0 for nothing. A name that goes is taken out by moving back those behind it.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.replay.slab import grown, slab, text_column

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy

NOTHING = -1  # the size of a text that is not there
_LOW = 2**32 - 1
_ODD_A = 0x9E3779B97F4A7C15  # odd numbers without pattern, to scramble with
_ODD_B = 0xBF58476D1CE4E5B9
_ODD_C = 0x94D049BB133111EB
_SEED = int.from_bytes(np.random.SeedSequence().generate_state(2, np.uint32).tobytes(), "little")


class Texts:
    """Byte strings by place. A place that was never filled holds nothing."""

    __slots__ = ("_data", "_live", "_sizes", "_starts", "_used", "places")

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
        if self._sizes[place] >= 0:
            self._live -= self._sizes[place]
            self._sizes[place] = NOTHING
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

    def drop(self, place: int) -> None:
        """Let the place hold nothing."""
        if self._sizes[place] >= 0:
            self._live -= self._sizes[place]
            self._sizes[place] = NOTHING

    def holds(self, place: int) -> bool:
        return bool(self._sizes[place] >= 0)

    def before(self, place: int, other: int) -> bool:
        """Whether the text in the one place is less than that in the other, by its bytes."""
        mine = self._sizes[place]
        others = self._sizes[other]
        a = self._starts[place]
        b = self._starts[other]
        if cython.compiled:
            order = memcmp(
                cython.address(self._data[a]),
                cython.address(self._data[b]),
                mine if mine < others else others,
            )
            return order < 0 if order != 0 else mine < others
        return bytes(self._data[a : a + mine]) < bytes(self._data[b : b + others])

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


class Names:
    """Numbers for names: each name has one while it is known; a number that is free is used anew.

    `texts` holds the names by number.
    """

    __slots__ = ("_free", "_mask", "_next", "_table", "count", "texts")

    def __init__(self) -> None:
        self.texts = Texts()
        self.count = 0
        self._table = slab(16, "q")
        self._mask = 15
        self._free = -1  # of the free numbers the first; `_next` leads on
        self._next = slab(0, "i")

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return int(self.texts.nbytes + self._table.nbytes + self._next.nbytes)

    def look_up(self, starts: Any, data: Any, count: int, add: bool) -> Any:
        """Return the number of each name; of one that is unknown a new one, or -1 without `add`."""
        numbers = slab(count, "i")
        if count:
            self._look_up(starts, data, numbers, add)
        return numbers

    def remove(self, number: int) -> None:
        """Forget the name; its number becomes free."""
        at = self._find(number)
        hole = at
        while True:  # move back what would not be found behind a gap
            at = (at + 1) & self._mask
            entry = self._table[at]
            if entry == 0:
                break
            home = (entry >> 32) & self._mask
            if ((at - home) & self._mask) >= ((at - hole) & self._mask):
                self._table[hole] = entry
                hole = at
        self._table[hole] = 0
        self.texts.drop(number)
        self._next[number] = self._free
        self._free = number
        self.count -= 1

    def _look_up(self, starts: Any, data: Any, numbers: Any, add: bool) -> None:
        for n in range(len(numbers)):
            if add and 3 * (self.count + 1) > 2 * self._mask:
                self._widen()
            start = starts[n]
            end = starts[n + 1]
            hashed = _hash(data, start, end)
            at = hashed & self._mask
            while True:
                entry = self._table[at]
                if entry == 0:
                    numbers[n] = -1
                    if add:
                        number = self._new_number()
                        self.texts.put(number, data, start, end)
                        self._table[at] = (hashed << 32) | (number + 1)
                        numbers[n] = number
                    break
                number = (entry & _LOW) - 1
                if (entry >> 32) == hashed and self._is(number, data, start, end):
                    numbers[n] = number
                    break
                at = (at + 1) & self._mask

    def _is(self, number: int, data: Any, start: int, end: int) -> bool:
        size = self.texts._sizes[number]
        mine = self.texts._starts[number]
        if size != end - start:
            return False
        if cython.compiled:
            return size == 0 or (
                memcmp(cython.address(self.texts._data[mine]), cython.address(data[start]), size)
                == 0
            )
        return bool(self.texts._data[mine : mine + size] == data[start:end])

    def _new_number(self) -> int:
        number = self._free
        if number >= 0:
            self._free = self._next[number]
        else:
            number = self.texts.places
            self.texts.reserve(number + 1)
            if number >= len(self._next):
                self._next = grown(self._next, number + 1, "i")
        self.count += 1
        return number

    def _find(self, number: int) -> int:
        """Return where in the table the number is."""
        start = self.texts._starts[number]
        end = start + self.texts._sizes[number]
        at = _hash(self.texts._data, start, end) & self._mask
        while (self._table[at] & _LOW) != number + 1:
            at = (at + 1) & self._mask
        return at

    def _widen(self) -> None:
        old = self._table
        self._mask = 2 * self._mask + 1
        self._table = slab(self._mask + 1, "q")
        for n in range(len(old)):
            if old[n] != 0:
                at = (old[n] >> 32) & self._mask
                while self._table[at] != 0:
                    at = (at + 1) & self._mask
                self._table[at] = old[n]


def _hash(data: Any, start: int, end: int) -> int:
    """Return 31 bits that depend on all the bytes, and on a seed of this process."""
    if cython.compiled:
        mixed = _SEED ^ cython.cast(cython.ulonglong, end - start)
        word = cython.cast(cython.ulonglong, 0)
        while end - start >= 8:
            memcpy(cython.address(word), cython.address(data[start]), 8)
            mixed = (mixed ^ word) * _ODD_A
            mixed ^= mixed >> 29
            start += 8
        if end > start:
            word = 0
            memcpy(cython.address(word), cython.address(data[start]), end - start)
            mixed = (mixed ^ word) * _ODD_B
            mixed ^= mixed >> 31
        mixed *= _ODD_C
        return (mixed >> 33) & 0x7FFFFFFF
    return hash(bytes(data[start:end])) & 0x7FFFFFFF
