"""Operations that wait for progress: what is called, and what intrudes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sojourn.errors import Closed
from tests.core.naive_purgatory import NaiveRun, Program, Real, Record, Spec
from tests.core.random_runs import SHARED
from tests.core.sweep.cases import Action, Case, Step
from tests.core.sweep.naive_purgatories import NaivePurgatories
from tests.core.sweep.purgatories import RealPurgatories, with_keys_of_both_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

_MANY = 6
_SPECS = (
    # These wait.
    Spec(timeout_ms=50, keys=("a", "b"), offset=5, needed=2),
    Spec(timeout_ms=51, keys=("a",), offset=3, needed=1),
    Spec(timeout_ms=52, keys=("a", "b"), offset=4, needed=1),
    Spec(timeout_ms=53, keys=("b",), offset=2, needed=1, with_future=True),
    Spec(timeout_ms=3, keys=("c",), offset=9, needed=1),
    # These come.
    Spec(timeout_ms=54, keys=("a", "b", "c"), offset=6, needed=2),
    Spec(timeout_ms=55, keys=("b", "d"), offset=2, needed=1, with_future=True),
    Spec(timeout_ms=58, keys=("a",), offset=1, needed=1),
    Spec(timeout_ms=57, keys=tuple(f"k{n}" for n in range(6)), offset=9, needed=3),
    # These come with the intrusion.
    Spec(timeout_ms=56, keys=("a",), offset=3, needed=1),
    Spec(timeout_ms=700, keys=("b", "e"), offset=9, needed=1, with_future=True),
    # These come all at once, the second half with the intrusion.
    *(Spec(timeout_ms=60 + n, keys=("a",), offset=9 + n, needed=1) for n in range(2 * _MANY)),
)
_FIRST_OF_MANY = len(_SPECS) - 2 * _MANY
_PROGRAM = Program(SHARED, 1, _SPECS, ())


class RealProgress(RealPurgatories):
    """Operations by number that wait for progress in a purgatory."""

    def __init__(self, key: Any = str) -> None:
        super().__init__(key, _PROGRAM)

    def _row(self, number: int) -> tuple[Real, list[Any], int]:
        operation = self._operation(number)
        spec = operation.spec
        return operation, [(self._key(key), spec.offset) for key in spec.keys], spec.needed

    def submit(self, number: int) -> Action:
        operation, requires, needed = self._row(number)
        if operation.spec.with_future:
            return Action(partial(self._submit_for_progress, operation, requires, needed))
        submit = partial(
            self._purgatory.try_complete_else_watch, operation, requires=requires, needed=needed
        )
        return Action(submit, self._claim)

    def _submit_for_progress(self, operation: Real, requires: list[Any], needed: int) -> None:
        operation.future = self._purgatory.submit(operation, requires=requires, needed=needed)

    def submit_many(self, first: int) -> Action:
        rows = [self._row(first + n) for n in range(_MANY)]
        return Action(partial(self._purgatory.submit_many, rows), self._claim)

    def signal_to(self, key: str, offset: int) -> Action:
        return Action(partial(self._purgatory.signal, self._key(key), offset), self._claim)

    def signal_many(self, *signals: tuple[str, int]) -> Action:
        given = [(self._key(key), offset) for key, offset in signals]
        return Action(partial(self._purgatory.signal_many, given), self._claim)

    def progress_of(self, key: str) -> Action:
        return Action(partial(self._purgatory.progress, self._key(key)))

    def waiting(self, key: str) -> Action:
        return Action(
            partial(self._purgatory.waiting, self._key(key)),
            lambda operations: sorted(operation.number for operation in operations),
        )

    def everybody(self) -> Action:
        return Action(self._purgatory.waiting, lambda _: None)  # key after key, so not one moment

    def wait(self, key: str, offset: int) -> Action:
        return Action(
            partial(self._purgatory.wait, requires=[(self._key(key), offset)], timeout_ms=10)
        )

    def audit(self) -> Action:
        return Action(self._purgatory.audit)


class NaiveProgress(NaivePurgatories):
    """The naive purgatory, in which an operation waits until its keys have come to its offset."""

    def __init__(self, program: Program = _PROGRAM) -> None:
        super().__init__(program)

    def _submit(self, number: int) -> bool:
        record = self._records[number]
        now_ms = self._now_ms
        if not self._take(record):
            return False
        if self.holds(number):
            record.state = "completed"
            self._totals["completed"] += 1
            self._finish(record)
            return True
        record.watched = record.delayed = True
        record.deadline_ms = now_ms + record.spec.timeout_ms
        self._waiting.append(record)
        return False

    def _finish(self, record: Record) -> None:
        self.gap()
        self.completed(record.number)
        self.gap()
        if record.future == "pending":
            record.future = "True"

    def submit_many(self, first: int) -> Action:
        numbers = range(first, first + _MANY)
        return Action(lambda: sum([self._submit(number) for number in numbers]), self._claim)

    def signal_to(self, key: str, offset: int) -> Action:
        return Action(partial(self._signal_to, key, offset), self._claim)

    def signal_many(self, *signals: tuple[str, int]) -> Action:
        return Action(
            lambda: sum([self._signal_to(key, offset) for key, offset in signals]), self._claim
        )

    def _signal_to(self, key: str, offset: int) -> int:
        self.gap()
        self._progress[key] = max(self._progress[key], offset)
        satisfied = [
            record
            for record in self._waiting
            if key in record.spec.keys and record.state == "pending" and self.holds(record.number)
        ]
        satisfied.sort(key=lambda record: record.spec.offset)
        for record in satisfied:
            record.state = "completed"
            self._totals["completed"] += 1
            self._leave(record)
        for record in satisfied:
            self._finish(record)
        return len(satisfied)

    def progress_of(self, key: str) -> Action:
        return Action(lambda: self._progress[key] or None)

    def waiting(self, key: str) -> Action:
        return Action(lambda: sorted(record.number for record in self._on(key)))

    def _on(self, key: str) -> list[Record]:
        missing = [r for r in super()._on(key) if self._progress[key] < r.spec.offset]
        return sorted(missing, key=lambda record: record.spec.offset)

    def everybody(self) -> Action:
        return Action(int, lambda _: None)

    def _everybody(self) -> list[Record]:
        """Key by key."""
        by_key = [record for key in sorted(self._keys()) for record in self._on(key)]
        return list(dict.fromkeys(by_key))

    def _keys(self) -> set[str]:
        return {key for record in self._waiting for key in record.spec.keys}

    def wait(self, key: str, offset: int) -> Action:
        def wait() -> bool:
            assert self._progress[key] >= offset, "nobody would bring the news"
            self.gap()
            if self._closed:
                raise Closed
            self._totals["completed"] += 1
            return True

        return Action(wait)

    def audit(self) -> Action:
        return Action(lambda: 0)

    def counts(self) -> tuple[int, int, int]:
        missing = [
            sum(self._progress[key] < record.spec.offset for key in record.spec.keys)
            for record in self._waiting
        ]
        return (sum(missing), *NaiveRun.counts(self)[1:])


_WAITING: tuple[Step, ...] = tuple(("submit", number) for number in range(5))
_CALLS: tuple[tuple[tuple[Step, ...], Step], ...] = (
    ((), ("submit", 5)),
    ((), ("submit", 6)),
    ((("signal_to", "a", 1),), ("submit", 7)),
    ((), ("submit", 8)),
    ((), ("submit_many", _FIRST_OF_MANY)),
    ((), ("signal_to", "a", 2)),
    ((), ("signal_to", "a", 4)),
    ((), ("signal_to", "nobody", 4)),
    ((), ("signal_many", ("a", 5), ("b", 5))),
    ((), ("progress_of", "a")),
    ((), ("waiting", "a")),
    ((), ("everybody",)),
    ((("signal_to", "d", 1),), ("wait", "d", 1)),
    ((), ("cancel_key", "a")),
    ((), ("cancel", 2)),
    ((), ("force", 1)),
    ((), ("advance", 3)),
    ((), ("advance", 51)),
    ((), ("audit",)),
    ((), ("metrics",)),
    ((), ("close_purgatory",)),
)
_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("cancel", 2), ("cancel", 0)),
    (("submit", 9),),
    (("submit", 10), ("cancel", 1)),
    (("submit_many", _FIRST_OF_MANY + _MANY),),
    (("signal_to", "a", 4),),
    (("signal_to", "b", 9),),
    (("cancel_key", "b"),),
    (("force", 2), ("force", 5)),
    (("advance", 51),),
    (("close_purgatory",),),
)
_THE_END: tuple[Step, ...] = (
    ("advance", 0),
    ("progress_of", "a"),
    ("waiting", "a"),
    *(("advance", ms) for ms in (2, 50)),
    ("signal_to", "a", 12),
    *(("advance", ms) for ms in (10, 700)),
    ("signal_to", "b", 9),
)


def _waits(call: Step, intrusion: tuple[Step, ...]) -> bool:
    """Whether another thread with this intrusion may have to wait for the call, and rightly so."""
    if call[0] == "advance":  # which is for one thread at a time
        return bool(intrusion[0][0] == "advance")
    # A future that is being given a callback has its own lock taken.
    return call == ("submit", 6) and intrusion[0][0] not in ("cancel", "submit", "submit_many")


def cases() -> Iterator[Case]:
    few = ("submit", "signal_to", "waiting"), _INTRUSIONS[1::3]
    yield from with_keys_of_both_kinds(
        "Purgatory for progress",
        RealProgress,
        NaiveProgress,
        _WAITING,
        _CALLS,
        _INTRUSIONS,
        few,
        _THE_END,
        _waits,
    )
