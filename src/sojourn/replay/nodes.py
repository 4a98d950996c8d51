"""Nodes: numbers for things that come and go, and lists of such numbers.

The facts of a thing are in slabs, at its number: one slab for each fact. Numbers begin with 1; 0
means none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.core.forest import Forest
from sojourn.replay.alarms import Alarms
from sojourn.replay.arrays import grown, integers, slab

_IN_USE = -1


class Nodes:
    """Numbers from 1 on; one that is free is used anew."""

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

    def used(self, among: Any = None) -> Any:
        """Return those in use, of all or of these, as an array."""
        if among is None:
            return np.flatnonzero(np.asarray(self._next)[: self._top + 1] == _IN_USE)
        among = np.asarray(among)
        return among[np.asarray(self._next)[among] == _IN_USE]


class TimedNodes:
    """Things that belong to keys, with a time each: a class made of it says what they are.

    Keys are numbers too. `_firsts` leads from a key to its things, 0 where it has none: to the root
    of a tree, or the head of a chain. A batch is put in first, then the alarms of it are set.
    """

    def __init__(self) -> None:
        self._firsts = slab(0, "i")  # by key; the rest by node
        self._nodes = Nodes()
        self._keys = slab(1, "i")
        self._alarms = Alarms()
        self._fresh = NumberList()  # of this batch

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        slabs = self._firsts.nbytes + self._keys.nbytes + self._nodes.nbytes
        return int(slabs + self._alarms.nbytes + self._fresh.nbytes)

    def reserve_keys(self, count: int) -> None:
        """Make room for keys below this number."""
        if count > len(self._firsts):
            self._firsts = grown(self._firsts, count, "i")

    def reserve(self, more: int) -> int:
        """Make room for so many more; return how long the owner's slabs have to be."""
        room = self._nodes.reserve(more)
        if room > len(self._keys):
            self._keys = grown(self._keys, room, "i")
            self._alarms.reserve(len(self._keys))
        return len(self._keys)

    def has(self, key: int) -> bool:
        """Whether there are any of this key."""
        return bool(self._firsts[key] != 0)

    def _add(self, key: int, at_ms: int) -> int:
        """Return the node of a new one; there is room."""
        node = self._nodes.take()
        self._keys[node] = key
        self._alarms.times_ms[node] = at_ms
        self._fresh.add(node)
        return node

    def at_ms(self, node: int) -> int:
        """Return the time of one."""
        return self._alarms.times_ms[node]  # type: ignore[no-any-return]

    def due(self, now_ms: int) -> Any:
        """Return those whose time has come; their alarms are off."""
        return self._alarms.due(now_ms)

    def _take_fresh(self) -> tuple[Any, Any]:
        """Return those of this batch that are still there, and their times; the batch is over."""
        nodes = self._nodes.used(self._fresh.take_all())
        return nodes, np.asarray(self._alarms.times_ms)[nodes]

    def _set_alarms(self, nodes: Any, times_ms: Any, start_ms: int | None) -> None:
        self._alarms.set_many(integers(nodes, "i"), integers(times_ms), start_ms)

    def _times_column(self, nodes: Any) -> pa.Array:
        return pa.array(np.asarray(self._alarms.times_ms)[nodes])


class TimedTrees(TimedNodes):
    """The same with an offset each: those of one key are a tree ordered by offset."""

    def __init__(self) -> None:
        super().__init__()
        self._forest = Forest()
        self._gone = NumberList()  # of this batch

    @property
    def nbytes(self) -> int:
        """How much memory they take; of a node of the forest 20 bytes, 8 of them its key."""
        forest = self._forest.key_slab.nbytes * 5 // 2
        return int(super().nbytes + forest + self._gone.nbytes)

    def reserve(self, more: int) -> int:
        """Make room for so many more; return how long the owner's slabs have to be."""
        room = super().reserve(more)
        self._forest.reserve(room - 1)
        return room

    def _insert(self, key: int, offset: int, at_ms: int) -> int:
        """Return the node of a new one; there is room."""
        node = self._add(key, at_ms)
        self._firsts[key] = self._forest.insert(self._firsts[key], node, offset)
        return node

    def _remove(self, node: int) -> int:
        """Take the node out of its tree; return its key."""
        key = self._keys[node]
        self._firsts[key] = self._forest.remove(self._firsts[key], node)
        return key  # type: ignore[no-any-return]

    def _offsets_column(self, nodes: Any) -> pa.Array:
        return pa.array(np.asarray(self._forest.key_slab)[nodes])


class NumberList:
    """A list of numbers that is filled and emptied again and again."""

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

    def take_all(self) -> Any:
        """Return the numbers; the list is empty afterwards, and goes on in the same memory."""
        numbers = self.numbers()
        self.count = 0
        return numbers
