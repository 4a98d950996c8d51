"""A purgatory written as simply as it can be, and random programs to hold the real one against it.

The naive purgatory is one list that is searched for everything. It has no wheel, no watch lists
and no locks. See random_runs.py for what a program is, and how two runs of it are compared.

Run as a script it performs programs from a seed on the real purgatory and prints the log:

    python -m tests.core.naive_purgatory SEED PROGRAMS STEPS
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from sojourn import ManualClock, Purgatory, Timer
from sojourn.errors import AlreadyWaiting
from tests.core import random_runs
from tests.core.random_runs import SHARED, RealOperation, Step, difference, numbers, print_runs

KEYS = ("a", "b", "c", "d", "e")

# Steps: ("submit" | "cancel" | "force", number), ("news" | "quiet" | "signal" | "cancel_key", key),
# ("advance", ms).


class Spec(NamedTuple):
    """One operation of a program: it completes when `needed` of its keys have come to `offset`."""

    timeout_ms: int
    keys: tuple[str, ...]
    offset: int
    needed: int
    just_true: bool = False
    raises: str = ""
    with_future: bool = False
    reactions: tuple[Step, ...] = ()


class Program(NamedTuple):
    """Operations and what happens to them."""

    kind: str
    tick_ms: int
    specs: tuple[Spec, ...]
    steps: tuple[Step, ...]


def random_program(seed: int, kind: str, steps: int) -> Program:
    """Make a program; the same for the same arguments, on every machine."""
    rng = random.Random(f"{seed} {kind} {steps}")
    number_of_operations = max(4, steps // 2)

    def a_step(reacting: bool) -> Step:
        verb = rng.choices(
            ("submit", "news", "signal", "quiet", "cancel_key", "cancel", "force", "advance"),
            (45, 14, 6, 6, 3, 5, 7, 0 if reacting else 25),
        )[0]
        if verb in ("submit", "cancel", "force"):
            return verb, rng.randrange(number_of_operations)
        if verb == "advance":
            return verb, rng.choice((0, 1, 1, 2, 5, 19, 20, 21, 63, 400))
        return verb, rng.choice(KEYS)

    def a_spec() -> Spec:
        keys = tuple(rng.choices(KEYS, k=rng.choice((1, 1, 2, 3, 5))))
        reactions: tuple[Step, ...] = ()
        if kind != SHARED and rng.random() < 0.25:
            reactions = tuple(a_step(True) for _ in range(rng.randrange(1, 4)))
        return Spec(
            timeout_ms=rng.choice((-3, 0, 1, 2, 5, 19, 20, 21, 50, 137, 399, 400, 801)),
            keys=keys,
            offset=rng.randrange(0, 2 + steps // 12),
            needed=rng.randint(1, len(set(keys))),
            just_true=rng.random() < 0.3,
            raises=rng.choice(("try_complete", "on_complete", "on_expiration"))
            if rng.random() < 0.1
            else "",
            with_future=rng.random() < 0.3,
            reactions=reactions,
        )

    return Program(
        kind,
        rng.choice((1, 1, 1, 3, 20)),
        tuple(a_spec() for _ in range(number_of_operations)),
        tuple(a_step(False) for _ in range(steps)),
    )


class Run(random_runs.Run):
    """One run of a program: the world it changes and the log it writes."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.program = program
        self._progress = dict.fromkeys(KEYS, 0)
        self._coming_in: list[int] = []  # operations that are being submitted

    def perform(self, step: Step) -> None:
        verb, what = step
        answer: object = None
        if verb == "submit":
            answer = "left out"
            if self.may_submit(what):
                self._coming_in.append(what)
                answer = self.submit(what)
                self._coming_in.pop()
        elif verb in ("news", "quiet"):
            self._progress[what] += 1
            answer = self.signal(what) if verb == "news" else None
        else:
            answer = getattr(self, verb)(what)
        self.log.append(f"{verb} {what} -> {answer}")

    def holds(self, number: int) -> bool:
        """Whether the operation's condition holds; user code, so it writes to the log."""
        spec = self.program.specs[number]
        if number not in self._coming_in:  # one try or two: nothing happens in between
            self.called(number, "try_complete")
        there = sum(self._progress[key] >= spec.offset for key in set(spec.keys))
        return there >= spec.needed

    def signal(self, key: str) -> object:
        raise NotImplementedError


# The naive one.


@dataclass(eq=False)
class Record(random_runs.Record):
    """One operation, as the naive purgatory keeps it."""

    watched: bool = False
    delayed: bool = False


class NaiveRun(random_runs.NaiveRun[Record], Run):
    """An operation waits on its keys, and is tried with every signal on one of them."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, Record)

    def submit(self, number: int) -> object:
        record = self._records[number]
        ended = record.state in ("completed", "expired")
        if ended and not record.spec.with_future:
            return False
        if ended or (record.kept and record.state == "pending"):
            return "AlreadyWaiting"
        record.state = "pending"
        record.kept = True
        if record.spec.with_future:
            record.future = "pending"
        completed = self._try(record)
        if not completed:
            record.watched = True
            self._waiting.append(record)
            completed = self._try(record)
        if record.state == "pending" and record.kept:
            record.delayed = True
            self._start_timeout(record)
        return "future" if record.spec.with_future else completed

    def signal(self, key: str) -> object:
        found = [record for record in self._waiting if key in record.spec.keys]
        return sum([record.kept and self._try(record) for record in found])

    def cancel_key(self, key: str) -> object:
        found = [record for record in self._waiting if key in record.spec.keys]
        return [record.number for record in found if self.cancel(record.number)]

    def counts(self) -> tuple[int, ...]:
        return (
            sum(len(set(record.spec.keys)) for record in self._waiting),
            sum(record.delayed for record in self._waiting),
            sum(record.deadline_ms is not None for record in self._waiting),
        )

    def totals(self) -> tuple[int, ...]:
        return tuple(self._totals.values())

    def _try(self, record: Record) -> bool:
        if record.state != "pending" or not self.holds(record.number):
            return False
        if record.spec.raises == "try_complete":
            self._fail(record)
        return self._end(record, "completed")

    def _leave(self, record: Record) -> None:
        record.watched = record.delayed = False
        super()._leave(record)


# The real one.


class Real(RealOperation):
    """An operation of a program."""

    _in: Run

    def try_complete(self) -> bool:
        if not self._in.holds(self.number):
            return False
        self.maybe_raise("try_complete")
        return self.spec.just_true or self.force_complete()


class RealRun(random_runs.RealRun[Real], Run):
    """Sojourn's purgatory on a clock that is moved by hand."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._clock = ManualClock()
        self._purgatory = Purgatory(timer=Timer(self._clock, tick_ms=program.tick_ms))
        self._operations = [Real(self, number, spec) for number, spec in enumerate(program.specs)]

    def submit(self, number: int) -> object:
        operation = self._operations[number]
        try:
            if not operation.spec.with_future:
                return self._purgatory.try_complete_else_watch(operation, operation.spec.keys)
            operation.future = self._purgatory.submit(operation, operation.spec.keys)
        except AlreadyWaiting:
            return "AlreadyWaiting"
        return "future"

    def signal(self, key: str) -> object:
        return self._purgatory.check_and_complete(key)

    def cancel_key(self, key: str) -> object:
        return numbers(self._purgatory.cancel_for_key(key))


def first_difference(program: Program) -> str | None:
    return difference(NaiveRun(program).whole(), RealRun(program).whole())


if __name__ == "__main__":
    print_runs(lambda seed, kind, steps: RealRun(random_program(seed, kind, steps)).whole())
