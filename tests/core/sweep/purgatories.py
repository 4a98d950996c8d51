"""The purgatory and its operations, on a clock moved by hand: what is called, and what intrudes."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from sojourn import ManualClock, Purgatory
from sojourn.errors import AlreadyWaiting, Closed
from tests.core.models.naive_timer import next_stop_ms
from tests.core.naive_purgatory import NaiveRun, Program, Real, RealRun, Record, Run, Spec
from tests.core.random_runs import SHARED, settled
from tests.core.sweep.cases import Action, Case, Seen, Step, World, crossed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

_NEVER = 99  # an offset that no key comes to
_SPECS = (
    # These wait.
    Spec(timeout_ms=50, keys=("a", "b"), offset=_NEVER, needed=1),
    Spec(timeout_ms=51, keys=("a",), offset=1, needed=1),
    Spec(timeout_ms=52, keys=("a", "b"), offset=1, needed=1, just_true=True),
    Spec(timeout_ms=53, keys=("b",), offset=1, needed=1, with_future=True),
    Spec(timeout_ms=3, keys=("c",), offset=_NEVER, needed=1, with_future=True),
    # These come.
    Spec(timeout_ms=54, keys=("a", "b", "c"), offset=1, needed=1),
    Spec(timeout_ms=55, keys=("b", "d"), offset=1, needed=1, with_future=True),
    Spec(timeout_ms=58, keys=("a",), offset=0, needed=1),
    Spec(timeout_ms=0, keys=("a", "d"), offset=_NEVER, needed=1),
    Spec(timeout_ms=57, keys=tuple(f"k{n}" for n in range(6)), offset=_NEVER, needed=1),
    Spec(timeout_ms=59, keys=("a",), offset=0, needed=1, raises="on_complete", with_future=True),
    # These come with the intrusion.
    Spec(timeout_ms=56, keys=("a",), offset=1, needed=1),
    Spec(timeout_ms=700, keys=("b", "e"), offset=_NEVER, needed=1, with_future=True),
)
_PROGRAM = Program(SHARED, 1, _SPECS, ())


class _Watched(World, Run):
    """What is seen of a purgatory at the end, real or naive."""

    def _begin(self) -> None:
        World.__init__(self)
        self.callbacks: list[tuple[int, int, str]] = []
        self._progress: dict[str, int] = defaultdict(int)
        self._claims: int | None = 0

    def _claim(self, completed: Any) -> None:
        if self._claims is not None:
            self._claims += int(completed)

    def _forget_claims(self) -> None:
        # Forced from inside its own try, by whomever: the try has completed it, and so has the
        # one who forced it.
        self._claims = None

    # User code that makes as few objects as it can: each is one more place for a collection.

    def holds(self, number: int) -> bool:
        spec = self.program.specs[number]
        there = 0
        for key in spec.keys:
            if self._progress[key] >= spec.offset:
                there += 1
        return there >= spec.needed

    def completed(self, number: int) -> None:
        self._called(number, "on_complete")

    def expired(self, number: int) -> None:
        self._called(number, "on_expiration")

    def _called(self, number: int, what: str) -> None:
        now_ms = self.now_ms()
        self.gap()
        self.callbacks.append((now_ms, number, what))

    def quiet(self, key: str) -> Action:
        def quiet() -> None:
            self._progress[key] += 1

        return Action(quiet)


class RealPurgatories(_Watched, RealRun):
    """Operations by number in a purgatory."""

    def __init__(self, key: Callable[[str], Hashable] = str, program: Program = _PROGRAM) -> None:
        Run.__init__(self, program)
        self._begin()
        self._clock = ManualClock()
        self._purgatory = Purgatory(clock=self._clock)
        self._made: dict[int, Real] = {}
        self._key = key

    def _operation(self, number: int) -> Real:
        """Made when it is first needed: a point has to be quick."""
        if number not in self._made:
            self._made[number] = Real(self, number, self.program.specs[number])
        return self._made[number]

    def submit(self, number: int) -> Action:
        operation = self._operation(number)
        keys = [self._key(key) for key in operation.spec.keys]
        if operation.spec.with_future:
            return Action(partial(self._submit_with_future, operation, keys))
        submit = self._purgatory.try_complete_else_watch
        return Action(partial(submit, operation, keys), self._claim)

    def _submit_with_future(self, operation: Real, keys: list[Hashable]) -> None:
        operation.future = self._purgatory.submit(operation, keys)

    def signal(self, key: str) -> Action:
        return Action(partial(self._purgatory.check_and_complete, self._key(key)), self._claim)

    def news(self, key: str) -> Action:
        signal = self.signal(key).do

        def news() -> Any:
            self._progress[key] += 1
            return signal()

        return Action(news, self._claim)

    def cancel_key(self, key: str) -> Action:
        return Action(
            partial(self._purgatory.cancel_for_key, self._key(key)),
            lambda operations: [operation.number for operation in operations],
        )

    def cancel(self, number: int) -> Action:
        return Action(self._operation(number).cancel)

    def force(self, number: int) -> Action:
        self._forget_claims()
        return Action(self._operation(number).force_complete)

    def safe_try(self, number: int) -> Action:
        return Action(self._operation(number).safe_try_complete, self._claim)

    def safe_try_or_else(self, number: int, key: str) -> Action:
        progress = self.quiet(key).do
        return Action(
            partial(self._operation(number).safe_try_complete_or_else, progress), self._claim
        )

    def advance(self, ms: int) -> Action:
        return Action(partial(self._clock.advance, ms))

    def metrics(self) -> Action:
        return Action(self._purgatory.metrics, lambda _: None)

    def close_purgatory(self) -> Action:
        return Action(self._purgatory.close)

    def seen(self) -> Seen:
        return (
            self.counts(),
            self.totals(),
            self._claims,
            self._clock.now_ms,
            tuple(self.callbacks),
            tuple(self._outcome(number) for number in range(len(self.program.specs))),
        )

    def _outcome(self, number: int) -> str:
        operation = self._made.get(number)
        if operation is None:
            return f"{number}:pending,no future"
        return f"{number}:{operation.state},{settled(operation.future)}"


class NaivePurgatories(_Watched, NaiveRun):
    """The naive purgatory, with a gap wherever the real one is between two atomic steps.

    An operation that is being tried in the call that has the gap cannot be tried in the gap: the
    news is kept for that call. Another thread can also not try while the call has its lock.
    """

    def __init__(self, program: Program = _PROGRAM) -> None:
        NaiveRun.__init__(self, program)
        self._begin()
        self._closed = False
        self._stay = [0] * len(program.specs)
        self._tried: set[int] = set()
        self._locked: set[int] = set()
        self._again: set[int] = set()
        self._intruding = False

    def action(self, step: Step) -> Action:
        return World.action(self, step)

    def submit(self, number: int) -> Action:
        with_future = self._records[number].spec.with_future
        do = partial(self._submit, number)
        return Action(do, lambda _: None) if with_future else Action(do, self._claim)

    def _submit(self, number: int) -> bool:
        record = self._records[number]
        if not self._take(record):
            return False
        self._stay[number] += 1
        stay = self._stay[number]
        completed = self._try_and_watch(record, stay)
        if self._stays(record, stay):
            self._arm(record, stay)
        return completed

    def _take(self, record: Record) -> bool:
        """Say whether it may wait from now on; raise if it never may."""
        self.gap()
        if self._closed:
            raise Closed
        if record.state in ("completed", "expired"):
            if record.spec.with_future:
                raise AlreadyWaiting
            return False
        if record.kept and record.state == "pending":
            raise AlreadyWaiting
        record.state = "pending"
        record.kept = True
        if record.spec.with_future:
            record.future = "pending"
        return True

    def _stays(self, record: Record, stay: int) -> bool:
        self.gap()
        return record.state == "pending" and self._stay[record.number] == stay

    def _try_and_watch(self, record: Record, stay: int) -> bool:
        self.gap()
        self._locked.add(record.number)
        completed = self._attempt(record)
        if not completed and self._stays(record, stay):
            record.watched = True
            self._waiting.append(record)
            self.gap()
            completed = self._attempt(record)
        self.gap()
        self._locked.discard(record.number)
        return self._attempt_again(record) or completed

    def _arm(self, record: Record, stay: int) -> None:
        if self._closed:
            self._cancel(record.number)
            self._refuse(record)
        record.delayed = True
        stays = self._stays(record, stay)
        if self._closed:  # and with it the timer
            self._refuse(record)
        if not stays:
            return
        if record.spec.timeout_ms > 0:
            record.deadline_ms = self.deadline_ms(record.spec.timeout_ms)
        else:
            self._due.append(record)
            self.gap()
            if not self._running:
                self._run_due()

    def _refuse(self, record: Record) -> NoReturn:
        record.future = "no future"  # it was cancelled, and never handed out
        raise Closed

    def signal(self, key: str) -> Action:
        return Action(partial(self._signal, key), self._claim)

    def news(self, key: str) -> Action:
        def news() -> int:
            self._progress[key] += 1
            return self._signal(key)

        return Action(news, self._claim)

    def _signal(self, key: str) -> int:
        completed = 0
        for record in self._on(key):
            self.gap()
            if record.kept:
                self._again.add(record.number)
                completed += self._attempt_again(record)
        return completed

    def cancel_key(self, key: str) -> Action:
        return Action(partial(self._cancel_key, key))

    def _cancel_key(self, key: str) -> list[int]:
        cancelled = []
        for record in self._on(key):
            self.gap()
            if self._cancel(record.number):
                cancelled.append(record.number)
        return cancelled

    def _on(self, key: str) -> list[Record]:
        """Who waits on the key, in the order in which they are told of news."""
        return [record for record in self._waiting if key in record.spec.keys]

    def _everybody(self) -> list[Record]:
        return list(self._waiting)

    def cancel(self, number: int) -> Action:
        return Action(partial(self._cancel, number))

    def _cancel(self, number: int) -> bool:
        if self._records[number].state == "pending" and self._records[number].kept:
            self._stay[number] += 1
        return bool(NaiveRun.cancel(self, number))

    def force(self, number: int) -> Action:
        self._forget_claims()
        return Action(lambda: self._end(self._records[number], "completed"))

    def safe_try(self, number: int) -> Action:
        return Action(partial(self._safe_try, number, None), self._claim)

    def safe_try_or_else(self, number: int, key: str) -> Action:
        return Action(partial(self._safe_try, number, key), self._claim)

    def _safe_try(self, number: int, key: str | None) -> bool:
        record = self._records[number]
        self._locked.add(number)
        completed = self._attempt(record)
        if not completed and key is not None:
            self._progress[key] += 1
            self.gap()
            completed = self._attempt(record)
        self._locked.discard(number)
        self.gap()
        return self._attempt_again(record) or completed

    def advance(self, ms: int) -> Action:
        return Action(partial(self._advance, ms))

    def _advance(self, ms: int) -> None:
        target_ms = self._now_ms + ms
        while True:
            self.gap()
            deadlines_ms = [r.deadline_ms for r in self._waiting if r.deadline_ms is not None]
            stop_ms = next_stop_ms(self._now_ms, target_ms, deadlines_ms, wheel_size=20)
            if stop_ms is None:
                break
            self.gap()
            self._now_ms = max(self._now_ms, stop_ms)
            self.gap()
            for _, record in sorted(
                (r.deadline_ms, r)
                for r in self._waiting
                if r.deadline_ms is not None and r.deadline_ms <= self._now_ms
            ):
                record.deadline_ms = None
                self._due.append(record)
            self._run_due()
        self._now_ms = max(self._now_ms, target_ms)

    def metrics(self) -> Action:
        return Action(int, lambda _: None)

    def close_purgatory(self) -> Action:
        return Action(self._close)

    def _close(self) -> int:
        self._closed = True
        dropped = 0
        for record in self._everybody():
            self.gap()
            dropped += self._cancel(record.number)
        self.gap()
        self._run_due()
        return dropped

    def _attempt(self, record: Record) -> bool:
        number = record.number
        if record.state != "pending":
            return False
        self._tried.add(number)
        self.gap()
        holds = self.holds(number)
        self.gap()
        completed = False
        if record.state == "pending" and holds:
            if record.spec.raises == "try_complete":
                self._fail(record)
            completed = self._end(record, "completed")
        self._tried.discard(number)
        return completed

    def _attempt_again(self, record: Record) -> bool:
        number = record.number
        completed = False
        while number in self._again:
            if number in self._tried or (number in self._locked and self.intruded_from_a_thread):
                break
            self._again.discard(number)
            locked = number in self._locked
            self._locked.add(number)
            completed = self._attempt(record) or completed
            if not locked:
                self._locked.discard(number)
            self.gap()
        return completed

    def _end(self, record: Record, state: str) -> bool:
        again = record.state == "cancelled" and state == "completed"
        if record.state != "pending" and not again:
            return False
        record.state = state
        record.deadline_ms = None
        if record in self._due:
            self._due.remove(record)
        self.gap()
        kept = record.kept
        self._leave(record)
        if kept:
            self._totals[state] += 1
        self.gap()
        self.completed(record.number)
        if record.spec.raises == "on_complete":
            self._fail(record)
        self.gap()
        if state == "expired":
            self.expired(record.number)
            self.gap()
        if record.future == "pending":
            record.future = "error" if record.failed else str(state == "completed")
        return True

    def _run_due(self) -> None:
        before, self._running = self._running, True
        while self._due:
            self.gap()
            if self._due:
                record = self._due.popleft()
                self.gap()
                self._end(record, "expired")
        self._running = before

    def seen(self) -> Seen:
        return (
            self.counts(),
            self.totals(),
            self._claims,
            self._now_ms,
            tuple(self.callbacks),
            tuple(self.outcome(number) for number in range(len(self.program.specs))),
        )


class UserKey:
    """A key with an `__eq__` and a `__hash__` of its own; all hashes collide."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserKey) and self._name == other._name

    def __hash__(self) -> int:
        return 7


_WAITING: tuple[Step, ...] = tuple(("submit", number) for number in range(5))
_CALLS: tuple[tuple[tuple[Step, ...], Step], ...] = (
    ((), ("submit", 5)),
    ((("quiet", "c"),), ("submit", 5)),
    ((), ("submit", 6)),
    ((), ("submit", 7)),
    ((), ("submit", 8)),
    ((), ("submit", 9)),
    ((), ("submit", 10)),
    ((), ("signal", "a")),
    ((("quiet", "a"),), ("signal", "a")),
    ((("quiet", "b"),), ("signal", "b")),
    ((), ("signal", "nobody")),
    ((), ("cancel_key", "a")),
    ((), ("cancel_key", "nobody")),
    ((), ("cancel", 2)),
    ((), ("cancel", 3)),
    ((), ("force", 1)),
    ((), ("force", 3)),
    ((("quiet", "a"),), ("safe_try", 1)),
    ((), ("safe_try_or_else", 1, "a")),
    ((), ("advance", 3)),
    ((), ("advance", 51)),
    ((), ("metrics",)),
    ((), ("close_purgatory",)),
)
_INTRUSIONS: tuple[tuple[Step, ...], ...] = (
    (("cancel", 2), ("cancel", 0)),
    (("cancel", 5),),
    (("submit", 11),),
    (("submit", 12), ("cancel", 1)),
    (("news", "a"),),
    (("news", "b"),),
    (("signal", "a"), ("metrics",)),
    (("cancel_key", "a"),),
    (("cancel_key", "b"),),
    (("force", 2), ("force", 5), ("force", 6)),
    (("advance", 3),),
    (("advance", 51),),
    (("close_purgatory",),),
)
_THE_END: tuple[Step, ...] = (
    ("advance", 0),
    ("signal", "a"),
    *(("advance", ms) for ms in (2, 5, 44, 1, 10, 700)),
    ("signal", "b"),
)


def _waits(call: Step, intrusion: tuple[Step, ...]) -> bool:
    """Whether another thread with this intrusion may have to wait for the call, and rightly so."""
    verb, *what = call
    if verb == "advance":  # which is for one thread at a time
        return bool(intrusion[0][0] == "advance")
    # A future that is being given a callback has its own lock taken.
    ends_others = intrusion[0][0] in ("news", "force", "cancel_key", "close_purgatory")
    return bool(verb == "submit" and _SPECS[what[0]].with_future and ends_others)


def cases() -> Iterator[Case]:
    few = ("submit", "signal", "cancel_key"), _INTRUSIONS[2::3]
    yield from with_keys_of_both_kinds(
        "Purgatory",
        RealPurgatories,
        NaivePurgatories,
        _WAITING,
        _CALLS,
        _INTRUSIONS,
        few,
        _THE_END,
        _waits,
    )


def with_keys_of_both_kinds(
    subject: str,
    real: Callable[..., World],
    naive: Callable[[], World],
    before: tuple[Step, ...],
    calls: tuple[tuple[tuple[Step, ...], Step], ...],
    intrusions: tuple[tuple[Step, ...], ...],
    few: tuple[tuple[str, ...], tuple[tuple[Step, ...], ...]],
    after: tuple[Step, ...],
    waits: Callable[[Step, tuple[Step, ...]], bool],
) -> Iterator[Case]:
    """All with plain keys; a few calls and intrusions with keys of a class of the user's."""
    yield from crossed(subject, real, naive, before, calls, intrusions, after, waits)
    subject += " with keys of a class of the user's"
    of_user, chosen = partial(real, UserKey), [call for call in calls if call[1][0] in few[0]]
    yield from crossed(subject, of_user, naive, before, chosen, few[1], after, waits)
