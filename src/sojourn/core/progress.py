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

Between two steps no object is made either: a chain of places, as siblings, leads from one to the
next. The requirements of an incoming operation stand in places that their keys hold, from the
look-up of the first key to the step in which they join their trees:

    incoming -> (p0, 9) -> (p7, 4) -> 0                look-ups may run code of the user's

The operations that a signal has completed stand in the places in which it found them, from that
step to their callbacks:

    ended -> op 3 -> op 8 -> 0

The root of a tree leads to its key: the number of its parent is negative, and stands for the key's
anchor, a place that the key itself holds.

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

from sojourn.core.guard import GUARD
from sojourn.errors import OutOfRange, WrongType

if cython.compiled:
    from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
else:
    from sojourn.core.forest import Forest
    from sojourn.core.keys import Key, as_key, is_plain, remove_key
    from sojourn.core.operation import COMPLETED, PENDING, DelayedOperation
    from sojourn.core.places import NOBODY, Places, at_address, numbers, references
    from sojourn.core.task import unlink

if not cython.compiled:  # which has them as constants of C, in the .pxd
    # What a place's parent says when the place is in no tree.
    _HELD = -(2**31)  # its requirement holds
    _CUT = -(2**31) + 1  # it was just cut off, and has not been looked at yet
    _INCOMING = -(2**31) + 2  # its operation does not wait yet

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

    __slots__ = ("_forest", "_idle", "_keys", "forgets", "removed", "watched")

    def __init__(self, forgets: bool) -> None:
        Places.__init__(self)
        self.forgets = forgets  # whether idle keys are chained
        self.watched = 0  # places in all trees
        self.removed: list[ProgressKey] = []  # keys to drop after the step
        self._forest = Forest()
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
        entry: Any = self._keys.get(key)
        if entry is None:
            entry = self._keys.setdefault(key, _new_entry(key))
        return cython.cast(ProgressKey, entry)  # type: ignore[no-any-return]

    def entries(self) -> list[ProgressKey]:
        """All entries there are."""
        return list(self._keys.values())

    def known_keys(self) -> int:
        """How many keys are known."""
        return len(self._keys)

    def _enlarge(self, room: int) -> None:
        self.swap(Forest(room - 1), numbers("i", room), references(room))

    # The atomic steps.

    def prepend(self, entry: ProgressKey, offset: int, incoming: int) -> int:
        """Put a requirement before the chain of incoming ones; 0 if there is no room."""
        if not self.has_room(1):
            return 0
        place = self.take(entry)
        self._forest.keys[place] = offset
        self._forest.parents[place] = _INCOMING
        self.siblings[place] = incoming
        return place

    def swap(self, forest: Forest, siblings: memoryview, holders: Any) -> None:
        """Go on in these slabs, if they are still longer than the present ones."""
        if len(siblings) > len(self.siblings):
            self._forest.adopt(forest)
            self.adopt(siblings, holders)

    # The raw steps.

    def count_holding(self, incoming: int) -> int:
        """How many of the incoming requirements hold; -1 if one of the keys has gone meanwhile."""
        holding = 0
        place = incoming
        while place:
            entry = cython.cast(ProgressKey, at_address(self.holders[place]))
            if entry.is_gone:
                return -1
            if entry.has_progress and entry.progress >= self._forest.keys[place]:
                holding += 1
            place = self.siblings[place]
        return holding

    def join(self, operation: DelayedOperation, incoming: int) -> None:
        """Put the operation into the trees of those requirements that do not hold.

        There is room for an anchor for each.
        """
        forest = self._forest
        while incoming:
            place = incoming
            incoming = self.siblings[place]
            entry = cython.cast(ProgressKey, at_address(self.holders[place]))
            offset = forest.keys[place]
            if entry.has_progress and entry.progress >= offset:
                forest.parents[place] = _HELD
                self.give_back(place)
                continue
            self.hand_over(place, operation)
            self.siblings[place] = operation._sj_places
            operation._sj_places = place
            if entry.root == 0:
                self._take_anchor(entry)
                entry.least = offset
                entry.root = forest.insert(0, place, offset)
                forest.parents[place] = -entry.anchor
            else:
                entry.least = min(entry.least, offset)
                entry.root = forest.insert(entry.root, place, offset)
            self.watched += 1

    def withdraw(self, incoming: int) -> None:
        """Give back the places of the incoming requirements.

        Keys among them that have neither progress nor anybody waiting are removed. Interpreted,
        Ctrl-C may have come between a step and the note that it is done: then they have joined.
        """
        while incoming and self._forest.parents[incoming] == _INCOMING:
            place = incoming
            incoming = self.siblings[place]
            entry = cython.cast(ProgressKey, at_address(self.holders[place]))
            if entry.is_gone:
                if type(entry.key) is Key:  # dropping it may run code of the user's: not here
                    self.removed.append(entry)
            elif entry.root == 0 and not entry.has_progress:
                self.remove(entry)
            self._forest.parents[place] = _HELD
            self.give_back(place)

    def advance(self, entry: ProgressKey, offset: int, now_us: int) -> int:
        """Move the key's progress up to the offset, and complete what that satisfies.

        -1 if the key has gone meanwhile, or there is no room; else the chain of what is completed,
        which is the caller's to finish and to `pop`. Its other places have left their trees.
        """
        if entry.is_gone:
            return -1
        if self.forgets and entry.root == 0:
            if entry.anchor == 0 and not self.has_room(1):
                return -1
            self._take_anchor(entry)
            self._set_idle(entry, now_us)
        if entry.has_progress and offset <= entry.progress:
            return 0
        entry.progress = offset  # first: it is read outside any step too
        entry.has_progress = True
        if entry.root == 0 or offset < entry.least:
            return 0
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
        ended = 0
        last = 0
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
                        self.leave(operation, place, now_us)
                        self.siblings[place] = 0
                        if last:
                            self.siblings[last] = place
                        else:
                            ended = place
                        last = place
            place = after
        return ended

    def pop(self, ended: int) -> DelayedOperation:
        """Give the first place of the chain back; return the operation that holds it."""
        operation: DelayedOperation = cython.cast(DelayedOperation, at_address(self.holders[ended]))
        self.give_back(ended)
        return operation

    def leave(self, operation: DelayedOperation, kept: int, now_us: int) -> None:
        """Take all places of the operation but one, or 0, out of their trees.

        The caller holds the operation, or it holds the place that is kept.
        """
        forest = self._forest
        place = operation._sj_places
        operation._sj_places = 0
        operation._sj_missing = 0
        while place:
            sibling = self.siblings[place]
            parent = forest.parents[place]
            if parent == _CUT:
                self.release(place)  # whoever goes through what was cut off frees it
            elif place != kept:
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
            self.removed.append(entry)
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
    if cython.compiled and type(offset) is int:  # to be ready to catch an error costs more
        overflow = 0
        number = PyLong_AsLongLongAndOverflow(offset, cython.address(overflow))
        if overflow == 0:
            return number  # type: ignore[no-any-return]
    return _as_offset(offset)


def _as_offset(offset: Any) -> int:
    try:
        number = index(offset)
    except TypeError:
        raise WrongType(
            f"an offset must be an integer, got {offset!r} ({type(offset).__name__}); "
            "for something that happens once, use 1"
        ) from None
    if not -(2**63) <= number < 2**63:
        raise OutOfRange(f"an offset must fit into 64 bits, got {offset}")
    return number


def checked_requires(requires: Any) -> Any:
    """Return the requirements as a tuple of (key, offset), or say what is wrong with them.

    Keys are as `as_key` returns them, offsets are integers of 64 bits. A tuple in which they are
    so already is returned itself.
    """
    if type(requires) is not tuple:
        try:
            requires = tuple(requires)
        except TypeError:
            raise WrongType(f"requires must be a list of (key, offset), got {requires!r}") from None
    pairs: tuple[Any, ...] = requires
    if not pairs:
        raise OutOfRange("requires is empty: there is nothing to wait for; give (key, offset)")
    for n in range(len(pairs)):
        if not _is_checked(pairs[n]):
            return tuple([_checked_pair(pair) for pair in pairs])
    return pairs


def _is_checked(requirement: Any) -> bool:
    """Whether it is a tuple of a plain key and an integer of 64 bits."""
    if type(requirement) is not tuple:
        return False
    pair: tuple[Any, ...] = requirement
    if len(pair) != 2 or not is_plain(pair[0]) or type(pair[1]) is not int:
        return False
    if cython.compiled:
        overflow = 0
        PyLong_AsLongLongAndOverflow(pair[1], cython.address(overflow))
        return overflow == 0
    return -(2**63) <= pair[1] < 2**63


def _checked_pair(requirement: Any) -> tuple[Any, int]:
    try:
        pair = tuple(requirement)
    except TypeError:
        raise _not_a_requirement(requirement) from None
    if len(pair) != 2:
        raise _not_a_requirement(pair)
    return as_key(pair[0]), checked_offset(pair[1])


def checked_needed(needed: Any, count: int) -> int:
    """Return how many of `count` requirements are needed, or say what is wrong with that."""
    if needed is None:
        return count
    if cython.compiled and type(needed) is int:
        overflow = 0
        number = PyLong_AsLongLongAndOverflow(needed, cython.address(overflow))
        if overflow == 0 and 1 <= number <= count:
            return number  # type: ignore[no-any-return]
    return _as_needed(needed, count)


def _as_needed(needed: Any, count: int) -> int:
    try:
        number = index(needed)
    except TypeError:
        raise WrongType(f"needed must be an integer, got {needed!r}; None means all") from None
    if not 1 <= number <= count:
        raise OutOfRange(
            f"needed must be between 1 and the number of requirements, {count}, got {needed}; "
            "None means all"
        )
    return number


def _not_a_requirement(requirement: Any) -> WrongType:
    return WrongType(f"a requirement must be (key, offset), got {requirement!r}")


if not cython.compiled:
    GUARD.protect(Progress, "prepend", "swap")
