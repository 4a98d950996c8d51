"""Nodes: numbers for things that come and go, and lists of such numbers.

What is known of a thing lies in slabs, at its number: one slab for each fact. The numbers begin
with 1, so that 0 can stand for none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.replay.arrays import grown, slab

_IN_USE = -1


class Nodes:
    """Numbers from 1 on; one that is free is used anew."""

    __slots__ = ("_free", "_free_count", "_next", "_top")

    def __init__(self) -> None:
        self._next = slab(1, "i")  # of a free number the next free one
        self._free = 0
        self._free_count = 0
        self._top = 0

    def __len__(self) -> int:
        """How many are in use."""
        return self._top - self._free_count

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return int(self._next.nbytes)

    def reserve(self, more: int) -> int:
        """Make room for so many more; return how long the owner's slabs have to be."""
        top = self._top + max(0, more - self._free_count)
        if top >= len(self._next):
            self._next = grown(self._next, top + 1, "i")
        return len(self._next)

    def take(self) -> int:
        """Return a number that is free; there is room."""
        node = self._free
        if node:
            self._free = self._next[node]
            self._free_count -= 1
        else:
            self._top += 1
            node = self._top
        self._next[node] = _IN_USE
        return node

    def free(self, node: int) -> None:
        """Let the number be used anew."""
        self._next[node] = self._free
        self._free = node
        self._free_count += 1

    def is_used(self, node: int) -> bool:
        return bool(self._next[node] == _IN_USE)

    def used(self, among: Any = None) -> Any:
        """Return those in use, of all or of these, as an array."""
        if among is None:
            return np.flatnonzero(np.asarray(self._next)[: self._top + 1] == _IN_USE)
        among = np.asarray(among)
        return among[np.asarray(self._next)[among] == _IN_USE]


class NumberList:
    """A list of numbers that is filled and emptied again and again."""

    __slots__ = ("_numbers", "count")

    def __init__(self) -> None:
        self._numbers = slab(16, "i")
        self.count = 0

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self._numbers.nbytes)

    def add(self, number: int) -> None:
        if self.count == len(self._numbers):
            self._numbers = grown(self._numbers, self.count + 1, "i")
        self._numbers[self.count] = number
        self.count += 1

    def at(self, n: int) -> Any:
        return self._numbers[n]

    def numbers(self) -> Any:
        """Return the numbers, as they lie in memory."""
        return self._numbers[: self.count]

    def taken(self) -> Any:
        """Return the numbers; the list is empty afterwards, and goes on in the same memory."""
        numbers = self.numbers()
        self.count = 0
        return numbers
