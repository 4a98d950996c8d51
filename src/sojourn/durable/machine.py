"""The machine: which operations wait, how far each key has come, and what a batch would change.

No clock, no disk, no threads. A batch of commands has one time, later than the batch before. It
goes through in two steps, with the disk between them:

    plan = machine.plan(time_ms, batch, remembered)     looks, decides, changes nothing
    ...                                                 the plan is written, or it is not
    machine.apply(plan)                                 changes what was planned

So what the machine holds is always on disk, and a batch that could not be written never was.
What happens within a batch, at time t, happens in this order, as for rows of one millisecond:

    A. deadline d < t             expired at d; at d = t it is still open (*)
    B. signals                    keys move
    C. submissions                see the keys as moved
    D. enough requirements hold   completed at t, by the smallest key among those that hold since t
    E. cancels                    cancelled at t, unless D was first

(*) Of very many that are overdue a batch takes some, so that nobody waits long for a batch. The
others can do nothing but expire, and the next batches take them.

An operation has a place for each of its requirements. While the requirement does not hold, the
place stands in its key's tree, ordered by offset (core/forest.py); a plan walks the trees of the
keys that move up to where they move, and looks at nothing else.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from typing import Any

from sojourn.core.deadlines import DeadlineWheel
from sojourn.durable.answers import (
    ACCEPTED,
    CANCELLED,
    COMPLETED,
    DUPLICATE,
    ENDED,
    EXPIRED,
    REFUSED,
    UNCHANGED,
    UNKNOWN,
    WAITING,
    Answer,
    Operation,
)
from sojourn.durable.records import BatchRecord, Parked, write_parked
from sojourn.errors import BadFile, Full, IdTaken

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.ref import Py_INCREF
    from cython.cimports.cpython.tuple import PyTuple_SET_ITEM
    from cython.cimports.cpython.type import PyType_GenericAlloc
    from cython.cimports.libc.string import memcpy
    from cython.cimports.sojourn.core.collector import PyObject_GC_UnTrack
    from cython.cimports.sojourn.core.forest import Forest
    from cython.cimports.sojourn.core.places import numbers
    from cython.cimports.sojourn.durable._bytes import put
    from cython.cimports.sojourn.durable.answers import new_operation
    from cython.cimports.sojourn.durable.records import Submission, is_same, read_submission
else:
    from sojourn.core.forest import Forest
    from sojourn.core.places import numbers
    from sojourn.durable.answers import new_operation
    from sojourn.durable.records import Submission, is_same, read_submission

_HELD = -1  # in place of a parent: the requirement holds, the place is in no tree
_SLOT = 2**32 - 1  # of a handle
_FORGET_AT_ONCE = 1_000  # keys, in a batch
_NEVER = 2**62
_LOOKS = 10_000  # at places, to find the busiest keys


@dataclass
class Batch:
    """Commands that get one time, and after planning their answers."""

    signals: list[tuple[str, int]] = field(default_factory=list)
    submissions: list[Submission] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    signal_answers: list[Answer] = field(default_factory=list)
    submission_answers: list[Answer] = field(default_factory=list)
    cancel_answers: list[Answer] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.signals) + len(self.submissions) + len(self.cancels)


@dataclass
class Plan:
    """What a batch will change, once it is written."""

    time_ms: int
    record: BatchRecord
    first_sequence: int  # of the first command in the record
    outcomes: list[Operation] = field(default_factory=list)
    # For `apply`:
    moved: dict[str, int] = field(default_factory=dict)
    arrivals: list[Submission] = field(default_factory=list)
    ended: list[Submission] = field(default_factory=list)
    overdue: int = 0  # how many of those that are overdue it ends

    def __len__(self) -> int:
        """How many commands and outcomes there are to write."""
        record = self.record
        return len(record.signals) + len(record.submissions) + len(self.outcomes)


@cython.no_gc
@cython.cclass
class Waiting:
    """An operation that waits: 64 bytes, and its content."""

    __slots__ = (
        "content",
        "deadline_ms",
        "handle",
        "is_over",
        "is_overdue",
        "missing",
        "missing_then",
        "number",
        "place",
        "plan",
        "submitted_ms",
    )

    content: bytes
    number: int
    submitted_ms: int
    deadline_ms: int
    handle: int  # in the wheel
    place: int  # the first of its places
    missing: int  # how many more requirements have to hold
    missing_then: int  # the same after the plan of this number
    plan: int
    is_overdue: bool  # off the wheel: it expires, and does nothing else
    is_over: bool  # it has ended


@cython.cclass
class KeyProgress:
    """How far a key has come, and the tree of those who wait for more."""

    __slots__ = ("has_progress", "idle_since_ms", "progress", "root", "unmet", "waiters")

    progress: int  # if `has_progress`
    has_progress: bool
    root: int
    waiters: int  # requirements on this key, held or not, of operations that wait
    unmet: int  # those of them that do not hold, which are in the tree
    idle_since_ms: int


class Machine:
    """The state of a durable purgatory. Not for several threads, but for `get` and `progress`."""

    def __init__(
        self,
        *,
        max_waiting: int = _NEVER,
        forget_keys_after_ms: int | None = None,
        expire_at_once: int = _NEVER,
    ) -> None:
        self.time_ms = -1  # of the last batch
        self.sequence = 0  # of the last command
        self.outcome = 0  # number of the last one
        self._max_waiting = max_waiting
        self._forget_after_ms = forget_keys_after_ms
        self._expire_at_once = expire_at_once  # in a batch
        self._waiting: dict[str, Waiting] = {}
        self._keys: dict[str, KeyProgress] = {}
        self._idle: dict[str, None] = {}  # keys with progress and nobody waiting, oldest first
        self._plans = 0
        self._wheel = DeadlineWheel()
        self._by_slot: list[Any] = []  # of the wheel
        self._overdue: deque[Waiting] = deque()  # by deadline and submission
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

    @property
    def next_ms(self) -> int | None:
        """A batch before this time would expire nothing; None when nothing waits."""
        if self._overdue:
            return self.time_ms + 1
        next_ms = self._wheel.next_expiration_ms
        return None if next_ms is None else next_ms + 1

    def get(self, id: str) -> Operation | None:
        """The operation, if it waits. Any thread."""
        waiting = self._waiting.get(id)
        return None if waiting is None else _as_operation(waiting)

    def others(self, batch: Batch) -> list[str]:
        """Those of the batch's ids that do not wait: they may have ended."""
        ids = []
        for submission_ in batch.submissions:
            submission: Submission = submission_
            if submission.id not in self._waiting:
                ids.append(submission.id)
        ids += [id for id in batch.cancels if id not in self._waiting]
        return ids

    def progress(self, key: str) -> int | None:
        """How far the key has come; None if nothing is known of it. Any thread."""
        entry = self._keys.get(key)
        return entry.progress if entry is not None and entry.has_progress else None

    # Looking, between batches.

    def oldest(self, limit: int) -> list[Operation]:
        """Those that have waited longest."""
        return [_as_operation(waiting) for waiting in islice(self._waiting.values(), limit)]

    def waiting_on(self, key: str, limit: int) -> list[Operation]:
        """Those with a requirement on the key that does not hold, by offset and submission."""
        entry: KeyProgress = self._keys.get(key)  # type: ignore[assignment]
        operations: dict[int, Operation] = {}  # one may wait for two offsets
        if entry is not None and entry.root:
            place = self._forest.first(entry.root)
            while place and len(operations) < limit:
                waiting: Waiting = self._holders[place]
                if waiting.number not in operations:
                    operations[waiting.number] = _as_operation(waiting)
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

    # Planning.

    def plan(self, time_ms: int, batch: Batch, remembered: dict[str, Operation]) -> Plan:
        """Decide what the batch changes, and answer its commands; change nothing.

        `remembered` are the ended operations that the batch names, by id.
        """
        self._plans += 1
        plan = Plan(time_ms, BatchRecord([], [], [], [], []), self.sequence + 1)
        endings: list[Any] = []  # (at_ms, number, Submission, status, by_key)
        by_id: dict[str, Operation] = {}  # as it ends in this batch
        self._expire(plan, endings)
        self._move(plan, batch)
        self._complete(plan, endings)
        arrivals = self._arrive(plan, batch, remembered, endings, len(endings))
        plan.arrivals = list(arrivals.values())
        cancels: list[str] = []
        if batch.cancels:
            cancels = self._cancel(plan, batch, arrivals, endings)
        if endings:
            self._number(plan, endings, by_id)
            self._correct(time_ms, batch, by_id)
        self._answer_cancels(time_ms, batch, cancels, by_id, remembered)
        if len(plan):
            self._forget(plan)
        return plan

    def _expire(self, plan: Plan, endings: list[Any]) -> None:
        """A: what is overdue leaves the wheel; it still waits until the plan is applied."""
        overdue = self._overdue
        handles = self._wheel.advance(plan.time_ms - 1)
        if handles:
            overdue.extend(self._off_the_wheel(handles))
        while overdue and _is_over(overdue[0]):  # by a cancel
            overdue.popleft()
        plan.overdue = min(len(overdue), self._expire_at_once)
        for waiting_ in islice(overdue, plan.overdue):
            waiting: Waiting = waiting_
            if not waiting.is_over:
                endings.append(_expiry(waiting))

    def _off_the_wheel(self, handles: array[int]) -> list[Waiting]:
        """What became due, by deadline and submission."""
        fresh = []
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
            fresh.append(waiting)
        if not is_sorted:  # of one deadline, some came from a coarser level than others
            fresh.sort(key=_by_deadline)
        return fresh

    def _move(self, plan: Plan, batch: Batch) -> None:
        """B: how far the batch moves keys."""
        moved = plan.moved
        keys = self._keys
        accepted = Answer(ACCEPTED, plan.time_ms)
        unchanged = Answer(UNCHANGED, plan.time_ms)
        for signal in batch.signals:
            key, offset = signal
            before = moved.get(key)
            if before is None:
                entry: KeyProgress = keys.get(key)  # type: ignore[assignment]
                if entry is not None and entry.has_progress:
                    before = entry.progress
            if before is None or offset > before:
                moved[key] = offset
                plan.record.signals.append(signal)
                batch.signal_answers.append(accepted)
            else:
                batch.signal_answers.append(unchanged)

    def _complete(self, plan: Plan, endings: list[Any]) -> None:
        """D, for those that waited already."""
        forest = self._forest
        by_key: dict[int, str] = {}  # by number: the smallest key that holds since this batch
        completed: list[Waiting] = []
        for key, offset in plan.moved.items():
            entry: KeyProgress = self._keys.get(key)  # type: ignore[assignment]
            if entry is None or entry.root == 0:
                continue
            place = forest.first(entry.root)
            while place and forest.keys[place] <= offset:
                waiting: Waiting = self._holders[place]
                if not waiting.is_overdue:
                    if waiting.plan != self._plans:
                        waiting.plan = self._plans
                        waiting.missing_then = waiting.missing
                    waiting.missing_then -= 1
                    if waiting.missing_then == 0:
                        completed.append(waiting)
                    smallest = by_key.get(waiting.number)
                    if smallest is None or key < smallest:
                        by_key[waiting.number] = key
                place = forest.after(place)
        for waiting in completed:
            submission = _submission_of(waiting)
            key = by_key[waiting.number]
            endings.append((plan.time_ms, waiting.number, submission, COMPLETED, key))

    def _arrive(
        self,
        plan: Plan,
        batch: Batch,
        remembered: dict[str, Operation],
        endings: list[Any],
        leaving: int,
    ) -> dict[str, Submission]:
        """C, and D for those that come; return them by id."""
        arrivals: dict[str, Submission] = {}
        time_ms = plan.time_ms
        at_ms = plan.time_ms  # an object, for all the answers
        contents = plan.record.submissions
        answers = batch.submission_answers
        moved = plan.moved
        all_waiting = self._waiting
        room = self._max_waiting - len(all_waiting) + leaving
        number = self.sequence + len(plan.record.signals)
        for submission_ in batch.submissions:
            submission: Submission = submission_
            id = submission.id
            waiting: Waiting
            if id in arrivals:
                other: Submission = arrivals[id]
                waiting = other.waiting
                answers.append(_compared(submission, _as_operation(waiting), at_ms))
            elif id in all_waiting:
                waiting = all_waiting[id]
                answers.append(_compared(submission, _as_operation(waiting), at_ms))
            elif remembered and id in remembered:
                answers.append(_compared(submission, remembered[id], at_ms))
            elif room <= 0:
                answers.append(_full(id, self._max_waiting))
            else:
                number += 1
                contents.append(submission.content)
                waiting = _new_waiting(
                    submission.content, number, time_ms, time_ms + submission.timeout_ms
                )
                submission.waiting = waiting
                key = self._settle(waiting, submission, moved)
                arrivals[id] = submission
                if waiting.missing <= 0:
                    endings.append((time_ms, number, submission, COMPLETED, key))
                else:
                    room -= 1
                answers.append(_answer(ACCEPTED, at_ms, _as_operation(waiting)))
        return arrivals

    def _settle(self, waiting: Waiting, submission: Submission, moved: dict[str, int]) -> Any:
        """Count what is missing; return the smallest key among the requirements that hold."""
        requires = submission.requires
        missing = submission.needed
        smallest = None
        n = 0
        while n < len(requires):
            key = requires[n]
            progress = moved.get(key) if moved else None
            if progress is None:
                entry: KeyProgress = self._keys.get(key)  # type: ignore[assignment]
                if entry is not None and entry.has_progress:
                    progress = entry.progress
            if progress is not None and progress >= requires[n + 1]:
                missing -= 1
                if smallest is None or key < smallest:
                    smallest = key
            n += 2
        waiting.missing = missing
        return smallest

    def _cancel(
        self,
        plan: Plan,
        batch: Batch,
        arrivals: dict[str, Any],
        endings: list[Any],
    ) -> list[str]:
        """E; return the verdicts."""
        verdicts = []
        ending_ids = {ending[2].id for ending in endings}
        for id in batch.cancels:
            submission: Submission = arrivals.get(id)  # type: ignore[assignment]
            waiting: Waiting = self._waiting.get(id)  # type: ignore[assignment]
            if submission is None and waiting is None:
                verdicts.append(UNKNOWN)
            elif id in ending_ids:
                verdicts.append(ENDED)
            elif waiting is not None and waiting.is_overdue:  # and has to expire now
                endings.append(_expiry(waiting))
                ending_ids.add(id)
                verdicts.append(ENDED)
            else:
                if submission is None:
                    submission = _submission_of(waiting)
                else:
                    waiting = submission.waiting
                endings.append((plan.time_ms, waiting.number, submission, CANCELLED, None))
                ending_ids.add(id)
                plan.record.cancelled.append(waiting.number)
                verdicts.append(ACCEPTED)
        return verdicts

    def _number(self, plan: Plan, endings: list[Any], by_id: dict[str, Operation]) -> None:
        """Give outcomes their numbers: by time, then by submission."""
        endings.sort(key=_by_time)
        number = self.outcome
        for at_ms, _, submission_, status, by_key in endings:
            submission: Submission = submission_
            waiting: Waiting = submission.waiting
            number += 1
            operation = new_operation(
                waiting.content, status, waiting.submitted_ms, at_ms, by_key, number
            )
            by_id[submission.id] = operation
            plan.outcomes.append(operation)
            plan.ended.append(submission)
            if status != CANCELLED:
                plan.record.ended.append(waiting.number)

    def _correct(self, time_ms: int, batch: Batch, by_id: dict[str, Operation]) -> None:
        """Submissions are answered with the operation as it is after the batch."""
        answers = batch.submission_answers
        for n, submission_ in enumerate(batch.submissions):
            submission: Submission = submission_
            operation = by_id.get(submission.id)
            if operation is not None and answers[n].verdict != REFUSED:
                answers[n] = Answer(answers[n].verdict, time_ms, operation)

    def _answer_cancels(
        self,
        time_ms: int,
        batch: Batch,
        verdicts: list[str],
        by_id: dict[str, Operation],
        remembered: dict[str, Operation],
    ) -> None:
        for id, verdict in zip(batch.cancels, verdicts, strict=True):
            if id in by_id:
                batch.cancel_answers.append(_answer(verdict, time_ms, by_id[id]))
            elif id in remembered:
                batch.cancel_answers.append(_answer(ENDED, time_ms, remembered[id]))
            else:
                batch.cancel_answers.append(Answer(UNKNOWN, time_ms))

    def _forget(self, plan: Plan) -> None:
        """Which keys have been idle for so long that they are to be forgotten."""
        if self._forget_after_ms is None or not self._idle:
            return
        before_ms = plan.time_ms - self._forget_after_ms
        used: set[str] | None = None
        for key in islice(self._idle, _FORGET_AT_ONCE):
            entry: KeyProgress = self._keys[key]
            if entry.idle_since_ms >= before_ms:
                break
            if used is None:
                used = {*plan.moved}
                for content in plan.record.submissions:
                    used.update(read_submission(content).requires[::2])
            if key not in used:
                plan.record.forgotten.append(key)

    # Applying.

    def apply(self, plan: Plan) -> None:
        """Change what was planned."""
        self.time_ms = plan.time_ms
        record = plan.record
        self.sequence += len(record.signals) + len(record.submissions) + len(record.cancelled)
        self.outcome += len(plan.outcomes)
        for _ in range(plan.overdue):
            self._overdue.popleft()
        self._remove(plan)
        for key, offset in plan.moved.items():
            self._advance(key, offset, plan.time_ms)
        arrivals = [arrival for arrival in plan.arrivals if not _is_over(arrival.waiting)]
        if arrivals:
            self._park(arrivals)
        for key in record.forgotten:
            del self._keys[key]
            del self._idle[key]

    def _remove(self, plan: Plan) -> None:
        """Take what ended out of everything."""
        handles = []
        for submission_ in plan.ended:
            submission: Submission = submission_
            waiting: Waiting = submission.waiting
            waiting.is_over = True
            if waiting.place == 0:  # it came with this batch, and never waited
                continue
            del self._waiting[submission.id]
            if waiting.handle >= 0:
                handles.append(waiting.handle)
                self._by_slot[waiting.handle & _SLOT] = None
            self._leave(waiting, submission.requires, plan.time_ms)
        if handles:
            self._wheel.cancel_many(array("q", handles))

    def _leave(self, waiting: Waiting, requires: tuple[Any, ...], time_ms: int) -> None:
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
            entry = _new_key()
            self._keys[key] = entry
        return entry

    # Snapshots, and starting from one.

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

    def restore(
        self,
        time_ms: int,
        sequence: int,
        outcome: int,
        progress: Iterable[tuple[str, int, int]],
        parked: Iterable[Parked],
    ) -> None:
        """Start from here: what waits, in the order of submission, and how far keys have come."""
        self.time_ms = time_ms
        self.sequence = sequence
        self.outcome = outcome
        self._wheel = DeadlineWheel(start_ms=time_ms)
        for key, offset, idle_since_ms in sorted(progress, key=_by_idleness):
            entry = self._entry(key)
            entry.has_progress = True
            entry.progress = offset
            entry.idle_since_ms = idle_since_ms
            self._idle[key] = None
        arrivals: list[Submission] = []
        no_moves: dict[str, int] = {}
        for number, submitted_ms, content in parked:
            submission: Submission = read_submission(content)
            waiting: Waiting = _new_waiting(
                content, number, submitted_ms, submitted_ms + submission.timeout_ms
            )
            submission.waiting = waiting
            self._settle(waiting, submission, no_moves)
            if waiting.missing <= 0 or submission.id in self._waiting:
                raise BadFile(
                    f"operation {submission.id!r} (number {number}) waits although it cannot: "
                    "journal and snapshot do not fit together"
                )
            arrivals.append(submission)
            if len(arrivals) == 1000:
                self._park(arrivals)
                arrivals = []
        if arrivals:
            self._park(arrivals)


def _new_waiting(content: bytes, number: int, submitted_ms: int, deadline_ms: int) -> Waiting:
    waiting = Waiting.__new__(Waiting)
    waiting.content = content
    waiting.number = number
    waiting.submitted_ms = submitted_ms
    waiting.deadline_ms = deadline_ms
    waiting.handle = -1
    waiting.place = 0
    waiting.missing = 0
    waiting.missing_then = 0
    waiting.plan = 0
    waiting.is_overdue = False
    waiting.is_over = False
    return waiting


def _new_key() -> KeyProgress:
    entry = KeyProgress.__new__(KeyProgress)
    entry.progress = 0
    entry.has_progress = False
    entry.root = 0
    entry.waiters = 0
    entry.unmet = 0
    entry.idle_since_ms = 0
    return entry


def _as_operation(waiting: Waiting) -> Operation:
    return new_operation(waiting.content, WAITING, waiting.submitted_ms, 0, None, 0)


def _answer(verdict: str, at_ms: Any, operation: Any) -> Answer:
    """Make an answer that the garbage collector need not look at: it leads to no other."""
    if cython.compiled:  # a named tuple's own constructor takes six times as long
        answer = PyType_GenericAlloc(Answer, 4)
        Py_INCREF(verdict)
        PyTuple_SET_ITEM(answer, 0, verdict)
        Py_INCREF(at_ms)
        PyTuple_SET_ITEM(answer, 1, at_ms)
        Py_INCREF(operation)
        PyTuple_SET_ITEM(answer, 2, operation)
        Py_INCREF(None)
        PyTuple_SET_ITEM(answer, 3, None)
        PyObject_GC_UnTrack(answer)
        return answer
    return Answer(verdict, at_ms, operation)


def _compared(submission: Submission, operation: Operation, at_ms: Any) -> Answer:
    """The answer to a submission under an id that is taken."""
    if is_same(submission.content, operation.content):
        return _answer(DUPLICATE, at_ms, operation)
    error = IdTaken(
        f"{submission.id!r} was submitted before with other content; "
        "use another id, or get() to see what is there"
    )
    return Answer(REFUSED, None, None, error)


def _full(id: str, max_waiting: int) -> Answer:
    error = Full(
        f"{id!r} was refused: {max_waiting} operations wait, and no more are "
        "allowed (max_waiting); try later"
    )
    return Answer(REFUSED, None, None, error)


def _expiry(waiting: Waiting) -> Any:
    """As `endings` have it."""
    return waiting.deadline_ms, waiting.number, _submission_of(waiting), EXPIRED, None


def _submission_of(waiting: Waiting) -> Submission:
    submission: Submission = read_submission(waiting.content)
    submission.waiting = waiting
    return submission


def _is_over(waiting: Waiting) -> bool:
    return waiting.is_over


def _by_deadline(waiting: Waiting) -> Any:
    return waiting.deadline_ms, waiting.number


def _by_time(ending: Any) -> Any:
    return ending[0], ending[1]


def _by_count(row: tuple[str, int]) -> Any:
    return row[1], row[0]


def _by_idleness(row: tuple[str, int, int]) -> int:
    return row[2]
