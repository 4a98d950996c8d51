"""The deadline wheel: very many timers known by a number, put in and taken out in bulk.

The same levels as the timing wheel; but a timer is a slot of one slab instead of an object,
four words each:

      word 0      word 1    word 2    word 3
    +-----------+---------+---------+---------+
    | deadline  | after   | before  | tag     |    after, before: slots in the same list, or -1
    +-----------+---------+---------+---------+    tag: generation and list, see below

A free slot's `after` is the next free slot. A handle is the slot and the slot's generation, which
grows each time the slot is released, so a handle that outlived its timer is recognised:

    handle = generation * 2**32 + slot          tag = generation * 2**32 + list + 1, or + 0 if free

A slot that has been through all its generations is not used again. List 0 holds what is due and
not yet handed out; list n + 1 is bucket n.

No atomic step makes an object. One that finds too few levels, or too little room for its answer,
changes nothing and says so; its caller makes what is missing, and tries again.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from array import array
from typing import Any

from sojourn.core.alike import already_initialised, not_copied, not_initialised, start_out
from sojourn.core.guard import GUARD

if cython.compiled:
    from cython.cimports.cpython.array import clone
    from cython.cimports.cpython.array import resize as cut
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING as start_of
    from cython.cimports.cpython.bytearray import PyByteArray_Resize as resize
    from cython.cimports.sojourn.core.prefetch import prefetch
else:
    from sojourn.core.levels import EMPTY, Levels
    from sojourn.core.millis import LIMIT_MS
    from sojourn.core.places import filled, numbers

from sojourn.core.millis import checked_ms, checked_shape
from sojourn.errors import OutOfRange, WrongType

if not cython.compiled:  # which has them as constants of C, in the .pxd
    _WORDS = 4  # to a slot
    _AFTER = 1
    _BEFORE = 2
    _TAG = 3
_LOW = 2**32 - 1
_HIGH = 2**63 - 2**32  # also the tag of a free slot that has been through all generations
_ONE_GENERATION = 2**32
_MOST = 2**31 - 1
_FAR = 24  # handles ahead, when their slots are asked for
_NEAR = 12  # handles ahead, when the neighbours of those slots are
_TOO_SMALL = -1
_INTEGERS = array("q")


class DeadlineWheel:
    """Timers by integer handle, 32 bytes each: nothing is called, nothing is an object.

    Arguments are buffers of 64-bit integers (`array('q')`, NumPy int64, memoryview) or plain
    sequences of int; results are `array('q')`, which NumPy reads without copying. Deadlines are
    whole milliseconds on whatever clock you advance it by. Any thread may call at any moment.
    """

    __slots__ = (
        "_sj_counts",
        "_sj_ends",
        "_sj_free",
        "_sj_levels",
        "_sj_retired",
        "_sj_room",
        "_sj_slots",
        "_sj_store",
        "_sj_used",
        "_sj_waiting",
    )

    _sj_levels: Levels
    _sj_store: bytearray
    _sj_slots: memoryview  # into the store; compiled, an address
    _sj_room: int  # slots in the store
    _sj_used: int  # those that have ever been used
    _sj_waiting: int
    _sj_retired: int  # those that are free and will not be used again
    _sj_free: int  # the first that is free, or -1
    _sj_ends: memoryview  # of list n: first slot at 2n, last at 2n + 1
    _sj_counts: memoryview  # of list n: how many are in it

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20, start_ms: int = 0) -> None:
        before: Any = self._sj_levels
        if before is not None:
            raise already_initialised(self)
        levels = Levels(*checked_shape(tick_ms, wheel_size, start_ms))
        self._sj_store = bytearray()
        if not cython.compiled:
            self._sj_slots = memoryview(self._sj_store).cast("q")
        self._sj_room = 0
        self._sj_used = 0
        self._sj_waiting = 0
        self._sj_retired = 0
        self._sj_free = -1
        self._sj_ends = _list_ends(levels)
        self._sj_counts = _list_counts(levels)
        self._sj_levels = levels

    def add_many(self, deadlines_ms: Any) -> array[int]:
        """Put in a timer for each deadline; return their handles, in the same order.

        One whose deadline has passed is handed out by the next `advance`.
        """
        if self._sj_levels is None:
            raise not_initialised(self)
        deadlines = _integers(deadlines_ms, "deadlines_ms")
        handles = _array(len(deadlines))
        if handles:
            self._sj_add_all(deadlines, memoryview(handles))
        return handles

    def cancel_many(self, handles: Any) -> int:
        """Take out the timers of these handles; return how many were still waiting.

        A handle whose timer is gone already is passed over. A number that this wheel never gave
        out raises `OutOfRange`, and nothing is cancelled.
        """
        if self._sj_levels is None:
            raise not_initialised(self)
        checked = _integers(handles, "handles")
        cancelled = self._sj_cancel(checked) if len(checked) else 0
        if cancelled < 0:
            n = -1 - cancelled
            raise OutOfRange(
                f"handles[{n}] is {checked[n]}, which this wheel never gave out; "
                "nothing was cancelled"
            )
        return cancelled

    def advance(self, now_ms: int) -> array[int]:
        """Move time to `now_ms`; return the handles of what became due, earlier ticks first."""
        if self._sj_levels is None:
            raise not_initialised(self)
        now_ms = checked_ms(now_ms, "now_ms")
        while self._sj_is_due(now_ms):
            handles = _array(self._sj_waiting)  # what is not written to costs nothing
            due = self._sj_advance(now_ms, memoryview(handles))
            if due != _TOO_SMALL:
                return _shortened(handles, due)
        return _array(0)

    def __len__(self) -> int:
        if self._sj_levels is None:
            raise not_initialised(self)
        return self._sj_waiting

    @property
    def next_expiration_ms(self) -> int | None:
        """When the next bucket in use expires; None when nothing waits."""
        if self._sj_levels is None:
            raise not_initialised(self)
        next_ms = self._sj_next_ms()
        return None if next_ms == EMPTY else next_ms

    def levels(self) -> list[tuple[int, list[int]]]:
        """Of each level, finest first, its tick and how many wait in each bucket.

        Buckets are in the order of time, the first being that of the wheel's own time, which
        moves on when a bucket expires. What is due and not yet handed out is in none.
        """
        if self._sj_levels is None:
            raise not_initialised(self)
        while True:
            levels = self._sj_levels
            counts = _list_counts(levels)
            cursors = numbers("q", levels.count)
            if self._sj_copy_counts(levels, counts, cursors):
                return [_rotated(levels, level, counts, cursors) for level in range(levels.count)]

    def __repr__(self) -> str:
        waits = " not initialised" if self._sj_levels is None else f" waiting={self._sj_waiting}"
        return f"<{type(self).__name__}{waits}>"

    def __reduce__(self) -> Any:
        raise not_copied(self)

    # Outside any step.

    def _sj_add_all(self, deadlines_ms: memoryview, handles: memoryview) -> None:
        latest_ms = _latest(deadlines_ms)
        while not self._sj_add(deadlines_ms, latest_ms, handles):
            self._sj_make_room(len(deadlines_ms), latest_ms)

    def _sj_make_room(self, count: int, latest_ms: int) -> None:
        """Make room for `count` more, of which the latest is due then."""
        needed = self._sj_waiting + self._sj_retired + count
        if needed > _MOST:
            raise OutOfRange(f"a DeadlineWheel holds at most {_MOST} timers; use a second one")
        self._sj_grow(needed)
        if latest_ms >= self._sj_levels.end_ms():
            levels = self._sj_levels
            larger = levels.spanning(latest_ms)
            self._sj_replace_levels(levels, larger, _list_ends(larger), _list_counts(larger))

    # The atomic steps. They make no object.

    def _sj_grow(self, needed: int) -> None:
        """Have room for that many slots. A bytearray grows where it is, or moves as a whole."""
        if needed > self._sj_room:
            room = min(_MOST, max(needed, self._sj_room + self._sj_room // 8))
            if cython.compiled:
                resize(self._sj_store, 8 * _WORDS * room)  # without filling it
                self._sj_slots = cython.cast("long long *", start_of(self._sj_store))
            else:
                self._sj_store = self._sj_store + bytes(8 * _WORDS * room - len(self._sj_store))
                self._sj_slots = memoryview(self._sj_store).cast("q")
            self._sj_room = room

    def _sj_replace_levels(
        self, levels: Levels, larger: Levels, ends: memoryview, counts: memoryview
    ) -> None:
        """Go on with the larger levels, unless they have been replaced meanwhile."""
        if self._sj_levels is levels:
            larger.take_over(levels)
            for n in range(len(self._sj_ends)):
                ends[n] = self._sj_ends[n]
            for n in range(len(self._sj_counts)):
                counts[n] = self._sj_counts[n]
            self._sj_ends = ends
            self._sj_counts = counts
            self._sj_levels = larger

    def _sj_copy_counts(self, levels: Levels, counts: memoryview, cursors: memoryview) -> bool:
        """Copy how many wait where; False if the levels have been replaced meanwhile."""
        if self._sj_levels is not levels:
            return False
        for n in range(len(counts)):
            counts[n] = self._sj_counts[n]
        for level in range(levels.count):
            cursors[level] = levels.cursors[level]
        return True

    def _sj_add(self, deadlines_ms: memoryview, latest_ms: int, handles: memoryview) -> bool:
        """Put the timers in; False if there is too little room."""
        needed = self._sj_waiting + self._sj_retired + len(deadlines_ms)
        if needed > self._sj_room or latest_ms >= self._sj_levels.end_ms():
            return False
        for n in range(len(deadlines_ms)):
            # They were looked at before. Whoever has changed them since, without the GIL, gets
            # other deadlines, and does no further harm.
            deadline_ms = deadlines_ms[n]
            if deadline_ms > latest_ms:
                deadline_ms = latest_ms
            elif deadline_ms < -LIMIT_MS:
                deadline_ms = -LIMIT_MS
            slot = self._sj_take_slot()
            self._sj_slots[slot * _WORDS] = deadline_ms
            handles[n] = (self._sj_slots[slot * _WORDS + _TAG] & _HIGH) | slot
            self._sj_link(slot, self._sj_levels.place(deadline_ms) + 1)
        self._sj_waiting += len(deadlines_ms)
        return True

    def _sj_cancel(self, handles: memoryview) -> int:
        """Take them out and count them; or, if the n-th was never given out, return -1 - n."""
        cancelled = 0
        free = self._sj_free
        for n in range(len(handles)):
            if cython.compiled:  # ask for the memory of slots and neighbours in good time
                if n + _FAR < len(handles):
                    slot = handles[n + _FAR] & _LOW
                    prefetch(cython.address(self._sj_slots[slot * _WORDS]))
                if n + _NEAR < len(handles):
                    slot = handles[n + _NEAR] & _LOW
                    if slot < self._sj_used:
                        after = self._sj_slots[slot * _WORDS + _AFTER]
                        before = self._sj_slots[slot * _WORDS + _BEFORE]
                        prefetch(cython.address(self._sj_slots[after * _WORDS]))
                        prefetch(cython.address(self._sj_slots[before * _WORDS]))
            handle = handles[n]
            slot = handle & _LOW
            if handle < 0 or slot >= self._sj_used:
                self._sj_put_back(free)
                return -1 - n
            tag = self._sj_slots[slot * _WORDS + _TAG]
            # Generations are compared through handles: a tag has the slot's list in place of it.
            if (tag & _HIGH) == (handle & _HIGH) and tag & _LOW:
                self._sj_unlink(slot)
                self._sj_release(slot)
                cancelled += 1
            elif (handle & _HIGH) >= (tag & _HIGH):  # a generation that is yet to come
                self._sj_put_back(free)
                return -1 - n
        return cancelled

    def _sj_advance(self, now_ms: int, handles: memoryview) -> int:
        """Hand out what is due and count it; if there may be too little room, _TOO_SMALL."""
        if len(handles) < self._sj_waiting:
            return _TOO_SMALL
        due = 0
        slot = self._sj_ends[0]
        self._sj_ends[0] = -1
        self._sj_ends[1] = -1
        self._sj_counts[0] = 0
        while slot >= 0:
            after = self._sj_slots[slot * _WORDS + _AFTER]
            handles[due] = (self._sj_slots[slot * _WORDS + _TAG] & _HIGH) | slot
            due += 1
            self._sj_release(slot)
            slot = after
        while True:
            bucket = self._sj_levels.take(now_ms)
            if bucket < 0:
                return due
            due_ms = self._sj_levels.due_ms()
            slot = self._sj_ends[2 * (bucket + 1)]
            self._sj_ends[2 * (bucket + 1)] = -1
            self._sj_ends[2 * (bucket + 1) + 1] = -1
            self._sj_counts[bucket + 1] = 0
            while slot >= 0:
                after = self._sj_slots[slot * _WORDS + _AFTER]
                if self._sj_slots[slot * _WORDS] < due_ms:
                    handles[due] = (self._sj_slots[slot * _WORDS + _TAG] & _HIGH) | slot
                    due += 1
                    self._sj_release(slot)
                else:
                    self._sj_link(slot, self._sj_levels.place(self._sj_slots[slot * _WORDS]) + 1)
                slot = after

    def _sj_next_ms(self) -> int:
        if self._sj_ends[0] >= 0:
            return self._sj_levels.currents_ms[0]
        while True:
            bucket = self._sj_levels.first()
            if bucket < 0:
                return EMPTY
            if self._sj_ends[2 * (bucket + 1)] >= 0:
                return self._sj_levels.earliest_ms
            self._sj_levels.drop_first()

    # The raw steps.

    def _sj_is_due(self, now_ms: int) -> bool:
        """Whether there is anything to hand out, or a bucket to expire."""
        return self._sj_ends[0] >= 0 or self._sj_levels.earliest_ms <= now_ms

    def _sj_take_slot(self) -> int:
        """Take a slot that is free; there must be one."""
        while self._sj_free >= 0:
            slot = self._sj_free
            self._sj_free = self._sj_slots[slot * _WORDS + _AFTER]
            if self._sj_slots[slot * _WORDS + _TAG] != _HIGH:
                return slot
        slot = self._sj_used
        self._sj_used += 1
        self._sj_slots[slot * _WORDS + _TAG] = 0  # fresh room holds anything
        return slot

    def _sj_link(self, slot: int, number: int) -> None:
        """Put the slot at the end of a list."""
        tail = self._sj_ends[2 * number + 1]
        self._sj_ends[2 * number + 1] = slot
        self._sj_counts[number] += 1
        if tail >= 0:
            self._sj_slots[tail * _WORDS + _AFTER] = slot
        else:
            self._sj_ends[2 * number] = slot
        self._sj_slots[slot * _WORDS + _AFTER] = -1
        self._sj_slots[slot * _WORDS + _BEFORE] = tail
        self._sj_slots[slot * _WORDS + _TAG] = (self._sj_slots[slot * _WORDS + _TAG] & _HIGH) | (
            number + 1
        )

    def _sj_unlink(self, slot: int) -> None:
        """Take the slot out of its list; its `before` still says where it was."""
        number = (self._sj_slots[slot * _WORDS + _TAG] & _LOW) - 1
        after = self._sj_slots[slot * _WORDS + _AFTER]
        before = self._sj_slots[slot * _WORDS + _BEFORE]
        self._sj_counts[number] -= 1
        if before >= 0:
            self._sj_slots[before * _WORDS + _AFTER] = after
        else:
            self._sj_ends[2 * number] = after
            self._sj_slots[slot * _WORDS + _BEFORE] = -1 - number
        if after >= 0:
            self._sj_slots[after * _WORDS + _BEFORE] = before
        else:
            self._sj_ends[2 * number + 1] = before

    def _sj_release(self, slot: int) -> None:
        """Make the slot free, for a next generation."""
        self._sj_slots[slot * _WORDS + _AFTER] = self._sj_free
        tag = (self._sj_slots[slot * _WORDS + _TAG] & _HIGH) + _ONE_GENERATION
        self._sj_slots[slot * _WORDS + _TAG] = tag
        if tag == _HIGH:
            self._sj_retired += 1
        self._sj_free = slot
        self._sj_waiting -= 1

    def _sj_put_back(self, free: int) -> None:
        """Undo cancelling, the last one first, until `free` is the first free slot again."""
        while self._sj_free != free:
            slot = self._sj_free
            self._sj_free = self._sj_slots[slot * _WORDS + _AFTER]
            before = self._sj_slots[slot * _WORDS + _BEFORE]
            if before >= 0:
                number = (self._sj_slots[before * _WORDS + _TAG] & _LOW) - 1
                after = self._sj_slots[before * _WORDS + _AFTER]
                self._sj_slots[before * _WORDS + _AFTER] = slot
            else:
                number = -1 - before
                after = self._sj_ends[2 * number]
                self._sj_ends[2 * number] = slot
                self._sj_slots[slot * _WORDS + _BEFORE] = -1
            if after >= 0:
                self._sj_slots[after * _WORDS + _BEFORE] = slot
            else:
                self._sj_ends[2 * number + 1] = slot
            self._sj_counts[number] += 1
            self._sj_slots[slot * _WORDS + _AFTER] = after
            tag = self._sj_slots[slot * _WORDS + _TAG]
            if tag == _HIGH:
                self._sj_retired -= 1
            self._sj_slots[slot * _WORDS + _TAG] = tag - _ONE_GENERATION + number + 1
            self._sj_waiting += 1


def _latest(deadlines_ms: memoryview) -> int:
    """Return the latest of the deadlines; they must all be in range."""
    latest_ms = -LIMIT_MS
    for n in range(len(deadlines_ms)):
        deadline_ms = deadlines_ms[n]
        if not -LIMIT_MS <= deadline_ms <= LIMIT_MS:
            checked_ms(deadline_ms, f"deadlines_ms[{n}]")
        if deadline_ms > latest_ms:
            latest_ms = deadline_ms
    return latest_ms


def _list_ends(levels: Levels) -> memoryview:
    """The ends of list 0 and of a list for each bucket, all empty."""
    return filled(2 * (1 + levels.count * levels.size), -1)


def _list_counts(levels: Levels) -> memoryview:
    """How many are in list 0 and in the list of each bucket: none."""
    return numbers("q", 1 + levels.count * levels.size)


def _rotated(
    levels: Levels, level: int, counts: memoryview, cursors: memoryview
) -> tuple[int, list[int]]:
    """A level's tick, and the counts of its buckets from the present one on."""
    first = 1 + level * levels.size
    ordered = [counts[first + (cursors[level] + n) % levels.size] for n in range(levels.size)]
    return levels.ticks_ms[level], ordered


def _array(count: int) -> array[int]:
    """An array of that many integers. Compiled, it holds anything."""
    if cython.compiled:
        return clone(_INTEGERS, count, False)
    return array("q", bytes(8 * count))


def _shortened(integers: array[int], count: int) -> array[int]:
    """The first `count` of the integers."""
    if cython.compiled:
        if count < len(integers):
            cut(integers, count)
        return integers
    return integers[:count]


def _integers(values: Any, name: str) -> memoryview:
    """Look at the values as a buffer of 64-bit integers, or say what is wrong with them."""
    try:
        view = memoryview(values)
    except (TypeError, ValueError, BufferError):  # no buffer, or none of numbers: a list, a range
        try:
            return memoryview(array("q", values))
        except (TypeError, OverflowError) as error:
            raise WrongType(
                f"{name} must be 64-bit integers: an array('q'), a NumPy int64 array or a "
                f"sequence of int; {error}"
            ) from None
    if view.ndim != 1 or view.itemsize != 8 or view.format.lstrip("@=<") not in ("q", "l"):
        raise WrongType(
            f"{name} must be one row of 64-bit integers, got {view.ndim} dimension(s) of "
            f"format {view.format!r}; convert it, e.g. numpy.asarray(x, dtype='int64')"
        )
    return view if len(view.format) == 1 else view.cast("B").cast("q")


if not cython.compiled:
    start_out(DeadlineWheel, _sj_levels=None)
    GUARD.protect(
        DeadlineWheel,
        "_sj_grow",
        "_sj_replace_levels",
        "_sj_copy_counts",
        "_sj_add",
        "_sj_cancel",
        "_sj_advance",
        "_sj_next_ms",
    )
