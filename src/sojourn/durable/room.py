"""The waiting room: which operations wait, how far each key has come, and when deadlines are.

An operation has a place for each of its requirements. While the requirement does not hold, the
place stands in its key's tree, ordered by offset (forest.py):

    "order-7"  waiting.place -> 4 -> 9 -> 0         siblings: the places of one operation
                                |    |
                              "paid" "stock"        the key of each: a tree, or _HELD

    "stock"    progress 40      (9: offset 50)      who waits for more
                                /            \\
                       (3: offset 41)    (5: offset 60)

So a signal walks the tree of its key up to where the key moves, and looks at nothing else.
Deadlines are on a wheel, by handle; `_by_slot` leads from a handle back to its operation.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from array import array
from heapq import nlargest
from itertools import islice
from typing import Any

from sojourn.core.deadlines import DeadlineWheel
from sojourn.durable.answers import Operation
from sojourn.durable.records import write_parked

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.libc.string import memcpy
    from cython.cimports.sojourn.core.collector import PyObject_GC_UnTrack
    from cython.cimports.sojourn.durable._bytes import put
else:
    from sojourn.core.forest import Forest
    from sojourn.core.places import numbers
    from sojourn.durable.submissions import Submission, read_submission
    from sojourn.durable.waiting import KeyProgress, Waiting, as_operation, new_key

_HELD = -1  # in place of a parent: the requirement holds, the place is in no tree
_SLOT = 2**32 - 1  # of a handle
_LOOKS = 10_000  # at places, to find the busiest keys


class WaitingRoom:
    """Who waits, and for what. Not for several threads, but for `get` and `progress`."""

    def __init__(self) -> None:
        self.time_ms = -1  # of the last batch
        self._waiting: dict[str, Waiting] = {}
        self._keys: dict[str, KeyProgress] = {}
        self._idle: dict[str, None] = {}  # keys with progress and nobody waiting, oldest first
        self._wheel = DeadlineWheel()
        self._by_slot: list[Any] = []  # of the wheel
        self._forest = Forest(63)
        self._siblings = numbers("i", 64)
        self._holders: list[Any] = [None] * 64
        self._free = 0
        self._used = 1
        self._looked = 0  # where `busiest_keys` goes on
        if cython.compiled:  # they lead to no other object, and get very long
            PyObject_GC_UnTrack(self._holders)
            PyObject_GC_UnTrack(self._by_slot)

    def __len__(self) -> int:
        """How many operations wait."""
        return len(self._waiting)

    @property
    def known_keys(self) -> int:
        """How many keys are known."""
        return len(self._keys)

    def get(self, id: str) -> Operation | None:
        """The operation, if it waits. Any thread."""
        waiting = self._waiting.get(id)
        return None if waiting is None else as_operation(waiting)

    def progress(self, key: str) -> int | None:
        """How far the key has come; None if nothing is known of it. Any thread."""
        entry = self._keys.get(key)
        return entry.progress if entry is not None and entry.has_progress else None

    # Looking, between batches.

    def oldest(self, limit: int) -> list[Operation]:
        """Those that have waited longest."""
        return [as_operation(waiting) for waiting in islice(self._waiting.values(), limit)]

    def waiting_on(self, key: str, limit: int) -> list[Operation]:
        """Those with a requirement on the key that does not hold, by offset and submission."""
        entry: KeyProgress = self._keys.get(key)  # type: ignore[assignment]
        operations: dict[int, Operation] = {}  # one may wait for two offsets
        if entry is not None and entry.root:
            place = self._forest.first(entry.root)
            while place and len(operations) < limit:
                waiting: Waiting = self._holders[place]
                if waiting.number not in operations:
                    operations[waiting.number] = as_operation(waiting)
                place = self._forest.after(place)
        return list(operations.values())

    def waiting_count(self, key: str) -> int:
        """How many requirements on the key do not hold."""
        entry: KeyProgress = self._keys.get(key)  # type: ignore[assignment]
        return 0 if entry is None else entry.unmet

    def busiest_keys(self, limit: int) -> list[tuple[str, int]]:
        """Keys and how many requirements on them do not hold, the most first.

        The counts are exact. With up to 10,000 places in use so is the choice of keys. With more,
        that many are looked at, spread evenly and elsewhere each time: a key that has one in a
        hundred of the requirements is always found, one in a thousand nearly always.
        """
        counts: dict[str, int] = {}
        used = self._used - 1  # places 1 to used
        looks = min(used, _LOOKS)
        # Steps of the golden ratio come to each part of the slab equally often, whatever repeats
        # in it; with a step of 1 all places are looked at.
        step = 1 if looks == used else used * 0.6180339887498949
        for n in range(looks):
            place = 1 + int(self._looked + n * step) % used
            waiting: Waiting = self._holders[place]
            if waiting is None or self._forest.parents[place] == _HELD:
                continue
            key = self._key_of(place, waiting)
            if key not in counts:
                entry: KeyProgress = self._keys[key]
                counts[key] = entry.unmet
        self._looked = (self._looked + looks) % (used or 1)
        return nlargest(limit, counts.items(), key=_by_count)

    def _key_of(self, place: int, waiting: Waiting) -> str:
        """The key of the requirement that has this place."""
        requires = read_submission(waiting.content).requires
        n = 0
        here = waiting.place
        while here != place:
            here = self._siblings[here]
            n += 2
        return requires[n]  # type: ignore[no-any-return]

    def wheel(self) -> list[tuple[int, list[int]]]:
        """Of each level of the wheel its tick, and how many wait in each bucket.

        Finest level first, and in a level the bucket of the wheel's own time first.
        """
        return self._wheel.levels()

    # Coming and leaving, when a plan is applied.

    def _park(self, arrivals: list[Submission]) -> None:
        """Let them wait."""
        forest = self._forest
        all_waiting = self._waiting
        deadlines_ms = array("q", bytes(8 * len(arrivals)))
        deadlines = memoryview(deadlines_ms)
        for count, submission_ in enumerate(arrivals):
            submission: Submission = submission_
            waiting: Waiting = submission.waiting
            all_waiting[submission.id] = waiting
            deadlines[count] = waiting.deadline_ms
            requires = submission.requires
            n = len(requires)
            while n:
                n -= 2
                key = requires[n]
                entry = self._entry(key)
                if entry.waiters == 0 and entry.has_progress:
                    self._idle.pop(key, None)
                entry.waiters += 1
                place = self._take_place()
                self._holders[place] = waiting
                self._siblings[place] = waiting.place
                waiting.place = place
                if entry.has_progress and entry.progress >= requires[n + 1]:
                    forest.parents[place] = _HELD
                else:
                    entry.root = forest.insert(entry.root, place, requires[n + 1])
                    entry.unmet += 1
        handles = memoryview(self._wheel.add_many(deadlines_ms))
        by_slot = self._by_slot
        for count, submission_ in enumerate(arrivals):
            submission = submission_
            waiting = submission.waiting
            waiting.handle = handles[count]
            slot = waiting.handle & _SLOT
            while slot >= len(by_slot):
                by_slot.append(None)
            by_slot[slot] = waiting

    def _take_place(self) -> Any:
        place = self._free
        if place:
            self._free = self._siblings[place]
            return place
        place = self._used
        if place == len(self._siblings):
            room = place + place // 2
            self._forest.reserve(room)
            siblings = numbers("i", room)
            siblings[:place] = self._siblings
            self._siblings = siblings
            self._holders.extend([None] * (room - place))
        self._used += 1
        return place

    def _entry(self, key: str) -> KeyProgress:
        entry: KeyProgress = self._keys.get(key)  # type: ignore[assignment]
        if entry is None:
            entry = new_key()
            self._keys[key] = entry
        return entry

    def _remove(self, ended: list[Submission], time_ms: int) -> None:
        """Take what ended out of everything."""
        handles = []
        for submission_ in ended:
            submission: Submission = submission_
            waiting: Waiting = submission.waiting
            waiting.is_over = True
            if waiting.place == 0:  # it came with this batch, and never waited
                continue
            del self._waiting[submission.id]
            if waiting.handle >= 0:
                handles.append(waiting.handle)
                self._by_slot[waiting.handle & _SLOT] = None
            self._release_places(waiting, submission.requires, time_ms)
        if handles:
            self._wheel.cancel_many(array("q", handles))

    def _release_places(self, waiting: Waiting, requires: tuple[Any, ...], time_ms: int) -> None:
        """Give its places back."""
        forest = self._forest
        place = waiting.place
        waiting.place = 0
        n = 0
        while place:
            key = requires[n]
            entry: KeyProgress = self._keys[key]
            sibling = self._siblings[place]
            if forest.parents[place] != _HELD:
                entry.root = forest.remove(entry.root, place)
                entry.unmet -= 1
            self._holders[place] = None
            self._siblings[place] = self._free
            self._free = place
            entry.waiters -= 1
            if entry.waiters == 0:
                if entry.has_progress:
                    entry.idle_since_ms = time_ms
                    self._idle[key] = None
                else:
                    del self._keys[key]
            place = sibling
            n += 2

    def _advance(self, key: str, offset: int, time_ms: int) -> None:
        """Move a key; those who waited for that, and still wait, miss less."""
        forest = self._forest
        entry = self._entry(key)
        entry.has_progress = True
        entry.progress = offset
        if entry.waiters == 0:
            entry.idle_since_ms = time_ms
            self._idle.pop(key, None)
            self._idle[key] = None
        elif entry.root:
            entry.root = forest.cut(entry.root, offset)
            place = forest.unfold(forest.cut_off)
            while place:
                after = forest.links[2 * place + 1]
                forest.parents[place] = _HELD
                entry.unmet -= 1
                waiting: Waiting = self._holders[place]
                waiting.missing -= 1
                place = after

    def _take_off_wheel(self, handles: array[int]) -> list[Waiting]:
        """What became due, by deadline and submission."""
        due = []
        is_sorted = True
        deadline_ms = number = 0
        for handle in handles:
            slot = handle & _SLOT
            waiting: Waiting = self._by_slot[slot]
            self._by_slot[slot] = None
            waiting.handle = -1
            waiting.is_overdue = True
            if waiting.deadline_ms == deadline_ms and waiting.number < number:
                is_sorted = False
            deadline_ms, number = waiting.deadline_ms, waiting.number
            due.append(waiting)
        if not is_sorted:  # of one deadline, some came from a coarser level than others
            due.sort(key=_by_deadline)
        return due

    # Snapshots.

    def parked(self) -> list[Any]:
        """All that waits, in the order of submission, for `write_parked`."""
        waiting = list(self._waiting.values())
        if cython.compiled:
            PyObject_GC_UnTrack(waiting)  # it leads to nothing else, and is long
        return waiting

    def write_parked(self, waiting: list[Any]) -> bytes:
        """A part of a snapshot: those of `parked` that have not ended since."""
        if cython.compiled:
            size = 4
            count = 0
            for each_ in waiting:
                each: Waiting = each_
                if not each.is_over:
                    size += 20 + len(each.content)
                    count += 1
            body = PyBytes_FromStringAndSize(cython.NULL, size)
            at = cython.cast("unsigned char *", PyBytes_AS_STRING(body))
            put(at, count, 4)
            at += 4
            for each_ in waiting:
                each = each_
                if not each.is_over:
                    put(at, each.number, 8)
                    put(at + 8, each.submitted_ms, 8)
                    put(at + 16, len(each.content), 4)
                    memcpy(at + 20, PyBytes_AS_STRING(each.content), len(each.content))
                    at += 20 + len(each.content)
            return body
        return write_parked(
            [(each.number, each.submitted_ms, each.content) for each in waiting if not each.is_over]
        )

    def all_progress(self) -> list[tuple[str, int, int]]:
        """Key, progress and since when it is idle, of all keys that have progress."""
        rows = []
        for key, entry_ in self._keys.items():
            entry: KeyProgress = entry_
            if entry.has_progress:
                idle_since_ms = entry.idle_since_ms if entry.waiters == 0 else self.time_ms
                rows.append((key, entry.progress, idle_since_ms))
        return rows


def _by_deadline(waiting: Waiting) -> Any:
    return waiting.deadline_ms, waiting.number


def _by_count(row: tuple[str, int]) -> Any:
    return row[1], row[0]
