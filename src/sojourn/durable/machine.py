"""The machine: what a batch of commands changes, decided before it is written and applied after.

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
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from collections import deque
from collections.abc import Iterable
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
    Answer,
    Operation,
)
from sojourn.durable.plan import Batch, Plan
from sojourn.durable.records import BatchRecord, Parked
from sojourn.errors import BadFile, Full, IdTaken

if cython.compiled:
    from cython.cimports.cpython.ref import Py_INCREF
    from cython.cimports.cpython.tuple import PyTuple_SET_ITEM
    from cython.cimports.cpython.type import PyType_GenericAlloc
    from cython.cimports.sojourn.core.collector import PyObject_GC_UnTrack
else:
    from sojourn.durable.answers import new_operation
    from sojourn.durable.room import WaitingRoom
    from sojourn.durable.submissions import Submission, is_same, read_submission
    from sojourn.durable.waiting import (
        KeyProgress,
        Waiting,
        as_operation,
        is_over,
        new_waiting,
        submission_of,
    )

_FORGET_AT_ONCE = 1_000  # keys, in a batch
_NEVER = 2**62
_RESTORED_AT_ONCE = 1_000  # operations


class Machine(WaitingRoom):
    """The state of a durable purgatory, which batches of commands change."""

    def __init__(
        self,
        *,
        max_waiting: int = _NEVER,
        forget_keys_after_ms: int | None = None,
        expire_at_once: int = _NEVER,
    ) -> None:
        super().__init__()
        self.sequence = 0  # of the last command
        self.outcome = 0  # number of the last one
        self._max_waiting = max_waiting
        self._forget_after_ms = forget_keys_after_ms
        self._expire_at_once = expire_at_once  # in a batch
        self._plans = 0
        self._overdue: deque[Waiting] = deque()  # by deadline and submission

    @property
    def next_ms(self) -> int | None:
        """A batch before this time would expire nothing; None when nothing waits."""
        if self._overdue:
            return self.time_ms + 1
        next_ms = self._wheel.next_expiration_ms
        return None if next_ms is None else next_ms + 1

    def others(self, batch: Batch) -> list[str]:
        """Those of the batch's ids that do not wait: they may have ended."""
        ids = []
        for submission_ in batch.submissions:
            submission: Submission = submission_
            if submission.id not in self._waiting:
                ids.append(submission.id)
        ids += [id for id in batch.cancels if id not in self._waiting]
        return ids

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
            self._number_outcomes(plan, endings, by_id)
            self._answer_with_endings(time_ms, batch, by_id)
        self._answer_cancels(time_ms, batch, cancels, by_id, remembered)
        if len(plan):
            self._forget(plan)
        return plan

    def _expire(self, plan: Plan, endings: list[Any]) -> None:
        """A: what is overdue leaves the wheel; it still waits until the plan is applied."""
        overdue = self._overdue
        handles = self._wheel.advance(plan.time_ms - 1)
        if handles:
            overdue.extend(self._take_off_wheel(handles))
        while overdue and is_over(overdue[0]):  # by a cancel
            overdue.popleft()
        plan.overdue = min(len(overdue), self._expire_at_once)
        for waiting_ in islice(overdue, plan.overdue):
            waiting: Waiting = waiting_
            if not waiting.is_over:
                endings.append(_expiry(waiting))

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
            submission = submission_of(waiting)
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
                answers.append(_answer_taken_id(submission, as_operation(waiting), at_ms))
            elif id in all_waiting:
                waiting = all_waiting[id]
                answers.append(_answer_taken_id(submission, as_operation(waiting), at_ms))
            elif remembered and id in remembered:
                answers.append(_answer_taken_id(submission, remembered[id], at_ms))
            elif room <= 0:
                answers.append(_full(id, self._max_waiting))
            else:
                number += 1
                contents.append(submission.content)
                waiting = new_waiting(
                    submission.content, number, time_ms, time_ms + submission.timeout_ms
                )
                submission.waiting = waiting
                key = self._count_missing(waiting, submission, moved)
                arrivals[id] = submission
                if waiting.missing <= 0:
                    endings.append((time_ms, number, submission, COMPLETED, key))
                else:
                    room -= 1
                answers.append(_answer(ACCEPTED, at_ms, as_operation(waiting)))
        return arrivals

    def _count_missing(
        self, waiting: Waiting, submission: Submission, moved: dict[str, int]
    ) -> Any:
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
                    submission = submission_of(waiting)
                else:
                    waiting = submission.waiting
                endings.append((plan.time_ms, waiting.number, submission, CANCELLED, None))
                ending_ids.add(id)
                plan.record.cancelled.append(waiting.number)
                verdicts.append(ACCEPTED)
        return verdicts

    def _number_outcomes(self, plan: Plan, endings: list[Any], by_id: dict[str, Operation]) -> None:
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

    def _answer_with_endings(self, time_ms: int, batch: Batch, by_id: dict[str, Operation]) -> None:
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
        self._remove(plan.ended, plan.time_ms)
        for key, offset in plan.moved.items():
            self._advance(key, offset, plan.time_ms)
        arrivals = [arrival for arrival in plan.arrivals if not is_over(arrival.waiting)]
        if arrivals:
            self._park(arrivals)
        for key in record.forgotten:
            del self._keys[key]
            del self._idle[key]

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
            waiting: Waiting = new_waiting(
                content, number, submitted_ms, submitted_ms + submission.timeout_ms
            )
            submission.waiting = waiting
            self._count_missing(waiting, submission, no_moves)
            if waiting.missing <= 0 or submission.id in self._waiting:
                raise BadFile(
                    f"operation {submission.id!r} (number {number}) waits although it cannot: "
                    "journal and snapshot do not fit together"
                )
            arrivals.append(submission)
            if len(arrivals) == _RESTORED_AT_ONCE:
                self._park(arrivals)
                arrivals = []
        if arrivals:
            self._park(arrivals)


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


def _answer_taken_id(submission: Submission, operation: Operation, at_ms: Any) -> Answer:
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
    return waiting.deadline_ms, waiting.number, submission_of(waiting), EXPIRED, None


def _by_time(ending: Any) -> Any:
    return ending[0], ending[1]


def _by_idleness(row: tuple[str, int, int]) -> int:
    return row[2]
