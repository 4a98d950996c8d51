"""The deadline wheel: very many timers known by a number, put in and taken out in bulk.

The same levels as the timing wheel; but a timer is a slot of one slab instead of an object,
four words each:

      word 0      word 1    word 2    word 3
    +-----------+---------+---------+---------+
    | deadline  | after   | before  | tag     |    after, before: slots in the same list, or -1
    +-----------+---------+---------+---------+    tag: generation and list, see below

A free slot's `after` is the next free slot. A handle is the slot and the slot's generation, which
grows each time the slot is let go of, so a handle that outlived its timer is recognised:

    handle = generation * 2**32 + slot          tag = generation * 2**32 + list + 1, or + 0 if free

List 0 holds what is due and not yet handed out; list n + 1 is bucket n.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from array import array
from typing import Any

from sojourn._guard import GUARD

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_Resize as resize
    from cython.cimports.sojourn._prefetch import prefetch
    from cython.cimports.sojourn.levels import EMPTY, Levels
    from cython.cimports.sojourn.millis import LIMIT_MS
else:
    from sojourn.levels import EMPTY, Levels
    from sojourn.millis import LIMIT_MS

from sojourn.errors import OutOfRange, WrongType
from sojourn.millis import checked_ms, checked_shape

if not cython.compiled:  # which has them as constants of C, in the .pxd
    _WORDS = 4  # to a slot
    _AFTER = 1
    _BEFORE = 2
    _TAG = 3
_LOW = 2**32 - 1
_HIGH = 2**63 - 2**32
_ONE_GENERATION = 2**32
_MOST = 2**31 - 1
_FAR = 24  # handles ahead, when their slots are asked for
_NEAR = 12  # handles ahead, when the neighbours of those slots are


class DeadlineWheel:
    """Timers by integer handle, 32 bytes each: nothing is called, nothing is an object.

    Arguments are buffers of 64-bit integers (`array('q')`, NumPy int64, memoryview) or plain
    sequences of int; results are `array('q')`, which NumPy reads without copying. Deadlines are
    whole milliseconds on whatever clock you advance it by. Any thread may call at any moment.
    """

    __slots__ = (
        "_counter",
        "_due",
        "_ends",
        "_free",
        "_handed_out",
        "_levels",
        "_list_ends",
        "_slots",
        "_store",
        "_used",
        "_waiting",
    )

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20, start_ms: int = 0) -> None:
        self._levels = Levels(*checked_shape(tick_ms, wheel_size, start_ms))
        self._store = bytearray()
        self._slots = memoryview(self._store).cast("q")
        self._list_ends = array("q", [-1, -1])
        self._ends = memoryview(self._list_ends)  # of list n: first slot at 2n, last at 2n + 1
        self._handed_out = array("q")
        self._counter = memoryview(self._handed_out)  # where what is due is laid out
        self._due = 0
        self._waiting = 0
        self._used = 0
        self._free = -1

    def add_many(self, deadlines_ms: Any) -> array[int]:
        """Put in a timer for each deadline; return their handles, in the same order.

        One whose deadline has passed is handed out by the next `advance`.
        """
        deadlines = _integers(deadlines_ms, "deadlines_ms")
        handles = array("q", [0]) * len(deadlines)
        if handles:
            self._add(deadlines, memoryview(handles))
        return handles

    def cancel_many(self, handles: Any) -> int:
        """Take out the timers of these handles; return how many were still waiting.

        A handle whose timer is gone already is passed over.
        """
        known = _integers(handles, "handles")
        return self._cancel(known) if len(known) else 0

    def advance(self, now_ms: int) -> array[int]:
        """Move time to `now_ms`; return the handles of what became due, earlier ticks first."""
        return self._advance(checked_ms(now_ms, "now_ms"))

    def __len__(self) -> int:
        return self._waiting

    @property
    def next_expiration_ms(self) -> int | None:
        """When the next bucket in use expires; None when nothing waits."""
        next_ms = self._next_ms()
        return None if next_ms == EMPTY else next_ms

    def __repr__(self) -> str:
        return f"<DeadlineWheel waiting={self._waiting}>"

    # The atomic steps.

    def _add(self, deadlines_ms: memoryview, handles: memoryview) -> None:
        for n in range(len(deadlines_ms)):
            if not -LIMIT_MS <= deadlines_ms[n] <= LIMIT_MS:
                checked_ms(deadlines_ms[n], f"deadlines_ms[{n}]")
        self._reserve(len(deadlines_ms))
        for n in range(len(deadlines_ms)):
            if self._free >= 0:
                slot = self._free
                self._free = self._slots[slot * _WORDS + _AFTER]
            else:
                slot = self._used
                self._used += 1
                self._slots[slot * _WORDS + _TAG] = 0  # fresh room holds anything
            self._slots[slot * _WORDS] = deadlines_ms[n]
            handles[n] = (self._slots[slot * _WORDS + _TAG] & _HIGH) | slot
            self._link(slot, self._list_for(deadlines_ms[n]))
        self._waiting += len(deadlines_ms)

    def _cancel(self, handles: memoryview) -> int:
        for n in range(len(handles)):
            if handles[n] < 0 or (handles[n] & _LOW) >= self._used:
                raise OutOfRange(
                    f"handles[{n}] is {handles[n]}, which this wheel never gave out; "
                    "nothing was cancelled"
                )
        cancelled = 0
        for n in range(len(handles)):
            if cython.compiled:  # ask for the memory of slots and neighbours in good time
                if n + _FAR < len(handles):
                    slot = handles[n + _FAR] & _LOW
                    prefetch(cython.address(self._slots[slot * _WORDS]))
                if n + _NEAR < len(handles):
                    slot = handles[n + _NEAR] & _LOW
                    prefetch(
                        cython.address(self._slots[self._slots[slot * _WORDS + _AFTER] * _WORDS])
                    )
                    prefetch(
                        cython.address(self._slots[self._slots[slot * _WORDS + _BEFORE] * _WORDS])
                    )
            slot = handles[n] & _LOW
            tag = self._slots[slot * _WORDS + _TAG]
            if (tag & _HIGH) == (handles[n] & _HIGH) and tag & _LOW:
                self._unlink(slot)
                self._release(slot)
                cancelled += 1
        return cancelled

    def _advance(self, now_ms: int) -> array[int]:
        self._due = 0
        while self._ends[0] >= 0:
            slot = self._ends[0]
            self._unlink(slot)
            self._hand_out(slot)
        while True:
            bucket = self._levels.take(now_ms)
            if bucket < 0:
                break
            due_ms = self._levels.due_ms()
            slot = self._ends[2 * (bucket + 1)]
            self._ends[2 * (bucket + 1)] = -1
            self._ends[2 * (bucket + 1) + 1] = -1
            while slot >= 0:
                after = self._slots[slot * _WORDS + _AFTER]
                if self._slots[slot * _WORDS] < due_ms:
                    self._hand_out(slot)
                else:
                    self._link(slot, self._list_for(self._slots[slot * _WORDS]))
                slot = after
        return self._handed_out[: self._due]

    def _next_ms(self) -> int:
        if self._ends[0] >= 0:
            return self._levels.currents_ms[0]
        while True:
            bucket = self._levels.first()
            if bucket < 0:
                return EMPTY
            if self._ends[2 * (bucket + 1)] >= 0:
                return self._levels.earliest_ms
            self._levels.drop_first()

    # The raw steps.

    def _hand_out(self, slot: int) -> None:
        """Put the handle of a slot that is in no list on the counter, and free the slot."""
        if self._due == len(self._counter):
            self._counter = memoryview(array("q"))
            self._handed_out.frombytes(bytes(8 * max(1024, self._due)))
            self._counter = memoryview(self._handed_out)
        self._counter[self._due] = (self._slots[slot * _WORDS + _TAG] & _HIGH) | slot
        self._due += 1
        self._release(slot)

    def _reserve(self, count: int) -> None:
        """Make room for `count` more, so that filling cannot fail half way."""
        needed = self._waiting + count
        if needed > _MOST:
            raise OutOfRange(f"a DeadlineWheel holds at most {_MOST} timers; use a second one")
        room = len(self._slots) // _WORDS
        if needed > room:
            size = 8 * _WORDS * max(needed, room + room // 8)
            self._slots = memoryview(array("q"))  # it grows while nobody looks into it
            if cython.compiled:
                resize(self._store, size)  # without filling it
            else:
                self._store += bytes(size - len(self._store))
            self._slots = memoryview(self._store).cast("q")

    def _list_for(self, deadline_ms: int) -> int:
        """The list for what is due then: 0 if it is due already."""
        bucket = self._levels.place(deadline_ms)
        if 2 * (bucket + 1) >= len(self._ends):  # a new level
            self._ends = memoryview(array("q"))
            self._list_ends.extend([-1, -1] * (bucket + 2 - len(self._list_ends) // 2))
            self._ends = memoryview(self._list_ends)
        return bucket + 1

    def _link(self, slot: int, number: int) -> None:
        """Put the slot at the end of a list."""
        tail = self._ends[2 * number + 1]
        self._ends[2 * number + 1] = slot
        if tail >= 0:
            self._slots[tail * _WORDS + _AFTER] = slot
        else:
            self._ends[2 * number] = slot
        self._slots[slot * _WORDS + _AFTER] = -1
        self._slots[slot * _WORDS + _BEFORE] = tail
        self._slots[slot * _WORDS + _TAG] = (self._slots[slot * _WORDS + _TAG] & _HIGH) | (
            number + 1
        )

    def _unlink(self, slot: int) -> None:
        """Take the slot out of its list."""
        number = (self._slots[slot * _WORDS + _TAG] & _LOW) - 1
        after = self._slots[slot * _WORDS + _AFTER]
        before = self._slots[slot * _WORDS + _BEFORE]
        if before >= 0:
            self._slots[before * _WORDS + _AFTER] = after
        else:
            self._ends[2 * number] = after
        if after >= 0:
            self._slots[after * _WORDS + _BEFORE] = before
        else:
            self._ends[2 * number + 1] = before

    def _release(self, slot: int) -> None:
        """Make the slot free, for a next generation."""
        self._slots[slot * _WORDS + _AFTER] = self._free
        self._slots[slot * _WORDS + _TAG] = (
            self._slots[slot * _WORDS + _TAG] + _ONE_GENERATION
        ) & _HIGH
        self._free = slot
        self._waiting -= 1


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
    GUARD.protect(DeadlineWheel, "_add", "_cancel", "_advance", "_next_ms")
