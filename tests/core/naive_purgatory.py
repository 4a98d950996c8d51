"""A purgatory written as simply as it can be, and random programs to hold the real one against it.

The naive purgatory is one list that is searched for everything. It has no wheel, no watch lists
and no locks. See random_runs.py for what a program is, and how two runs of it are compared.

Run as a script it performs programs from a seed on the real purgatory and prints the log:

    python -m tests.core.naive_purgatory SEED PROGRAMS STEPS
"""

from __future__ import annotations

import random
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from sojourn import DelayedOperation, ManualClock, Purgatory, Timer
from sojourn.errors import AlreadyWaiting
from tests.core import random_runs
from tests.core.random_runs import SHARED, Step, difference, print_runs, settled

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

    # What the two purgatories do each in their own way; the names are those of the steps.

    def submit(self, number: int) -> object:
        raise NotImplementedError

    def signal(self, key: str) -> object:
        raise NotImplementedError

    def cancel_key(self, key: str) -> object:
        raise NotImplementedError

    def cancel(self, number: int) -> object:
        raise NotImplementedError

    def force(self, number: int) -> object:
        raise NotImplementedError

    def advance(self, ms: int) -> object:
        raise NotImplementedError

    def counts(self) -> tuple[int, int, int]:
        """Watched, delayed, waiting on the timer."""
        raise NotImplementedError

    def totals(self) -> tuple[int, int, int, int]:
        """Completed, expired, cancelled, errors."""
        raise NotImplementedError


# The naive one.


@dataclass(eq=False)
class Record:
    """One operation, as the naive purgatory keeps it."""

    number: int
    spec: Spec
    state: str = "pending"
    kept: bool = False  # it was submitted and not cancelled since
    watched: bool = False
    delayed: bool = False
    deadline_ms: int | None = None  # while it waits on the timer
    failed: bool = False
    future: str = "no future"


@dataclass(eq=False)
class Totals:
    completed: int = 0
    expired: int = 0
    cancelled: int = 0
    errors: int = 0


@dataclass(eq=False)
class Ready:
    queue: deque[Record] = field(default_factory=deque)
    running: bool = False


class NaiveRun(Run):
    """One list of all that waits, in the order it came."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._records = [Record(number, spec) for number, spec in enumerate(program.specs)]
        self._waiting: list[Record] = []
        self._ready = Ready()
        self._totals = Totals()
        self._now_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

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
            if record.spec.timeout_ms > 0:
                record.deadline_ms = self.deadline_ms(record.spec.timeout_ms)
            else:
                self._ready.queue.append(record)
                if not self._ready.running:
                    self._run_ready()
        return "future" if record.spec.with_future else completed

    def signal(self, key: str) -> object:
        found = [record for record in self._waiting if key in record.spec.keys]
        return sum([record.kept and self._try(record) for record in found])

    def cancel_key(self, key: str) -> object:
        found = [record for record in self._waiting if key in record.spec.keys]
        return [record.number for record in found if self.cancel(record.number)]

    def cancel(self, number: int) -> object:
        record = self._records[number]
        if record.state != "pending" or not record.kept:
            return False
        record.state = "cancelled"
        record.kept = False
        self._leave(record)
        self._totals.cancelled += 1
        if record.future == "pending":
            record.future = "cancelled"
        return True

    def force(self, number: int) -> object:
        return self._end(self._records[number], "completed")

    def advance(self, ms: int) -> object:
        target_ms = self._now_ms + ms
        while due := [
            record
            for record in self._waiting
            if record.deadline_ms is not None and record.deadline_ms <= target_ms
        ]:
            self._now_ms = min(record.deadline_ms for record in due if record.deadline_ms)
            for record in due:
                if record.deadline_ms == self._now_ms:
                    record.deadline_ms = None
                    self._ready.queue.append(record)
            self._run_ready()
        self._now_ms = target_ms
        return None

    def counts(self) -> tuple[int, int, int]:
        return (
            sum(len(set(record.spec.keys)) for record in self._waiting),
            sum(record.delayed for record in self._waiting),
            sum(record.deadline_ms is not None for record in self._waiting),
        )

    def totals(self) -> tuple[int, int, int, int]:
        totals = self._totals
        return totals.completed, totals.expired, totals.cancelled, totals.errors

    def outcome(self, number: int) -> str:
        record = self._records[number]
        return f"{number}:{record.state},{record.future}"

    def _try(self, record: Record) -> bool:
        if record.state != "pending" or not self.holds(record.number):
            return False
        if record.spec.raises == "try_complete":
            self._fail(record)
        return self._end(record, "completed")

    def _end(self, record: Record, state: str) -> bool:
        again = record.state == "cancelled" and state == "completed"
        if record.state != "pending" and not again:
            return False
        record.state = state
        self._leave(record)
        if record.kept:
            setattr(self._totals, state, getattr(self._totals, state) + 1)
        self.completed(record.number)
        if record.spec.raises == "on_complete":
            self._fail(record)
        if state == "expired":
            self.expired(record.number)
            if record.spec.raises == "on_expiration":
                self._fail(record)
        if record.future == "pending":
            record.future = "error" if record.failed else str(state == "completed")
        return True

    def _fail(self, record: Record) -> None:
        record.failed = True
        self._totals.errors += record.kept

    def _leave(self, record: Record) -> None:
        record.watched = record.delayed = False
        record.deadline_ms = None
        if record in self._waiting:
            self._waiting.remove(record)
        if record in self._ready.queue:
            self._ready.queue.remove(record)

    def _run_ready(self) -> None:
        self._ready.running = True
        while self._ready.queue:
            self._end(self._ready.queue.popleft(), "expired")
        self._ready.running = False


# The real one.


class Real(DelayedOperation):
    """An operation of a program."""

    def __init__(self, run: RealRun, number: int, spec: Spec) -> None:
        super().__init__(spec.timeout_ms)
        self._in = run
        self.number = number
        self.spec = spec
        self.future: Future[bool] | None = None

    def try_complete(self) -> bool:
        if not self._in.holds(self.number):
            return False
        self._maybe_raise("try_complete")
        return self.spec.just_true or self.force_complete()

    def on_complete(self) -> None:
        self._in.completed(self.number)
        self._maybe_raise("on_complete")

    def on_expiration(self) -> None:
        self._in.expired(self.number)
        self._maybe_raise("on_expiration")

    def _maybe_raise(self, where: str) -> None:
        if self.spec.raises == where:
            raise ValueError(f"{self.number} was to raise in {where}")


class RealRun(Run):
    """Sojourn's purgatory on a clock that is moved by hand."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._clock = ManualClock()
        self._purgatory = Purgatory(timer=Timer(self._clock, tick_ms=program.tick_ms))
        self._operations = [Real(self, number, spec) for number, spec in enumerate(program.specs)]

    def now_ms(self) -> int:
        return self._clock.now_ms

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
        operations = self._purgatory.cancel_for_key(key)
        return [operation.number for operation in operations if isinstance(operation, Real)]

    def cancel(self, number: int) -> object:
        return self._operations[number].cancel()

    def force(self, number: int) -> object:
        return self._operations[number].force_complete()

    def advance(self, ms: int) -> object:
        self._clock.advance(ms)
        return None

    def counts(self) -> tuple[int, int, int]:
        return self._purgatory.watched, self._purgatory.delayed, len(self._purgatory.timer)

    def totals(self) -> tuple[int, int, int, int]:
        metrics = self._purgatory.metrics()
        return metrics.completed, metrics.expired, metrics.cancelled, metrics.errors

    def outcome(self, number: int) -> str:
        operation = self._operations[number]
        state = repr(operation).rstrip(">").split()[-1]
        return f"{number}:{state},{settled(operation.future)}"


def first_difference(program: Program) -> str | None:
    return difference(NaiveRun(program).whole(), RealRun(program).whole())


if __name__ == "__main__":
    print_runs(lambda seed, kind, steps: RealRun(random_program(seed, kind, steps)).whole())
