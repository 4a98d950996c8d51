"""The watchers: which operations watch which keys.

The places of a key form a circle, which starts and ends at a root place of the key's own:

    "a" -> root <-> op 1 <-> op 2 <-> op 3 <-> (root)        in the order they came
    "b" -> root <-> op 2 <-> (root)
                     |
                     +--- op 2's places are chained as siblings (places.py)

An operation that ends leaves every circle at once, along its own chain. A key whose circle has
only the root left vanishes: nothing dead is ever kept or counted, and there is nothing to purge.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

from sojourn._guard import GUARD

if cython.compiled:
    from cython.cimports.sojourn.keys import Key, remove_key, user_key
    from cython.cimports.sojourn.operation import DelayedOperation
    from cython.cimports.sojourn.places import (
        NOBODY,
        Places,
        as_address,
        at_address,
        numbers,
        references,
    )
else:
    from sojourn.keys import Key, remove_key, user_key
    from sojourn.operation import DelayedOperation
    from sojourn.places import NOBODY, Places, as_address, at_address, numbers, references

_FAR = 10_000  # places to go along a circle in search of its key, at most


@cython.freelist(64)
@cython.no_gc
@cython.cclass
class WatchedKey:
    """A key that is watched, and the root of its circle; 0 before the first watcher came."""

    __slots__ = ("is_gone", "key", "root")

    key: Any
    root: int
    is_gone: bool  # from the dictionary: whoever has this one looks the key up again


class Watchers(Places):
    """The circles of all watched keys. Steps are raw unless it says otherwise."""

    __slots__ = ("_keys", "_spare", "graves", "links", "watched")

    def __init__(self) -> None:
        Places.__init__(self)
        self.links = numbers("i", 2)  # of place n: the next one in its circle at 2n, the one before
        self.watched = 0  # places in all circles, roots not counted
        self.graves: list[WatchedKey] = []  # keys that went; dropped outside the step
        self._keys: dict[Any, WatchedKey] = {}
        self._spare: WatchedKey | None = None

    # Outside any step: these may run code of the user's.

    def find(self, key: Any) -> WatchedKey | None:
        """The key's entry; None if nobody watches it."""
        return self._keys.get(key)

    def entry(self, key: Any) -> WatchedKey:
        """The key's entry, made if need be."""
        fresh, self._spare = self._spare, None  # one look-up instead of two
        if fresh is None:
            fresh = WatchedKey.__new__(WatchedKey)
            fresh.root = 0
            fresh.is_gone = False
        fresh.key = key
        entry = self._keys.setdefault(key, fresh)
        if entry is not fresh:
            fresh.key = None
            self._spare = fresh
        return entry

    def entries(self) -> list[WatchedKey]:
        """All entries there are."""
        return list(self._keys.values())

    def _enlarge(self, room: int) -> None:
        self.swap(numbers("i", 2 * room), numbers("i", room), references(room))

    # An atomic step.

    def swap(self, links: memoryview, siblings: memoryview, holders: Any) -> None:
        """Go on in these slabs, if they are still longer than the present ones."""
        if len(siblings) > len(self.siblings):
            for n in range(2 * self._used):
                links[n] = self.links[n]
            self.links = links
            self.adopt(siblings, holders)

    # The raw steps.

    def join(self, entry: WatchedKey, operation: DelayedOperation) -> bool:
        """Put the operation at the end of the key's circle; False if the key has gone meanwhile.

        There is room for two. An operation that came last already is not put in twice.
        """
        if entry.is_gone:
            return False
        root = entry.root
        if root == 0:
            root = self.take(entry)
            entry.root = root
            self.links[2 * root] = root
            self.links[2 * root + 1] = root
        last = self.links[2 * root + 1]
        if self.holders[last] is as_address(operation):
            return True
        place = self.take(operation)
        self.links[2 * place] = root
        self.links[2 * place + 1] = last
        self.links[2 * last] = place
        self.links[2 * root + 1] = place
        self.siblings[place] = operation._sj_places
        operation._sj_places = place
        self.watched += 1
        return True

    def leave(self, operation: DelayedOperation) -> None:
        """Take the operation, which the caller holds, out of all its circles."""
        place = operation._sj_places
        operation._sj_places = 0
        while place:
            sibling = self.siblings[place]
            after = self.links[2 * place]
            before = self.links[2 * place + 1]
            self.links[2 * before] = after
            self.links[2 * after + 1] = before
            self.give_back(place)
            self.watched -= 1
            if after == before:  # only the root is left
                self.remove(cython.cast(WatchedKey, at_address(self.holders[after])))
            place = sibling

    def remove_unused(self, entry: WatchedKey) -> None:
        """Remove a key that nobody came to watch after all."""
        if entry.root == 0 and not entry.is_gone:
            self.remove(entry)

    def remove(self, entry: WatchedKey) -> None:
        """Remove the key, whose circle is empty."""
        entry.is_gone = True
        if type(entry.key) is Key:  # dropping it may run code of the user's: not here
            self.graves.append(entry)
        remove_key(self._keys, entry.key)
        if entry.root:
            root = entry.root
            entry.root = 0
            self.give_back(root)

    def gather(self, entry: WatchedKey, operations: list[DelayedOperation]) -> bool:
        """List the operations on the key, in the order they came; False if it went meanwhile."""
        if entry.is_gone:
            return False
        if entry.root:
            place = self.links[2 * entry.root]
            while place != entry.root:
                operations.append(at_address(self.holders[place]))
                place = self.links[2 * place]
        return True

    def sample(self, start: int, count: int, operations: list[DelayedOperation]) -> int:
        """List up to `count` operations, by place from `start` on; return where to go on."""
        place = start
        looked_at = 1
        while looked_at < self._used and looked_at < 4 * count and len(operations) < count:
            if place <= 0 or place >= self._used:
                place = 1
            if self.holders[place] is not NOBODY:
                holder = at_address(self.holders[place])
                if isinstance(holder, DelayedOperation) and not (
                    operations and operations[len(operations) - 1] is holder
                ):
                    operations.append(holder)
            place += 1
            looked_at += 1
        return place

    def keys_of(self, operation: DelayedOperation, keys: list[Any]) -> None:
        """List the keys that the operation watches, so far as they are soon found."""
        place = operation._sj_places
        while place:
            here = place
            far = 0
            while far < _FAR:
                here = self.links[2 * here]
                holder = at_address(self.holders[here])
                if isinstance(holder, WatchedKey):
                    keys.append(user_key(cython.cast(WatchedKey, holder).key))
                    break
                far += 1
            place = self.siblings[place]


if not cython.compiled:
    GUARD.protect(Watchers, "swap")
