"""Progress: how far each key has come, and which operations wait for it to come further.

An operation that waits for progress has requirements, each a key and an offset, and needs some
number of them to hold. A requirement holds once its key's progress has reached its offset. Those
that do not hold yet stand in their key's tree, ordered by offset (forest.py); equal offsets
stand in the order they came. A signal cuts off what it satisfies and looks at nothing else:

    "p0", progress 7               signal("p0", 12)        cut off:  (9)  (12)
               (20)                                        left:     (20)
              /    \\                                                     \\
           (9)     (31)                                                   (31)
             \\
             (12)        a place in the tree, which leads to its operation

An operation counts what is missing. At zero it is completed within the same step, and its other
places leave their trees. In what order: by offset, then by submission.

The root of a tree knows its key: its parent is, below zero, the key's anchor, a place that the key
itself holds.

A key stays, with its progress, when nobody waits for it: a signal that comes first is never lost.
Keys that are idle for a stated time can be forgotten; their anchors form a chain, in which the
one that has been idle longest is the first.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from operator import index
from typing import Any

from sojourn._guard import GUARD
from sojourn.errors import OutOfRange, WrongType

if cython.compiled:
    from cython.cimports.sojourn.forest import Forest
    from cython.cimports.sojourn.keys import Key, as_key, remove_key
    from cython.cimports.sojourn.operation import COMPLETED, PENDING, DelayedOperation
    from cython.cimports.sojourn.places import NOBODY, Places, at_address, numbers, references
    from cython.cimports.sojourn.task import unlink
else:
    from sojourn.forest import Forest
    from sojourn.keys import Key, as_key, remove_key
    from sojourn.operation import COMPLETED, PENDING, DelayedOperation
    from sojourn.places import NOBODY, Places, at_address, numbers, references
    from sojourn.task import unlink

# What a place's parent says when the place is in no tree.
_HELD = -(2**31)  # its requirement holds
_CUT = -(2**31) + 1  # it was just cut off, and has not been looked at yet

_FORGET_AT_ONCE = 16  # keys at most


@cython.freelist(64)
@cython.no_gc
@cython.cclass
class ProgressKey:
    """A key's progress, and the tree of those who wait for more."""

    __slots__ = (
        "anchor",
        "has_progress",
        "idle_since_us",
        "is_gone",
        "key",
        "least",
        "progress",
        "root",
    )

    key: Any
    anchor: int  # a place of its own, by which the tree knows it; 0 if it needs none
    root: int
    least: int  # no offset in the tree is below this
    progress: int  # if `has_progress`
    has_progress: bool
    is_gone: bool  # from the dictionary: whoever has this one looks the key up again
    idle_since_us: int


class Progress(Places):
    """The progress of all keys. Steps are raw unless it says otherwise."""

    __slots__ = ("_forest", "_idle", "_keys", "_spare", "forgets", "graves", "watched")

    def __init__(self, forgets: bool) -> None:
        Places.__init__(self)
        self.forgets = forgets  # whether idle keys are chained
        self.watched = 0  # places in all trees
        self.graves: list[ProgressKey] = []  # keys that went; dropped outside the step
        self._forest = Forest()
        self._spare: ProgressKey | None = None
        self._keys: dict[Any, ProgressKey] = {}
        self._idle = 0  # the anchor at which the chain of idle keys begins and ends
        if forgets:
            self.reserve(1)
            first = _new_entry(None)
            self._take_anchor(first)
            self._idle = first.anchor

    # Outside any step: these may run code of the user's.

    def find(self, key: Any) -> ProgressKey | None:
        """The key's entry; None if it is not known."""
        return self._keys.get(key)

    def entry(self, key: Any) -> ProgressKey:
        """The key's entry, made if need be."""
        fresh, self._spare = self._spare, None  # one look-up instead of two
        if fresh is None:
            fresh = _new_entry(key)
        fresh.key = key
        entry = self._keys.setdefault(key, fresh)
        if entry is not fresh:
            fresh.key = None
            self._spare = fresh
        return entry

    def same_key(self, entry: ProgressKey) -> ProgressKey:
        """The entry of the same key; another one if this one has gone."""
        return self.entry(entry.key) if entry.is_gone else entry

    def entries(self) -> list[ProgressKey]:
        """All entries there are."""
        return list(self._keys.values())

    def known_keys(self) -> int:
        """How many keys are known."""
        return len(self._keys)

    def _enlarge(self, room: int) -> None:
        self.swap(Forest(room - 1), numbers("i", room), references(room))

    # An atomic step.

    def swap(self, forest: Forest, siblings: memoryview, holders: Any) -> None:
        """Go on in these slabs, if they are still longer than the present ones."""
        if len(siblings) > len(self.siblings):
            self._forest.adopt(forest)
            self.adopt(siblings, holders)

    # The raw steps.

    def count_holding(self, requires: list[Any]) -> int:
        """How many of the requirements hold; -1 if one of the keys has gone meanwhile.

        `requires` are entries and offsets by turns.
        """
        holding = 0
        n = 0
        while n < len(requires):
            entry: ProgressKey = requires[n]
            offset: int = requires[n + 1]
            if entry.is_gone:
                return -1
            if entry.has_progress and entry.progress >= offset:
                holding += 1
            n += 2
        return holding

    def join(self, operation: DelayedOperation, requires: list[Any]) -> None:
        """Put those of the operation's requirements that do not hold into their trees."""
        n = 0
        while n < len(requires):
            entry: ProgressKey = requires[n]
            offset: int = requires[n + 1]
            n += 2
            if entry.has_progress and entry.progress >= offset:
                continue
            place = self.take(operation)
            self.siblings[place] = operation._sj_places
            operation._sj_places = place
            if entry.root == 0:
                self._take_anchor(entry)
                entry.least = offset
                entry.root = self._forest.insert(0, place, offset)
                self._forest.parents[place] = -entry.anchor
            else:
                entry.least = min(entry.least, offset)
                entry.root = self._forest.insert(entry.root, place, offset)
            self.watched += 1

    def advance(
        self, entry: ProgressKey, offset: int, now_us: int, ended: list[DelayedOperation]
    ) -> bool:
        """Move the key's progress up to the offset, and complete what that satisfies.

        False if the key has gone meanwhile, or there is no room. What is completed goes to
        `ended`, and is the caller's to finish; its other places have left their trees.
        """
        if entry.is_gone:
            return False
        if self.forgets and entry.root == 0:
            if entry.anchor == 0 and not self.has_room(1):
                return False
            self._take_anchor(entry)
            self._set_idle(entry, now_us)
        if entry.has_progress and offset <= entry.progress:
            return True
        entry.progress = offset  # first: it is read outside any step too
        entry.has_progress = True
        if entry.root == 0 or offset < entry.least:
            return True
        forest = self._forest
        entry.root = forest.cut(entry.root, offset)
        cut_off = forest.unfold(forest.cut_off)
        if entry.root:
            entry.least = forest.keys[forest.first(entry.root)]
        else:
            self._set_free(entry, now_us)
        place = cut_off
        while place:
            forest.parents[place] = _CUT
            self.watched -= 1
            place = forest.links[2 * place + 1]
        place = cut_off
        while place:
            after = forest.links[2 * place + 1]
            if self.holders[place] is NOBODY:  # its operation was completed on the way here
                self.give_back(place)
            else:
                forest.parents[place] = _HELD
                operation = cython.cast(DelayedOperation, at_address(self.holders[place]))
                if operation._sj_state == PENDING:  # or else whoever ended it takes it out
                    operation._sj_missing -= 1
                    if operation._sj_missing == 0:
                        operation._sj_state = COMPLETED
                        operation._sj_ended_in_try = False
                        if operation._sj_list is not None:
                            unlink(operation)
                        ended.append(operation)
                        self.leave(operation, now_us)
            place = after
        return True

    def leave(self, operation: DelayedOperation, now_us: int) -> None:
        """Take all places of the operation, which the caller holds, out of their trees."""
        forest = self._forest
        place = operation._sj_places
        operation._sj_places = 0
        operation._sj_missing = 0
        while place:
            sibling = self.siblings[place]
            parent = forest.parents[place]
            if parent == _CUT:
                self.release(place)  # whoever goes through what was cut off frees it
            else:
                if parent != _HELD:
                    self.watched -= 1
                    if parent > 0:
                        forest.remove(0, place)
                    else:
                        self._leave_root(place, -parent, now_us)
                self.give_back(place)
            place = sibling

    def _leave_root(self, place: int, anchor: int, now_us: int) -> None:
        entry = cython.cast(ProgressKey, at_address(self.holders[anchor]))
        entry.root = self._forest.remove(entry.root, place)
        if entry.root == 0:
            if entry.has_progress:
                self._set_free(entry, now_us)
            else:
                self.remove(entry)

    def remove_unused(self, requires: list[Any]) -> None:
        """Remove the keys among these entries that have neither progress nor anybody waiting.

        If the look-up of a key raised, what follows is still keys.
        """
        n = 0
        while n < len(requires) and isinstance(requires[n], ProgressKey):
            entry: ProgressKey = requires[n]
            if entry.root == 0 and not entry.has_progress and not entry.is_gone:
                self.remove(entry)
            n += 2

    def forget(self, before_us: int) -> None:
        """Remove keys that have been idle since before then; a few at a time."""
        for _ in range(_FORGET_AT_ONCE):
            anchor = self._forest.links[2 * self._idle]
            entry = cython.cast(ProgressKey, at_address(self.holders[anchor]))
            if anchor == self._idle or entry.idle_since_us >= before_us:
                break
            self.remove(entry)

    def remove(self, entry: ProgressKey) -> None:
        """Remove the key, for which nobody waits."""
        entry.is_gone = True
        if type(entry.key) is Key:  # dropping it may run code of the user's: not here
            self.graves.append(entry)
        remove_key(self._keys, entry.key)
        self._give_anchor_back(entry)

    def gather(self, entry: ProgressKey, operations: list[DelayedOperation]) -> None:
        """List the operations that wait for the key, by offset, then by submission."""
        if entry.root:
            place = self._forest.first(entry.root)
            while place:
                operations.append(at_address(self.holders[place]))
                place = self._forest.after(place)

    def _take_anchor(self, entry: ProgressKey) -> None:
        """Give the entry an anchor, if it has none; and take it off the chain of idle keys."""
        if entry.anchor:
            self._set_busy(entry.anchor)
        else:
            anchor = self.take(entry)
            entry.anchor = anchor
            self._forest.links[2 * anchor] = anchor
            self._forest.links[2 * anchor + 1] = anchor

    def _give_anchor_back(self, entry: ProgressKey) -> None:
        anchor = entry.anchor
        if anchor:
            self._set_busy(anchor)
            entry.anchor = 0
            self.give_back(anchor)

    def _set_free(self, entry: ProgressKey, now_us: int) -> None:
        """Nobody waits for the key any more, which has progress."""
        if self.forgets:
            self._set_idle(entry, now_us)
        else:
            self._give_anchor_back(entry)

    def _set_idle(self, entry: ProgressKey, now_us: int) -> None:
        """Put the entry, which has an anchor, at the end of the chain of idle keys."""
        links = self._forest.links
        anchor = entry.anchor
        self._set_busy(anchor)
        entry.idle_since_us = now_us
        last = links[2 * self._idle + 1]
        links[2 * anchor] = self._idle
        links[2 * anchor + 1] = last
        links[2 * last] = anchor
        links[2 * self._idle + 1] = anchor

    def _set_busy(self, anchor: int) -> None:
        """Take the anchor off the chain of idle keys, if it is on it."""
        links = self._forest.links
        after = links[2 * anchor]
        before = links[2 * anchor + 1]
        links[2 * before] = after
        links[2 * after + 1] = before
        links[2 * anchor] = anchor
        links[2 * anchor + 1] = anchor


def _new_entry(key: Any) -> ProgressKey:
    entry = ProgressKey.__new__(ProgressKey)
    entry.key = key
    entry.anchor = 0
    entry.root = 0
    entry.least = 0
    entry.progress = 0
    entry.has_progress = False
    entry.is_gone = False
    entry.idle_since_us = 0
    return entry


def checked_offset(offset: Any) -> int:
    """Return the offset as an integer of 64 bits, or say what is wrong with it."""
    try:
        number: int = offset if type(offset) is int else index(offset)
    except TypeError:
        raise WrongType(
            f"an offset must be an integer, got {offset!r} ({type(offset).__name__}); "
            "for something that happens once, use 1"
        ) from None
    except OverflowError:  # compiled: beyond 64 bits
        raise _too_large(offset) from None
    if not cython.compiled and not -(2**63) <= number < 2**63:
        raise _too_large(offset)
    return number


def checked_requires(requires: Any) -> list[Any]:
    """Return keys and offsets by turns, or say what is wrong with the requirements."""
    if type(requires) is not list and type(requires) is not tuple:
        try:
            requires = list(requires)
        except TypeError:
            raise WrongType(f"requires must be a list of (key, offset), got {requires!r}") from None
    if not requires:
        raise OutOfRange("requires is empty: there is nothing to wait for; give (key, offset)")
    checked: list[Any] = [None] * (2 * len(requires))
    n = 0
    for requirement in requires:
        if type(requirement) is not tuple:
            try:
                requirement = tuple(requirement)
            except TypeError:
                raise _not_a_requirement(requirement) from None
        if len(requirement) != 2:
            raise _not_a_requirement(requirement)
        checked[n] = as_key(requirement[0])
        offset = requirement[1]
        number = checked_offset(offset)
        checked[n + 1] = offset if type(offset) is int else number
        n += 2
    return checked


def checked_needed(needed: Any, count: int) -> int:
    """Return how many of `count` requirements are needed, or say what is wrong with that."""
    if needed is None:
        return count
    try:
        number = needed if type(needed) is int else index(needed)
    except TypeError:
        raise WrongType(f"needed must be an integer, got {needed!r}; None means all") from None
    if not 1 <= number <= count:
        raise OutOfRange(
            f"needed must be between 1 and the number of requirements, {count}, got {needed}; "
            "None means all"
        )
    return number


def _too_large(offset: Any) -> OutOfRange:
    return OutOfRange(f"an offset must fit into 64 bits, got {offset}")


def _not_a_requirement(requirement: Any) -> WrongType:
    return WrongType(f"a requirement must be (key, offset), got {requirement!r}")


if not cython.compiled:
    GUARD.protect(Progress, "swap")
