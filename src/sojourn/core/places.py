"""Places: where operations stand, as numbers in slabs instead of objects.

An operation has a place for each key it waits on. A place belongs to its holder and leads to the
holder's next place:

    operation._sj_places -> 7 -> 3 -> 12 -> 0          siblings: the places of one operation
                            |    |     |
                           "a"  "b"   "c"              what links them to a key: see below

A place counts as one reference to its holder. Place 0 is none. Free places form a chain of
siblings too. Who stands beside whom is up to two kinds of owner: watchers.py puts the places of a
key into a circle, progress.py into a tree ordered by offset.

A slab grows between atomic steps: `reserve` builds the longer one first, and one step copies and
swaps it in. So nothing is allocated inside a step, and no garbage collection can start there.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import mmap
from array import array
from typing import Any, Literal

if cython.compiled:
    from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF

_LEAST = 64
_LARGE = 2**18


def numbers(kind: Literal["q", "i"], count: int) -> memoryview:
    """Return `count` zeros: 'q' of 64 bits, 'i' of 32.

    Large ones are mapped, so that what a slab leaves when it grows goes back to the system.
    """
    size = (8 if kind == "q" else 4) * count
    if size < _LARGE:
        return memoryview(bytearray(size)).cast(kind)
    if hasattr(mmap, "MAP_PRIVATE"):  # else a forked child would share them with its parent
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return memoryview(mmap.mmap(-1, size, flags=private)).cast(kind)
    return memoryview(mmap.mmap(-1, size)).cast(kind)


def filled(count: int, value: int) -> memoryview:
    """Return `count` times the value, of 64 bits."""
    return memoryview(array("q", [value]) * count)


if not cython.compiled:

    def as_address(thing: object) -> Any:
        return thing

    def at_address(thing: Any) -> Any:
        return thing

    def int_address(slab: memoryview) -> memoryview:
        return slab

    def long_address(slab: memoryview) -> memoryview:
        return slab

    NOBODY: Any = None

    def Py_INCREF(thing: object) -> None:
        pass

    Py_DECREF = Py_INCREF


def references(count: int) -> Any:
    """Return room for `count` references, each NOBODY at first."""
    if cython.compiled:
        return numbers("q", count)
    return [NOBODY] * count


class Places:
    """Holders and siblings of all places. Every method but `reserve` is a raw step."""

    __slots__ = ("_free", "_used", "holders", "siblings")

    def __init__(self) -> None:
        self.siblings = numbers("i", 1)
        self.holders = references(1)
        self._free = 0
        self._used = 1

    def reserve(self, count: int) -> None:
        """Make room for `count` more places; call it outside any step."""
        room = len(self.siblings)
        self._enlarge(max(_LEAST, room + room // 4, room + count))

    def _enlarge(self, room: int) -> None:
        """Build slabs of this size, and swap them in within a step."""

    def has_room(self, count: int) -> bool:
        """Say whether `count` places can be taken without growing."""
        if self._used + count <= len(self.siblings):
            return True
        place = self._free
        while place and count:
            place = self.siblings[place]
            count -= 1
        return count <= len(self.siblings) - self._used

    def adopt(self, siblings: memoryview, holders: Any) -> None:
        """Go on in these slabs, which are longer."""
        for n in range(self._used):
            siblings[n] = self.siblings[n]
            holders[n] = self.holders[n]
        self.siblings = siblings
        self.holders = holders

    def take(self, holder: Any) -> int:
        """Take a free place, of which there is one, for the holder."""
        place = self._free
        if place:
            self._free = self.siblings[place]
        else:
            place = self._used
            self._used += 1
        self.holders[place] = as_address(holder)
        Py_INCREF(holder)
        return place

    def hand_over(self, place: int, holder: Any) -> None:
        """Let the place have another holder; the one before is held elsewhere too."""
        before = at_address(self.holders[place])
        self.holders[place] = as_address(holder)
        Py_INCREF(holder)
        Py_DECREF(before)

    def give_back(self, place: int) -> None:
        """Make the place free; the caller holds the holder, if that matters."""
        if self.holders[place] is not NOBODY:
            holder = at_address(self.holders[place])
            self.holders[place] = NOBODY
            Py_DECREF(holder)
        self.siblings[place] = self._free
        self._free = place

    def release(self, place: int) -> None:
        """Take the place from its holder, and keep it for now."""
        if self.holders[place] is not NOBODY:
            holder = at_address(self.holders[place])
            self.holders[place] = NOBODY
            Py_DECREF(holder)
