"""Waiting for progress written as simply as it can be, and random programs to hold ours against it.

The naive purgatory is one list of what waits, in the order it came. A signal goes through all of
it; there is no tree, no wheel and no slab. See random_runs.py for what a program is, and how two
runs of it are compared.

Run as a script it performs programs from a seed on the real purgatory and prints the log:

    python -m tests.core.naive_progress SEED PROGRAMS STEPS
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from sojourn import ManualClock, Purgatory, Timer
from sojourn.errors import AlreadyWaiting, Closed, Full
from tests.core import random_runs
from tests.core.random_runs import SHARED, RealOperation, Step, difference, numbers, print_runs

LEAST, MOST = -(2**63), 2**63 - 1

# Steps: ("submit" | "cancel" | "force", number), ("submit_many", numbers),
# ("signal", (key, offset)), ("signal_many", pairs), ("cancel_key" | "look", key), ("advance", ms),
# ("close", None).


class Named:
    """A key whose hash and equality are Python code; all of them collide."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name


# A program knows a key by its number. Each use of it makes a new object, equal to the others.
KEYS: tuple[Callable[[], Hashable], ...] = (
    lambda: "a",
    lambda: "".join(("order", "-1")),
    lambda: 7,  # where Named ones collide with it
    lambda: 2**70,
    lambda: b"a",
    lambda: ("topic", 3),
    lambda: (Named("x"), 1),
    lambda: Named("x"),
    lambda: Named("y"),
    lambda: 2.5,
)


class Spec(NamedTuple):
    """One operation of a program."""

    timeout_ms: int
    requires: tuple[tuple[int, int], ...]  # number of the key, offset
    needed: int | None
    raises: str = ""
    with_future: bool = False
    reactions: tuple[Step, ...] = ()


class Program(NamedTuple):
    """A purgatory's settings, operations, and what happens to them."""

    kind: str
    tick_ms: int
    max_waiting: int | None
    forget_keys_after_ms: int | None
    own_timer: bool
    specs: tuple[Spec, ...]
    steps: tuple[Step, ...]


def random_program(seed: int, kind: str, steps: int) -> Program:
    """Make a program; the same for the same arguments, on every machine."""
    rng = random.Random(f"{seed} {kind} {steps}")
    number_of_operations = max(4, steps // 2)
    keys = rng.sample(range(len(KEYS)), rng.choice((1, 3, 6, len(KEYS))))
    top = 4 + steps // 12

    def an_offset(highest: int) -> int:
        if rng.random() < 0.03:
            return rng.choice((LEAST, LEAST + 1, -1, MOST - 1, MOST))
        return rng.randrange(-3, highest)

    def a_signal(progress: int) -> tuple[int, int]:
        """Signals rise in the course of a program, so that some operations have to wait."""
        key = rng.choice(keys)
        if rng.random() < 0.02:
            return key, rng.choice((LEAST, -1, top, MOST - 1, MOST))
        return key, rng.randrange(-4, 1 + progress)

    def a_step(n: int, reacting: bool) -> Step:
        verb = rng.choices(
            (
                "submit",
                "submit_many",
                "signal",
                "signal_many",
                "cancel_key",
                "cancel",
                "force",
                "look",
                "advance",
            ),
            (36, 3, 22, 4, 3, 6, 5, 4, 0 if reacting else 18),
        )[0]
        progress = top * n // steps
        if verb in ("submit", "cancel", "force"):
            return verb, rng.randrange(number_of_operations)
        if verb == "submit_many":
            return verb, tuple(rng.sample(range(number_of_operations), rng.choice((1, 2, 4))))
        if verb == "signal":
            return verb, a_signal(progress)
        if verb == "signal_many":
            return verb, tuple(a_signal(progress) for _ in range(rng.randrange(4)))
        if verb == "advance":
            return verb, rng.choice((0, 1, 1, 2, 5, 19, 20, 21, 63, 400))
        return verb, rng.choice(keys)

    def a_spec() -> Spec:
        count = rng.choice((1, 1, 2, 3, 4, 6))
        reactions: tuple[Step, ...] = ()
        if kind != SHARED and rng.random() < 0.25:
            n = rng.randrange(steps)
            reactions = tuple(a_step(n, True) for _ in range(rng.randrange(1, 4)))
            if rng.random() < 0.01:
                reactions = (*reactions, ("close", None))
        return Spec(
            timeout_ms=rng.choice((-3, 0, 1, 2, 5, 19, 20, 21, 50, 137, 399, 400, 801)),
            requires=tuple((rng.choice(keys), an_offset(top)) for _ in range(count)),
            needed=rng.choice((None, 1, count, rng.randint(1, count))),
            raises=rng.choice(("on_complete", "on_expiration")) if rng.random() < 0.1 else "",
            with_future=rng.random() < 0.3,
            reactions=reactions,
        )

    specs = tuple(a_spec() for _ in range(number_of_operations))
    all_steps = [a_step(n, False) for n in range(steps)]
    if rng.random() < 0.3:
        all_steps[rng.randrange(3 * steps // 4, steps)] = ("close", None)
    return Program(
        kind,
        rng.choice((1, 1, 1, 3, 20)),
        rng.choice((None, None, 1, 5, 20)),
        rng.choice((None, None, 0, 1, 20, 100)),
        rng.random() < 0.5,
        specs,
        tuple(all_steps),
    )


class Run(random_runs.Run):
    """One run of a program, and the log it writes."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.program = program

    def whole(self) -> list[str]:
        super().whole()
        self.log.append(f"{[self.look(key) for key in range(len(KEYS))]}")
        return self.log

    def perform(self, step: Step) -> None:
        verb, what = step
        answer: object = "left out"
        if verb not in ("submit", "submit_many"):
            answer = getattr(self, verb)(what)
        else:
            numbers = [what] if verb == "submit" else list(what)
            if all(self.may_submit(number) for number in numbers):
                try:
                    answer = getattr(self, verb)(what)
                except (AlreadyWaiting, Closed, Full) as error:
                    answer = type(error).__name__
        self.log.append(f"{verb} {what} -> {answer}")

    # What the two do each in their own way; the names are those of the steps.

    def submit_many(self, numbers: tuple[int, ...]) -> object:
        raise NotImplementedError

    def signal(self, signal: tuple[int, int]) -> int:
        raise NotImplementedError

    def signal_many(self, signals: tuple[tuple[int, int], ...]) -> object:
        raise NotImplementedError

    def look(self, key: int) -> object:
        """The key's progress, and who waits for more, in order."""
        raise NotImplementedError

    def close(self, _: None) -> object:
        raise NotImplementedError


# The naive one.


@dataclass(eq=False)
class Record(random_runs.Record):
    """One operation, as the naive purgatory keeps it."""

    open: list[tuple[int, int]] | None = None  # requirements that do not hold yet
    missing: int = 0  # how many of these must still come to hold
    since_ms: int = 0


class NaiveRun(random_runs.NaiveRun[Record], Run):
    """A signal goes through all that waits."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, Record)
        self._progress: dict[int, int] = {}
        self._idle_since_ms: dict[int, int] = {}
        self._closed = False
        self._totals["refused"] = 0
        self._waited_ms: list[int] = []

    def submit(self, number: int) -> object:
        spec = self._records[number].spec
        if spec.with_future and self._records[number].state in ("completed", "expired"):
            raise AlreadyWaiting
        completed = self._submit(number, spec.with_future)
        return "future" if spec.with_future else completed

    def submit_many(self, numbers: tuple[int, ...]) -> object:
        return sum([self._submit(number, False) for number in numbers])

    def _submit(self, number: int, with_future: bool) -> bool:
        record = self._records[number]
        if self._closed:
            raise Closed
        if record.state in ("completed", "expired"):
            return False
        if record.kept:
            raise AlreadyWaiting
        most = self.program.max_waiting
        if most is not None and len(self._waiting) >= most:
            self._totals["refused"] += 1
            raise Full
        spec = record.spec
        record.kept = True
        record.future = "pending" if with_future else record.future
        record.open = [(key, offset) for key, offset in spec.requires if not self._at(key, offset)]
        holding = len(spec.requires) - len(record.open)
        record.missing = (spec.needed or len(spec.requires)) - holding
        record.since_ms = self._now_ms
        record.state = "pending"
        if record.missing <= 0:
            return self._end(record, "completed")
        self._waiting.append(record)
        self._note_idle_keys()
        self._start_timeout(record)
        return False

    def _at(self, key: int, offset: int) -> bool:
        return key in self._progress and self._progress[key] >= offset

    def signal(self, signal: tuple[int, int]) -> int:
        key, offset = signal
        self._forget()
        self._progress[key] = max(offset, self._progress.get(key, offset))
        self._idle_since_ms.pop(key, None)
        ended = []
        for at, record in self._places(key):
            if at <= offset and record.open is not None:
                record.open.remove((key, at))
                record.missing -= 1
                if record.missing == 0:
                    self._mark(record, "completed")
                    ended.append(record)
        self._note_idle_keys()
        for record in ended:
            self._finish(record)
        return len(ended)

    def _places(self, key: int) -> list[tuple[int, Record]]:
        """Offsets that are waited for on the key, and by whom: by offset, then as they came."""
        places = [
            (offset, record)
            for record in self._waiting
            for required, offset in record.open or ()
            if required == key
        ]
        return sorted(places, key=lambda place: place[0])

    def _forget(self) -> None:
        after_ms = self.program.forget_keys_after_ms
        if after_ms is not None:
            for key, since_ms in list(self._idle_since_ms.items()):
                if since_ms < self._now_ms - after_ms:
                    del self._idle_since_ms[key], self._progress[key]

    def _note_idle_keys(self) -> None:
        """A key is idle from the moment nobody waits for it, or from its last signal after that."""
        busy = {key for record in self._waiting for key, _ in record.open or ()}
        for key in self._progress:
            if key in busy:
                self._idle_since_ms.pop(key, None)
            else:
                self._idle_since_ms.setdefault(key, self._now_ms)

    def signal_many(self, signals: tuple[tuple[int, int], ...]) -> object:
        return sum([self.signal(signal) for signal in signals])

    def cancel_key(self, key: int) -> object:
        records = list(dict.fromkeys(record for _, record in self._places(key)))
        return [record.number for record in records if self.cancel(record.number)]

    def look(self, key: int) -> object:
        numbers = [record.number for _, record in self._places(key)]
        return self._progress.get(key), list(dict.fromkeys(numbers))

    def close(self, _: None) -> object:
        self._closed = True
        dropped = sum([bool(self.cancel(record.number)) for record in list(self._waiting)])
        if self.program.forget_keys_after_ms is not None:
            self._progress.clear()
            self._idle_since_ms.clear()
        return dropped

    def counts(self) -> tuple[int, ...]:
        open_ones = [key for record in self._waiting for key, _ in record.open or ()]
        return (
            len(open_ones),
            len(self._waiting),
            sum(record.deadline_ms is not None for record in self._waiting),
            len({*open_ones, *self._progress}),
        )

    def totals(self) -> tuple[int, ...]:
        return *self._totals.values(), len(self._waited_ms), sum(self._waited_ms)

    def _mark(self, record: Record, state: str) -> None:
        super()._mark(record, state)
        if record.kept:
            self._waited_ms.append(self._now_ms - record.since_ms)

    def _leave(self, record: Record) -> None:
        record.open = None
        record.missing = 0
        waited = record in self._waiting
        super()._leave(record)
        if waited:
            self._note_idle_keys()


# The real one.


class Real(RealOperation):
    """An operation of a program."""

    futures = 0

    def try_complete(self) -> bool:
        raise AssertionError("an operation that waits for progress is never tried")


class RealRun(random_runs.RealRun[Real], Run):
    """Sojourn's purgatory on a clock that is moved by hand."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._clock = ManualClock()
        tick_ms = program.tick_ms
        timer = None if program.own_timer else Timer(self._clock, tick_ms=tick_ms)
        self._purgatory = Purgatory(
            "random",
            timer,
            self._clock,
            tick_ms=tick_ms if program.own_timer else None,
            max_waiting=program.max_waiting,
            forget_keys_after_ms=program.forget_keys_after_ms,
        )
        self._operations = [Real(self, number, spec) for number, spec in enumerate(program.specs)]

    def submit(self, number: int) -> object:
        operation = self._operations[number]
        requires, needed = self._requires(number), operation.spec.needed
        if not operation.spec.with_future:
            return self._purgatory.try_complete_else_watch(
                operation, requires=requires, needed=needed
            )
        futures = operation.futures
        future = self._purgatory.submit(operation, requires=requires, needed=needed)
        if operation.futures == futures:  # else a callback has submitted it anew meanwhile
            operation.future = future
        operation.futures += 1
        return "future"

    def submit_many(self, numbers: tuple[int, ...]) -> object:
        return self._purgatory.submit_many(
            (self._operations[number], self._requires(number), self._operations[number].spec.needed)
            for number in numbers
        )

    def _requires(self, number: int) -> list[tuple[Hashable, int]]:
        return [(KEYS[key](), offset) for key, offset in self._operations[number].spec.requires]

    def signal(self, signal: tuple[int, int]) -> int:
        key, offset = signal
        return self._purgatory.signal(KEYS[key](), offset)

    def signal_many(self, signals: tuple[tuple[int, int], ...]) -> object:
        return self._purgatory.signal_many([(KEYS[key](), offset) for key, offset in signals])

    def cancel_key(self, key: int) -> object:
        return numbers(self._purgatory.cancel_for_key(KEYS[key]()))

    def look(self, key: int) -> object:
        purgatory = self._purgatory
        return purgatory.progress(KEYS[key]()), numbers(purgatory.waiting(KEYS[key]()))

    def close(self, _: None) -> object:
        return self._purgatory.close()

    def counts(self) -> tuple[int, ...]:
        """Also: known keys."""
        return *super().counts(), self._purgatory.metrics().known_keys

    def totals(self) -> tuple[int, ...]:
        """Also: refused; durations of waiting, and their sum."""
        metrics = self._purgatory.metrics()
        waiting = metrics.waiting
        return *super().totals(), metrics.refused, waiting.count, waiting.total_us // 1000


def first_difference(program: Program) -> str | None:
    return difference(NaiveRun(program).whole(), RealRun(program).whole())


if __name__ == "__main__":
    print_runs(lambda seed, kind, steps: RealRun(random_program(seed, kind, steps)).whole())
