"""The purgatory and its operations, on a clock moved by hand: what is called, and what intrudes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sojourn import ManualClock, Purgatory
from tests.core.naive_purgatory import Program, Real, RealRun, Run, Spec
from tests.core.random_runs import SHARED, settled
from tests.core.sweep.cases import Action, Case, Step, World, crossed
from tests.core.sweep.naive_purgatories import NaivePurgatories, WatchedRun

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


class RealPurgatories(WatchedRun, RealRun):
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

    def outcome(self, number: int) -> str:
        operation = self._made.get(number)
        if operation is None:
            return f"{number}:pending,no future"
        return f"{number}:{operation.state},{settled(operation.future)}"


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
        partial(NaivePurgatories, _PROGRAM),
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
