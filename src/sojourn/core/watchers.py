"""The watchers: which operations watch which keys.

The places of a key form a circle, in the order they came; the key's entry knows the first:

    "a" -> entry -> op 1 <-> op 2 <-> op 3 <-> (op 1)
    "b" -> entry -> op 2 <-> (op 2)
                      |
                      +--- op 2's places are chained as siblings (places.py)

An operation that ends leaves every circle at once, along its own chain. A key whose last place
is left is removed. So what has ended is never kept or counted, and there is nothing to purge.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

from sojourn.core.guard import GUARD

if not cython.compiled:
    from sojourn.core.keys import Key, remove_key, user_key
    from sojourn.core.operation import DelayedOperation
    from sojourn.core.places import NOBODY, Places, as_address, at_address, numbers, references


@cython.freelist(64)
@cython.no_gc
@cython.cclass
class WatchedKey:
    """A key that is watched, and its first place; 0 before the first watcher came."""

    __slots__ = ("first", "is_gone", "key")

    key: Any
    first: int
    is_gone: bool  # from the dictionary: whoever has this one looks the key up again


class Watchers(Places):
    """The circles of all watched keys. Steps are raw unless it says otherwise."""

    __slots__ = ("_keys", "_spare", "following", "keys", "preceding", "removed", "watched")

    def __init__(self) -> None:
        Places.__init__(self)
        self.following = numbers("i", 1)  # the next place in its circle
        self.preceding = numbers("i", 1)  # the one before
        self.keys = references(1)  # the key's entry, which is not counted as a reference
        self.watched = 0  # places in all circles
        self.removed: list[WatchedKey] = []  # keys to drop after the step
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
            fresh.first = 0
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
        # One record a place, of half a cache line, for a busy purgatory's places are in none:
        #   holder (8 bytes) | key (8) | following, preceding, sibling (4 each) | unused (4)
        slab = numbers("i", 8 * room)
        if cython.compiled:
            wide = slab.cast("B").cast("q")
            holders, keys = wide[0::4], wide[1::4]
        else:
            holders, keys = references(room), references(room)
        self.swap(slab[4::8], slab[5::8], slab[6::8], holders, keys)

    # An atomic step.

    def swap(
        self,
        following: memoryview,
        preceding: memoryview,
        siblings: memoryview,
        holders: Any,
        keys: Any,
    ) -> None:
        """Go on in these slabs, if they are still longer than the present ones."""
        if len(siblings) > len(self.siblings):
            for n in range(self._used):
                following[n] = self.following[n]
                preceding[n] = self.preceding[n]
                keys[n] = self.keys[n]
            self.following = following
            self.preceding = preceding
            self.keys = keys
            self.adopt(siblings, holders)

    # The raw steps.

    def join(self, entry: WatchedKey, operation: DelayedOperation) -> bool:
        """Put the operation at the end of the key's circle; False if the key has gone meanwhile.

        There is room for one. An operation that came last already is not put in twice.
        """
        if entry.is_gone:
            return False
        first = entry.first
        if first and self.holders[self.preceding[first]] is as_address(operation):
            return True
        place = self.take(operation)
        self.keys[place] = as_address(entry)
        if first:
            last = self.preceding[first]
        else:
            entry.first = first = last = place
        self.following[place] = first
        self.preceding[place] = last
        self.following[last] = place
        self.preceding[first] = place
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
            entry = cython.cast(WatchedKey, at_address(self.keys[place]))
            self.keys[place] = NOBODY  # interpreted it would keep the key alive
            after = self.following[place]
            if after == place:  # it was the last
                self.remove(entry)
            else:
                before = self.preceding[place]
                self.following[before] = after
                self.preceding[after] = before
                if entry.first == place:
                    entry.first = after
            self.give_back(place)
            self.watched -= 1
            place = sibling

    def remove_unused(self, entry: WatchedKey) -> None:
        """Remove a key that nobody came to watch after all."""
        if entry.first == 0 and not entry.is_gone:
            self.remove(entry)

    def remove(self, entry: WatchedKey) -> None:
        """Remove the key, which nobody watches any more."""
        entry.is_gone = True
        entry.first = 0
        if type(entry.key) is Key:  # dropping it may run code of the user's: not here
            self.removed.append(entry)
        remove_key(self._keys, entry.key)

    def gather(self, entry: WatchedKey, operations: list[DelayedOperation]) -> bool:
        """List the operations on the key, in the order they came; False if it went meanwhile."""
        if entry.is_gone:
            return False
        place = entry.first
        while place:
            operations.append(at_address(self.holders[place]))
            place = self.following[place]
            if place == entry.first:
                break
        return True

    def sample(self, start: int, count: int, operations: list[DelayedOperation]) -> int:
        """List up to `count` operations, by place from `start` on; return where to go on."""
        place = start
        looked_at = 1
        while looked_at < self._used and looked_at < 4 * count and len(operations) < count:
            if place <= 0 or place >= self._used:
                place = 1
            if self.holders[place] is not NOBODY:
                operation = at_address(self.holders[place])
                if not (operations and operations[len(operations) - 1] is operation):
                    operations.append(operation)
            place += 1
            looked_at += 1
        return place

    def keys_of(self, operation: DelayedOperation, keys: list[Any]) -> None:
        """List the keys that the operation watches."""
        place = operation._sj_places
        while place:
            keys.append(user_key(cython.cast(WatchedKey, at_address(self.keys[place])).key))
            place = self.siblings[place]


if not cython.compiled:
    GUARD.protect(Watchers, "swap")
