"""A case: a call, what intrudes on it, and every outcome that a model allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from sojourn.errors import SojournError
from tests.core.sweep.collector import Collector

Step = tuple[Any, ...]  # the name of a world's method, and its arguments
Seen = tuple[Any, ...]

_PATIENCE_S = 5.0


class Action(NamedTuple):
    """A call that is ready to be made, and what of its answer both worlds can know."""

    do: Callable[[], Any]
    tell: Callable[[Any], object] = lambda answer: answer


class World:
    """Something that steps change: a real wheel, timer or purgatory, or the model of one.

    Its methods that steps name return an `Action`. A model calls `gap` wherever the real one is
    between two atomic steps.
    """

    def __init__(self) -> None:
        self.gap: Callable[[], None] = lambda: None
        self.intruded_from_a_thread = False

    def action(self, step: Step) -> Action:
        name, *arguments = step
        action: Action = getattr(self, name)(*arguments)
        return action

    def seen(self) -> Seen:
        """What can be seen of the world at the end."""
        raise NotImplementedError

    def close(self) -> None:
        """Free what the world has taken from the system."""


class Answer(NamedTuple):
    """What a call returned, or the name of its error."""

    tell: Callable[[Any], object]
    returned: object
    error: str = ""

    def told(self) -> object:
        return self.error or self.tell(self.returned)


def answer_of(action: Action) -> Answer:
    """Make the call."""
    try:
        return Answer(action.tell, action.do())
    except SojournError as error:
        return Answer(action.tell, None, type(error).__name__)
    except Exception as error:
        return Answer(action.tell, None, f"raised {error!r}")


class Case(NamedTuple):
    """One call and one intrusion on it."""

    subject: str
    real: Callable[[], World]
    naive: Callable[[], World]
    before: tuple[Step, ...]
    call: Step
    intrusion: tuple[Step, ...]
    after: tuple[Step, ...]
    from_a_thread: bool

    @property
    def name(self) -> str:
        who = "another thread" if self.from_a_thread else "a finaliser"
        return f"{self.called}, while {who} does " + ", ".join(map(_shown, self.intrusion))

    @property
    def called(self) -> str:
        return f"{self.subject} {_shown(self.call)}"


def crossed(
    subject: str,
    real: Callable[[], World],
    naive: Callable[[], World],
    before: tuple[Step, ...],
    calls: Iterable[tuple[tuple[Step, ...], Step]],  # each with steps that come before it
    intrusions: Iterable[tuple[Step, ...]],
    after: tuple[Step, ...],
    waits: Callable[[Step, tuple[Step, ...]], bool] = lambda call, intrusion: False,
) -> Iterator[Case]:
    """Every call with every intrusion, from a finaliser and from another thread.

    Not from another thread where that `waits` for the call, and rightly so.
    """
    for first, call in calls:
        for intrusion in intrusions:
            for from_a_thread in (False, True):
                if not (from_a_thread and waits(call, intrusion)):
                    yield Case(
                        subject,
                        real,
                        naive,
                        before + first,
                        call,
                        intrusion,
                        after,
                        from_a_thread,
                    )


def alone(calls: Iterable[Step]) -> list[tuple[tuple[Step, ...], Step]]:
    """Calls that nothing comes before."""
    return [((), call) for call in calls]


def _shown(step: Step) -> str:
    name, *arguments = step
    return f"{name}({', '.join(map(repr, arguments))})"


class Outcome(NamedTuple):
    """What the call and the intrusion answered, and what was seen afterwards."""

    call: object
    intrusion: tuple[object, ...]
    after: tuple[object, ...]
    seen: Seen


def difference(outcome: Outcome, outcomes: list[Outcome]) -> str:
    """Where the outcome differs from the allowed one that is most like it."""
    return min(("; ".join(_differences(outcome, other)) for other in outcomes), key=len)


def _differences(one: object, other: object) -> Iterator[str]:
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        for pair in zip(one, other, strict=True):
            yield from _differences(*pair)
    elif one != other:
        yield f"{one!r} but the model {other!r}"


def allowed(case: Case) -> list[Outcome]:
    """Every outcome of the model: the intrusion comes before, in some gap, or after."""
    outcomes: list[Outcome] = []
    gap = 0
    while True:
        world = case.naive()
        world.intruded_from_a_thread = case.from_a_thread
        outcome, reached = _with_intrusion_in_gap(world, case, gap)
        if outcome not in outcomes:
            outcomes.append(outcome)
        if not reached:
            return outcomes
        gap += 1


def _with_intrusion_in_gap(world: World, case: Case, chosen: int) -> tuple[Outcome, bool]:
    for step in case.before:
        answer_of(world.action(step))
    action = world.action(case.call)
    intrusion = [world.action(step) for step in case.intrusion]
    answers: list[Answer] = []
    gaps = 0
    intruding = False

    def intrude() -> None:
        nonlocal intruding
        intruding = True
        answers.extend([answer_of(one) for one in intrusion])
        intruding = False

    def gap() -> None:
        nonlocal gaps
        if not intruding:
            gaps += 1
            if gaps == chosen + 1:
                intrude()

    world.gap = gap
    gap()
    call = answer_of(action)
    reached = gaps > chosen
    if not reached:
        intrude()
    world.gap = lambda: None
    return _outcome(world, case, call, answers), reached


def _outcome(world: World, case: Case, call: Answer, intrusion: list[Answer]) -> Outcome:
    after = [answer_of(world.action(step)) for step in case.after]
    return Outcome(
        call.told(),
        tuple(answer.told() for answer in intrusion),
        tuple(answer.told() for answer in after),
        world.seen(),
    )


class Helper:
    """Another thread, which does what it is asked to while the asker waits, but not for ever."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], object], threading.Event]] = SimpleQueue()
        self._patience_s = _PATIENCE_S
        self.kept_waiting = False
        threading.Thread(target=self._work, daemon=True).start()

    def do(self, action: Callable[[], object]) -> None:
        done = threading.Event()
        self._asked.put((action, done))
        if not done.wait(self._patience_s):
            self.kept_waiting = True
            self._patience_s = 0.002  # it is known by now

    def _work(self) -> None:
        while True:
            action, done = self._asked.get()
            action()
            done.set()


class Sweep:
    """Performs cases on the real thing, with a collection at each allocation in turn."""

    def __init__(self) -> None:
        self._collector = Collector()
        self._helper = Helper()
        self._points = 0

    def point(self, case: Case, at: int) -> tuple[Outcome | str, bool]:
        """The outcome with the intrusion at this allocation; and whether the call got that far."""
        world = case.real()
        try:
            return self._point(world, case, at)
        finally:
            world.close()
            self._points += 1
            if self._points % 1_000 == 0:
                self._collector.tidy()

    def _point(self, world: World, case: Case, at: int) -> tuple[Outcome | str, bool]:
        for step in case.before:
            answer_of(world.action(step))
        action = world.action(case.call)
        intrusion = [world.action(step) for step in case.intrusion]
        answers: list[Answer] = []

        def intrude() -> None:
            answers.extend([answer_of(one) for one in intrusion])

        finalise = intrude
        if case.from_a_thread:
            self._helper.kept_waiting = False
            finalise = lambda: self._helper.do(intrude)  # noqa: E731
        call = answer_of(
            Action(partial(self._collector.call, action.do, at, finalise), action.tell)
        )
        if not self._collector.reached:
            intrude()
        elif self._helper.kept_waiting:
            return "another thread could not get in", True
        return _outcome(world, case, call, answers), self._collector.reached
