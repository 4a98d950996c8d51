# cython: cdivision=True
"""The name table: small numbers in place of names, equal where the names are equal.

    places     upper half of the hash | number + 1      a word each, 0 for nothing; at most two
                                          |             thirds in use; the hash's first bits say
                                          |             where to look first
    texts      the bytes of the names, by number

To remove a name, those behind it are moved back; its number is used again. With many names most of
the time is spent waiting for memory. So names are looked up a block at a time, and the memory that
the next ones need is prefetched in three steps: the place, where the text is, and the text.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.replay.arrays import grown, slab, text_parts, view
from sojourn.replay.string_hashes import hashes_of
from sojourn.replay.texts import Texts
from sojourn.replay.threads import in_parts

if cython.compiled:
    from cython.cimports.libc.string import memcmp
    from cython.cimports.sojourn.replay._prefetch import prefetch
    from cython.cimports.sojourn.replay.string_hashes import hash_one
else:
    from sojourn.replay.string_hashes import hash_one

_BLOCK = 1024  # names
_AHEAD = 12  # names, for each step
_HIGH = 2**64 - 2**32
_LOW = 2**32 - 1
# Of this process, so that nobody can prepare names that collide.
_SEED = int.from_bytes(np.random.SeedSequence().generate_state(2, np.uint32).tobytes(), "little")


class NameTable:
    """Numbers for names: each has one while it is known, from 0 up in the order of first sight.

    A number that is free is used anew. Names are columns of strings or bytes without nulls.
    """

    def __init__(self) -> None:
        self.texts = Texts()
        self.count = 0
        self._bits = 4
        self._places = slab(16, "Q")
        self._free = -1  # of the free numbers the first; `_next` leads on
        self._next = slab(0, "i")

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self.texts.nbytes + self._places.nbytes + self._next.nbytes)

    def look_up(self, names: pa.Array) -> Any:
        """Return the number of each name; one that is unknown gets a number."""
        starts, data = text_parts(names)
        numbers = slab(len(names), "i")
        hashes = view(hashes_of(starts, data, len(names), _SEED))
        for begin in range(0, len(names), _BLOCK):
            end = min(begin + _BLOCK, len(names))
            self._find(starts, data, hashes, numbers, begin, end)
            self._add(starts, data, hashes, numbers, begin, end)
        return numbers

    def find(self, names: pa.Array, threads: int | None = 1) -> Any:
        """Return the number of each name, -1 where it is unknown."""
        starts, data = text_parts(names)
        numbers = slab(len(names), "i")
        hashes = view(hashes_of(starts, data, len(names), _SEED, threads))
        in_parts(
            lambda begin, end: self._find(starts, data, hashes, numbers, begin, end),
            len(names),
            threads,
        )
        return numbers

    def column(self, numbers: Any, kind: pa.DataType) -> pa.Array:
        """Return the names of these numbers; null where there is none."""
        return self.texts.column(numbers, kind)

    def numbers(self) -> Any:
        """Return the numbers of all names, as an array."""
        return np.flatnonzero(np.asarray(self.texts._sizes)[: self.texts.places] >= 0)

    def remove(self, number: int) -> None:
        """Forget the name; its number becomes free."""
        wrap = len(self._places) - 1
        at = hash_one(
            self.texts._data, self.texts._starts[number], self.texts._sizes[number], _SEED
        ) >> (64 - self._bits)
        while (self._places[at] & _LOW) != number + 1:
            at = (at + 1) & wrap
        hole = at
        while True:  # move back what would not be found behind a gap
            at = (at + 1) & wrap
            entry = self._places[at]
            if entry == 0:
                break
            home = entry >> (64 - self._bits)
            if ((at - home) & wrap) >= ((at - hole) & wrap):
                self._places[hole] = entry
                hole = at
        self._places[hole] = 0
        self.texts.remove(number)
        self._next[number] = self._free
        self._free = number
        self.count -= 1

    def _find(
        self, starts: Any, data: Any, hashes: Any, numbers: Any, begin: int, end: int
    ) -> None:
        with cython.nogil:
            shift = 64 - self._bits
            wrap = len(self._places) - 1
            for n in range(begin, end):
                if cython.compiled:
                    if n + 3 * _AHEAD < end:
                        prefetch(cython.address(self._places[hashes[n + 3 * _AHEAD] >> shift]))
                    if n + 2 * _AHEAD < end:
                        number = self._places[hashes[n + 2 * _AHEAD] >> shift] & _LOW
                        if number:
                            prefetch(cython.address(self.texts._starts[number - 1]))
                            prefetch(cython.address(self.texts._sizes[number - 1]))
                    if n + _AHEAD < end:
                        number = self._places[hashes[n + _AHEAD] >> shift] & _LOW
                        if number:
                            prefetch(
                                cython.address(self.texts._data[self.texts._starts[number - 1]])
                            )
                at = hashes[n] >> shift
                while self._places[at] and not (
                    (self._places[at] ^ hashes[n]) & _HIGH == 0
                    and self._is((self._places[at] & _LOW) - 1, data, starts[n], starts[n + 1])
                ):
                    at = (at + 1) & wrap
                numbers[n] = (self._places[at] & _LOW) - 1

    def _add(self, starts: Any, data: Any, hashes: Any, numbers: Any, begin: int, end: int) -> None:
        """Give numbers to the names of a block that have none."""
        for n in range(begin, end):
            if numbers[n] >= 0:
                continue
            if 3 * (self.count + 1) > 2 * len(self._places):
                self._widen()
            at = hashes[n] >> (64 - self._bits)
            while self._places[at] and not (
                (self._places[at] ^ hashes[n]) & _HIGH == 0
                and self._is((self._places[at] & _LOW) - 1, data, starts[n], starts[n + 1])
            ):
                at = (at + 1) & (len(self._places) - 1)
            if self._places[at] == 0:
                number = self._new_number()
                self.texts.put(number, data, starts[n], starts[n + 1])
                self._places[at] = (hashes[n] & _HIGH) | (number + 1)
            numbers[n] = (self._places[at] & _LOW) - 1

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

    def _widen(self) -> None:
        old = self._places
        self._bits += 1
        self._places = slab(2 * len(old), "Q")
        for n in range(len(old)):
            if old[n]:
                at = old[n] >> (64 - self._bits)
                while self._places[at]:
                    at = (at + 1) & (len(self._places) - 1)
                self._places[at] = old[n]
